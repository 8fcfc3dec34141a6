// The page: one state, drawn anew whenever it changes. Text from the data is only ever set as text.

import { asking } from "./asking.js";
import { Served } from "./data.js";
import { Embedded } from "./embedded.js";
import { instant, number, percent, placeWords, timeWords, withUnits } from "./format.js";
import { drawImagined, fillFiles, imagine } from "./imagine.js";
import { ask, drawLaw, saveLaw } from "./law.js";
import { element, layerChoice } from "./layers.js";
import { MapPanel } from "./map.js";
import { flicker, play } from "./motion.js";
import { alongLeads, by, fileA, goTo, page, position, say, settled, threshold, timesOf, variableA } from "./page.js";
import { cellRows, csv, download, fileName, picture } from "./save.js";
import { nearest, nearWords, scaleOf, sceneOf, untaught } from "./stage.js";
import { fitted, fromHash, toHash } from "./state.js";

let [drawing, drawn, writing] = [0, 0, 0];
let showLayers = [];

page.source = by("embedded") ? new Embedded(by("embedded")) : new Served();
page.panels = { a: new MapPanel(by("map-a")), b: new MapPanel(by("map-b")) };
page.change = (part, anew = false) => {
  const before = { ...page.state, above: threshold() };
  page.state = { ...page.state, ...part };
  clearTimeout(writing);
  writing = setTimeout(writeLink, 250);
  const now = { ...page.state, above: threshold() };
  page.waiting.map = render();
  const along = alongLeads() ? ["start"] : [];
  if (anew || ["variable", "place", "ring", "above", ...along].some((name) => before[name] !== now[name])) page.waiting.law = ask();
  else drawLaw();
};

function writeLink() {
  history.replaceState(null, "", `#${toHash(page.state)}`);
}

async function render() {
  const turn = (drawing += 1);
  const { state, about, panels } = page;
  showControls();
  try {
    const wanted = state.second ? ["a", "b"] : ["a"];
    const made = await Promise.all(wanted.map((which) => sceneOf(page.source, about, state, which)));
    if (turn !== drawing) return; // something newer was asked for meanwhile
    page.scenes = Object.fromEntries(wanted.map((which, k) => [which, made[k]]));
    panels.b.canvas.hidden = !page.scenes.b;
    by("panels").classList.toggle("stacked", Boolean(page.scenes.b) && by("panels").clientWidth < 720);
    for (const which of wanted) {
      const scene = page.scenes[which];
      scene.scale = scaleOf(scene, made.filter((one) => one !== scene), state, about.colours);
      [scene.names, scene.window] = [state.names, state.window];
      scene.marks = { ...page.marks, place: state.place, ring: state.ring, imagined: state.imagined };
      panels[which].show(scene);
      panels[which].canvas.setAttribute("aria-label", `Map: ${scene.head}, ${scene.foot}`);
    }
    panels.a.canvas.dataset.drawn = drawn += 1;
    showLimits();
    showSensors();
    showTrust();
  } catch (error) {
    if (turn === drawing) say("readout", error.message);
  }
}

function redraw() {
  for (const [which, scene] of Object.entries(page.scenes)) {
    scene.marks = { ...scene.marks, ...page.marks };
    page.panels[which].draw();
  }
}

function showControls() {
  const { state, about, mode } = page;
  const words = timeWords(fileA(), state.start, state.lead, about.zone);
  say("time-words", words);
  by("time").setAttribute("aria-valuetext", words);
  const values = { variable: state.variable, time: position(), start: state.start, scale: state.scale, "file-b": state.fileB };
  for (const [id, value] of Object.entries(values)) by(id).value = value;
  for (const label of document.querySelectorAll(".own")) label.hidden = state.scale !== "own";
  [by("compare").checked, by("names").checked] = [Boolean(state.second), state.names];
  by("compare-body").hidden = !state.second;
  by("forget").hidden = !state.place && !state.ring;
  [by("zoom").hidden, by("whole").hidden] = [!state.ring, !state.window];
  by("draw-area").setAttribute("aria-pressed", mode === "area");
  by("imagine-place").setAttribute("aria-pressed", mode === "imagine");
  by("imagine-value-label").hidden = by("imagine-clear").hidden = !state.imagined.length;
  showLayers.forEach((show) => show());
}

function showLimits() {
  const { low, high } = page.scenes.a.scale;
  if (page.state.scale !== "own") [by("low").value, by("high").value] = [low, high].map((v) => Number(v.toPrecision(3)));
}

