// The fan chart: bands of 90 % and 50 %, the median, what was read before and after the start, and the time on the map.

import { instant, number, shift, ticks } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const [HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [210, 46, 10, 12, 42];

function node(name, attributes, parent, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent?.append(element);
  return element;
}

// law: {mean, quantiles: {"0.05": [...]}} over `times`; read: {time, value} or null; now: position on the map.
export function fanChart(holder, { law, times, joined, clock, zone, units, read, start, now, label, onTime }) {
  holder.replaceChildren();
  const width = Math.max(holder.clientWidth, 260);
  const svg = node("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": label }, holder);
  const band = (low, high) => (law.quantiles[low] && law.quantiles[high] ? [law.quantiles[low], law.quantiles[high]] : null);
  const bands = [band("0.05", "0.95"), band("0.25", "0.75")].filter(Boolean);
  const middle = law.quantiles["0.5"] ?? law.mean;
  const [least, most] = [Math.min(...times), Math.max(...times)];
  const before = Math.max(most - least, clock ? 3 * 3600000 : 1);
  const near = (read?.time ?? []).map((time, k) => [time, read.value[k]]).filter(([time]) => time >= least - before && time <= most);
  const xs = [...times, ...near.map(([time]) => time)];
  let [x0, x1] = [Math.min(...xs), Math.max(...xs)];
  if (x0 === x1) [x0, x1] = [x0 - 1, x1 + 1];
  if (!joined) [x0, x1] = [x0 - 0.03 * (x1 - x0), x1 + 0.03 * (x1 - x0)];
  const known = [...bands.flat(2), ...middle, ...near.map(([, value]) => value)].filter((v) => v !== null && Number.isFinite(v));
  if (!known.length) return holder.replaceChildren();
  let [y0, y1] = [Math.min(...known), Math.max(...known)];
  const pad = 0.06 * (y1 - y0 || Math.abs(y1) || 1);
  [y0, y1] = [y0 - pad, y1 + pad];
  const px = (x) => LEFT + ((x - x0) / (x1 - x0)) * (width - LEFT - RIGHT);
  const py = (y) => HEIGHT - BOTTOM - ((y - y0) / (y1 - y0)) * (HEIGHT - TOP - BOTTOM);
  for (const value of ticks(y0, y1, 5)) {
    node("line", { x1: LEFT, x2: width - RIGHT, y1: py(value), y2: py(value), stroke: "var(--line)" }, svg);
    node("text", { x: LEFT - 6, y: py(value) + 4, "text-anchor": "end" }, svg, number(value));
  }
  timeAxis(svg, { x0, x1, px, width, clock, zone });
  bands.forEach(([low, high], k) => {
    for (const path of stretches(times, low, high, px, py, joined)) {
      node("path", { d: path, fill: "var(--band)", "fill-opacity": k ? 0.38 : 0.2, stroke: "none" }, svg);
    }
  });
  if (joined) node("path", { d: line(times, middle, px, py), fill: "none", stroke: "var(--band)", "stroke-width": 2 }, svg);
  else times.forEach((time, k) => Number.isFinite(middle[k] ?? NaN) && node("circle", { cx: px(time), cy: py(middle[k]), r: 3, fill: "var(--band)" }, svg));
  node("line", { x1: px(times[now]), x2: px(times[now]), y1: TOP, y2: HEIGHT - BOTTOM, stroke: "var(--ink)", "stroke-dasharray": "3 3" }, svg);
  for (const [time, value] of near) {
    const given = time <= start;
    const look = { fill: given ? "var(--read)" : "var(--card)", stroke: "var(--read)", "stroke-width": 1.8 };
    node("circle", { cx: px(time), cy: py(value), r: 3.4, ...look }, svg);
  }
  legend(svg, near.some(([time]) => time <= start) && (start === Infinity ? "read" : "read before"), near.some(([time]) => time > start), bands.length);
  if (onTime) {
    svg.style.cursor = "pointer";
    svg.addEventListener("click", (event) => {
      const at = x0 + (((event.offsetX / svg.clientWidth) * width - LEFT) / (width - LEFT - RIGHT)) * (x1 - x0);
      let best = 0;
      times.forEach((time, k) => (Math.abs(time - at) < Math.abs(times[best] - at) ? (best = k) : null));
      onTime(best);
    });
  }
  return svg;
}

