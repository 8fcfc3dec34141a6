// The law at a place or of an area's mean: fetched a stretch of times after the other, drawn as a fan chart.

import { fanChart } from "./chart.js";
import { number, percent, placeWords, withUnits } from "./format.js";
import { alongLeads, by, fileA, goTo, page, position, say, settled, threshold, timesOf, variableA } from "./page.js";
import { csv, download, fileName } from "./save.js";
import { nearest, nearWords } from "./stage.js";

const STRETCH = 32; // times that one question asks for
const INVITATION = "Click a place on the map, or drag a box: its possible values at all times appear here.";
let law = null; // {mean, quantiles, above, read, cells}, each along the times
let asked = 0;

export async function ask() {
  const turn = (asked += 1);
  const { place, ring, variable, start } = page.state;
  law = null;
  by("save-law").hidden = true;
  if (!place && !ring) {
    by("chart").replaceChildren();
    return say("ask-words", INVITATION);
  }
  const count = timesOf().length;
  const parts = Array.from({ length: Math.ceil(count / STRETCH) }, (_, k) => k * STRETCH);
  const here = Math.floor(position() / STRETCH) * STRETCH;
  parts.sort((a, b) => Math.abs(a - here) - Math.abs(b - here)); // the time on the map first
  try {
    for (const first of parts) {
      const above = threshold() ?? "";
      const part = ring
        ? await page.source.area(0, variable, ring, start, first, above)
        : await page.source.place(0, variable, ...place, start, first, above);
      if (turn !== asked) return undefined;
      take(part, count);
      drawLaw();
    }
  } catch (error) {
    if (turn === asked) say("ask-words", error.message);
  }
  return undefined;
}

function take(part, count) {
  const empty = () => Array(count).fill(null);
  law ??= { mean: empty(), quantiles: {}, above: empty(), read: part.read, cells: part.cells };
  const put = (row, values) => values.forEach((value, k) => (row[part.first + k] = value));
  put(law.mean, part.mean);
  for (const [q, values] of Object.entries(part.quantiles)) put((law.quantiles[q] ??= empty()), values);
  if (part.above) put(law.above, part.above);
}

// Instants, or numbers; where they do not ascend (scenes of several simulations), the scenes are counted.
function chartTimes() {
  const { start, lead, clock } = fileA().times;
  const times = alongLeads() ? lead.map((ahead) => start[page.state.start] + ahead) : start.map((begin) => begin + lead[0]);
  const ascend = times.every((time, k) => !k || time > times[k - 1]);
  return ascend ? { times, dated: clock, joined: times.length > 1 } : { times: times.map((_, k) => k + 1), dated: false, joined: false };
}

export function drawLaw() {
  if (!law) return;
  const { place, ring, start } = page.state;
  const { times, dated, joined } = chartTimes();
  const words = lawWords();
  say("ask-words", words);
  by("save-law").hidden = false;
  fanChart(by("chart"), {
    law,
    times,
    joined,
    clock: dated,
    zone: page.about.zone,
    read: dated ? law.read : null,
    start: alongLeads() ? fileA().times.start[start] : Infinity,
    now: position(),
    label: `Fan chart. ${words}`,
    onTime: goTo,
  });
  by("chart").dataset.asked = ring ? "area" : place.join(",");
}

function lawWords() {
  const { place, ring } = page.state;
  const [k, units] = [position(), variableA().units];
  const near = place && page.scenes.a && nearest(page.scenes.a, ...place);
  const away = near ? `, ${nearWords(near)}` : "";
  const where = ring ? `Mean of the area (${law.cells} cells)` : placeWords(fileA(), ...place) + away;
  const low = law.quantiles["0.05"]?.[k] ?? null;
  const interval = low === null ? "" : `, 90 % between ${number(low)} and ${withUnits(law.quantiles["0.95"][k], units)}`;
  const share = threshold() ? law.above[k] : null;
  const chance = share === null ? "" : `, ${percent(share)} chance above ${number(Number(threshold()))}`;
  return `${where}: mean ${withUnits(law.mean[k], units)}${interval}${chance}.`;
}

// The whole of it: a click while parts are still asked for waits for them.
export async function saveLaw() {
  if (!(await settled("law", () => law))) return;
  const { times, dated } = chartTimes();
  const names = Object.keys(law.quantiles).sort();
  const chance = threshold();
  const rows = [["time", "mean", ...names.map((q) => `q${q}`), ...(chance ? [`chance above ${chance}`] : [])]];
  times.forEach((time, k) => {
    const when = dated ? new Date(time).toISOString() : time;
    rows.push([when, law.mean[k], ...names.map((q) => law.quantiles[q][k]), ...(chance ? [law.above[k]] : [])]);
  });
  const where = page.state.ring ? "area" : page.state.place.join(" ");
  download(fileName(`${page.state.variable} ${where}`, "csv"), csv(rows), "text/csv");
}