function showTrust() {
  const found = untaught(page.scenes.a);
  by("trust").hidden = !found?.never;
  if (!found?.never) return;
  const share = `${found.never} of ${found.cells} cells, ${percent(found.never / found.cells)}`;
  say("trust-words", `Hatched: no reading ever taught the model here (${share}). Do not trust the map there unless a sensor is near.`);
}

function showSensors() {
  const { file, dots, scale } = page.scenes.a;
  const listed = dots.filter((dot) => dot.name || dot.given || dot.later);
  const later = scale.field && dots.some((dot) => dot.later);
  const words = [dots.some((dot) => dot.given) ? "● read at the start, given to the model" : "", later ? "■ read at the time of this map" : ""];
  say("legend", words.filter(Boolean).join("   "));
  say("sensor-count", `(${listed.length})`);
  const { units } = variableA();
  say("sensor-unit", units ? `Reading [${units}]` : "Reading");
  by("sensors").hidden = !listed.length;
  by("names-label").hidden = !listed.some((dot) => dot.name);
  if (!by("sensors").open) return;
  by("sensor-rows").replaceChildren(
    ...listed.slice(0, 500).map((dot) => {
      const go = element("button", { type: "button", textContent: dot.name || placeWords(file, dot.y, dot.x) });
      go.addEventListener("click", () => page.change({ place: [dot.y, dot.x], ring: null }));
      const value = dot.value === null ? (dot.given ? "read" : "not read") : number(dot.value) + (dot.later ? " ■" : "");
      return element("tr", {}, element("td", {}, go), element("td", {}, value));
    }),
  );
}

function hover(which, place, event) {
  const tip = by("tip");
  tip.hidden = !place;
  if (!place) return;
  tip.textContent = describe(which, place).join("\n");
  const right = event.clientX > window.innerWidth - 320;
  tip.style.left = right ? "auto" : `${event.clientX + 16}px`;
  tip.style.right = right ? `${window.innerWidth - event.clientX + 16}px` : "auto";
  tip.style.top = `${Math.min(event.clientY + 14, window.innerHeight - 110)}px`;
}

// The value, the place, the nearest sensor, and whether to trust it.
function describe(which, [y, x]) {
  const scene = page.scenes[which];
  const [row, column] = page.panels[which].cell(y, x);
  const cell = row * scene.file.x.length + column;
  const value = scene.values[cell];
  const words = [scene.kind === "above" ? percent(value) : withUnits(value, scene.units), placeWords(scene.file, y, x)];
  const near = nearest(scene, y, x);
  if (near) {
    const read = near.dot.value === null ? "" : `, which read ${withUnits(near.dot.value, scene.variable.units)}`;
    words.push(`${nearWords(near)}${read}`);
  }
  if (scene.never?.[cell]) words.push("no reading ever taught the model here");
  return words;
}

function questions(which) {
  asking(page.panels[which], {
    mode: () => page.mode,
    hover: (place, event) => hover(which, place, event),
    place: (place) => page.change({ place, ring: null }, true),
    ring: (ring) => {
      [page.marks.draft, page.mode] = [null, "ask"];
      say("readout", "");
      page.change({ ring, place: null }, true);
    },
    draft: (line) => {
      page.marks.draft = line;
      redraw();
    },
    cursor: (cell, place) => {
      page.marks.cursor = cell;
      say("readout", cell ? describe(which, place).join(", ") : "");
      redraw();
    },
    imagine,
  });
}

function setMode(wanted) {
  page.mode = page.mode === wanted ? "ask" : wanted;
  page.marks.draft = null;
  const words = { area: "Click the corners of the area; a double click closes it.", imagine: "Click where the imagined sensor should stand." };
  say("readout", words[page.mode] ?? "");
  showControls();
  redraw();
}

async function copyLink() {
  writeLink();
  const done = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
  say("readout", done ? "The link to this view is copied." : "The address of this page is the link to this view: copy it from the address bar.");
}

// A click while the map is still asked for waits for it.
async function save(ending, content, type) {
  if (!(await settled("map", () => page.scenes.a))) return say("readout", "There is no map to save.");
  return download(fileName(page.scenes.a.head, ending), await content(), type);
}