function timeAxis(svg, { x0, x1, px, width, clock, zone }) {
  const y = HEIGHT - BOTTOM;
  node("line", { x1: LEFT, x2: width - RIGHT, y1: y, y2: y, stroke: "var(--soft)" }, svg);
  const most = Math.max(2, Math.floor((width - LEFT) / 105));
  const hours = [1 / 12, 0.25, 0.5, 1, 2, 3, 6, 12, 24, 48, 96, 168, 336, 720, 1440, 4320, 8760].map((h) => h * 3600000);
  let places = ticks(x0, x1, most);
  if (clock) {
    const step = hours.find((h) => (x1 - x0) / h <= most) ?? x1 - x0;
    const ahead = shift(x0, zone); // round hours of the zone
    places = [];
    for (let k = Math.ceil((x0 + ahead) / step); k * step - ahead <= x1; k += 1) places.push(k * step - ahead);
  }
  let free = 0;
  for (const place of places) {
    const text = clock ? instant(place, zone, true) : number(place);
    const half = 3.2 * text.length;
    if (px(place) - half < free || px(place) + half > width + 6) continue;
    node("line", { x1: px(place), x2: px(place), y1: y, y2: y + 4, stroke: "var(--soft)" }, svg);
    node("text", { x: px(place), y: y + 16, "text-anchor": "middle" }, svg, text);
    free = px(place) + half + 6;
  }
}

function legend(svg, given, later, bands) {
  const words = [];
  if (bands) words.push(["band", "90 %, 50 %"]);
  words.push(["line", "median"]);
  if (given) words.push(["given", given]);
  if (later) words.push(["later", "read after"]);
  let x = 4;
  const y = HEIGHT - 7;
  for (const [kind, text] of words) {
    if (kind === "band") {
      node("rect", { x, y: y - 9, width: 14, height: 9, fill: "var(--band)", "fill-opacity": 0.2 }, svg);
      node("rect", { x, y: y - 7, width: 14, height: 5, fill: "var(--band)", "fill-opacity": 0.38 }, svg);
    } else if (kind === "line") node("line", { x1: x, x2: x + 14, y1: y - 4, y2: y - 4, stroke: "var(--band)", "stroke-width": 2 }, svg);
    else {
      const fill = kind === "given" ? "var(--read)" : "var(--card)";
      node("circle", { cx: x + 7, cy: y - 4, r: 3.4, fill, stroke: "var(--read)", "stroke-width": 1.8 }, svg);
    }
    const words = node("text", { x: x + 18, y }, svg, text);
    x += 30 + words.getComputedTextLength();
  }
}

function line(times, values, px, py) {
  let path = "";
  let pen = "M";
  times.forEach((time, k) => {
    const value = values[k];
    if (value === null || value === undefined || !Number.isFinite(value)) pen = "M";
    else {
      path += `${pen}${px(time).toFixed(1)} ${py(value).toFixed(1)}`;
      pen = "L";
    }
  });
  return path;
}

// A band as closed paths, one for each stretch of times that are known; a time by itself becomes a bar.
function stretches(times, low, high, px, py, joined) {
  const paths = [];
  const wide = times.length > 1 ? Math.min(8, 0.35 * Math.abs(px(times[1]) - px(times[0]))) : 9;
  let run = [];
  const close = () => {
    if (run.length === 1) {
      const [k] = run;
      const [x, y, h] = [px(times[k]), py(high[k]), py(low[k]) - py(high[k])];
      paths.push(`M${x - wide} ${y}h${2 * wide}v${h}h${-2 * wide}Z`);
    } else if (run.length) {
      const there = run.map((k) => `${px(times[k]).toFixed(1)} ${py(high[k]).toFixed(1)}`);
      const back = [...run].reverse().map((k) => `${px(times[k]).toFixed(1)} ${py(low[k]).toFixed(1)}`);
      paths.push(`M${[...there, ...back].join("L")}Z`);
    }
    run = [];
  };
  times.forEach((_, k) => {
    if (Number.isFinite(low[k] ?? NaN) && Number.isFinite(high[k] ?? NaN)) run.push(k);
    else close();
    if (!joined) close();
  });
  close();
  return paths;
}