function fill() {
  const file = fileA();
  const option = (value, textContent) => element("option", { value, textContent });
  const startWords = (time, n) => (file.times.clock ? instant(time, page.about.zone) : `scene ${n + 1} (time ${number(time)})`);
  by("variable").replaceChildren(...file.variables.map((one) => option(one.name, one.name)));
  by("start").replaceChildren(...file.times.start.map((time, n) => option(n, startWords(time, n))));
  by("variable-label").hidden = file.variables.length < 2;
  by("start-label").hidden = !alongLeads() || file.times.start.length < 2;
  by("time").max = timesOf().length - 1;
  by("play").hidden = by("time").hidden = timesOf().length < 2;
  by("imagine").hidden = !page.about.imagine;
  fillFiles();
}

function wire() {
  const { change } = page;
  const on = (id, kind, act) => by(id).addEventListener(kind, act);
  const limits = () => ({ low: Number(by("low").value), high: Number(by("high").value) });
  on("variable", "change", (event) => change({ variable: event.target.value, layer: "mean", second: "", scale: "fixed" }));
  on("time", "input", (event) => goTo(Number(event.target.value)));
  on("start", "change", (event) => change({ start: Number(event.target.value) }));
  on("play", "click", play);
  on("scale", "change", (event) => change({ scale: event.target.value, ...limits() }));
  for (const id of ["low", "high"]) on(id, "change", () => change(limits()));
  on("names", "change", (event) => change({ names: event.target.checked }));
  on("compare", "change", (event) => change({ second: event.target.checked ? beside() : "" }));
  on("file-b", "change", (event) => change({ fileB: Number(event.target.value), second: page.state.layer }));
  on("draw-area", "click", () => setMode("area"));
  on("imagine-place", "click", () => setMode("imagine"));
  on("imagine-clear", "click", () => drawImagined(page.state.imagined.slice(0, -1)));
  on("imagine-value", "change", (event) => {
    const last = page.state.imagined.at(-1);
    drawImagined([...page.state.imagined.slice(0, -1), { ...last, value: Number(event.target.value) }]);
  });
  on("zoom", "click", () => change({ window: boxAround(page.state.ring), ring: null }));
  on("whole", "click", () => change({ window: null }));
  on("forget", "click", () => change({ place: null, ring: null }, true));
  on("sensors", "toggle", showSensors);
  on("copy-link", "click", copyLink);
  on("save-png", "click", () => save("png", () => picture(Object.keys(page.scenes).map((which) => page.panels[which]))));
  on("save-csv", "click", () => save("csv", () => csv(cellRows(Object.values(page.scenes))), "text/csv"));
  on("save-law", "click", saveLaw);
  for (const id of ["copy-link", "save-png", "save-csv"]) by(id).disabled = false;
  const context = (number) => () => {
    const file = page.about.files[number()];
    return { variable: file.variables.find((one) => one.name === page.state.variable) ?? file.variables[0], members: file.members };
  };
  showLayers = [
    layerChoice(by("layer-a"), "layer-a", { get: () => page.state.layer, set: (layer) => change({ layer }), flicker, context: context(() => 0) }),
    layerChoice(by("layer-b"), "layer-b", { get: () => page.state.second || "mean", set: (second) => change({ second }), context: context(() => page.state.fileB) }),
  ];
  questions("a");
  questions("b");
  new ResizeObserver(() => {
    redraw();
    drawLaw();
  }).observe(by("panels"));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  window.addEventListener("hashchange", (event) => {
    // The address that was followed: an older view may have been written over it before this is heard.
    page.state = fitted(fromHash(new URL(event.newURL).hash), page.about);
    change({}, true);
  });
}

function boxAround(ring) {
  const [x, y] = [0, 1].map((axis) => ring.map((corner) => corner[axis]));
  return [Math.min(...y), Math.min(...x), Math.max(...y), Math.max(...x)];
}

// What to put beside the first map: the same layer of another file, or the spread beside the mean.
function beside() {
  if (page.about.named > 1) page.state = { ...page.state, fileB: 1 };
  return page.about.named > 1 ? page.state.layer : page.state.layer === "std" ? "mean" : "std";
}

async function open() {
  try {
    page.about = await page.source.about();
  } catch (error) {
    return say("subtitle", error.message);
  }
  const { about } = page;
  about.named = about.files.length; // imagined maps come after them
  page.state = fitted(fromHash(location.hash), about);
  const file = fileA();
  document.title = `${file.variables.map((one) => one.name).join(", ")} · solidfield`;
  say("title", file.title || file.name);
  say("subtitle", `${about.files.map((one) => one.name).join(" beside ")} · ${file.members} members · ${file.y.length} x ${file.x.length} cells`);
  fill();
  wire();
  page.change({}, true);
  return page.state.imagined.length ? drawImagined(page.state.imagined) : undefined;
}

open();
