// From the state to what a panel draws: which piece to fetch, in which colours, with which sensors, under which title.

import { lengthWords, metric, timeWords } from "./format.js";
import { kindOf, layerWords } from "./layers.js";

export async function sceneOf(source, about, state, which) {
  const number = which === "a" ? 0 : state.fileB;
  const layer = which === "a" ? state.layer : state.second;
  const file = about.files[number];
  const variable = file.variables.find((one) => one.name === state.variable) ?? file.variables[0];
  const [start, lead] = number === 0 ? [state.start, state.lead] : sameTime(about.files[0], file, state.start, state.lead);
  const extra = (name) => (file.has.includes(name) ? source.frame(number, variable.name, name, start, lead) : null);
  const [values, never, domain, distance, dots] = await Promise.all([
    source.frame(number, variable.name, layer, start, lead),
    extra("never"),
    extra("domain"),
    file.geographic ? null : extra("distance"), // as the model counts it, around the edges of a periodic box
    dotsOf(file, extra, lead),
  ]);
  const kind = kindOf(layer);
  const units = kind === "above" ? "" : variable.units;
  const words = layerWords(layer, variable, file.members);
  const several = about.files.length > 1 ? `${file.name}, ` : "";
  return {
    file, number, variable, layer, start, lead, values, never, domain, distance, dots, kind, units,
    outline: about.outline,
    head: units ? `${words} [${units}]` : words,
    foot: several + timeWords(file, start, lead, about.zone),
  };
}

// The start and lead of another file whose map holds at the same instant, or nearest to it.
export function sameTime(file, other, start, lead) {
  if (!file.times.clock || !other.times.clock) {
    return [Math.min(start, other.times.start.length - 1), Math.min(lead, other.times.lead.length - 1)];
  }
  const wanted = file.times.start[start] + file.times.lead[lead];
  let best = [0, 0];
  let least = Infinity;
  other.times.start.forEach((begin, n) => {
    other.times.lead.forEach((ahead, l) => {
      const off = Math.abs(begin + ahead - wanted) + 1e-6 * Math.abs(ahead - file.times.lead[lead]);
      if (off < least) [best, least] = [[n, l], off];
    });
  });
  return best;
}

// Sensors with their readings: cells that were read at the start, or (`later`) at the time of the map itself; sensors
// with names stand where they are and not at the centre of their cell.
async function dotsOf(file, extra, lead) {
  const ahead = file.times.lead[lead] > 0;
  const [given, observed, read] = await Promise.all([extra("given"), extra("observed"), ahead ? extra("read") : null]);
  const W = file.x.length;
  const dots = new Map();
  for (let i = 0; i < W * file.y.length; i += 1) {
    const later = read && Number.isFinite(read[i]);
    const known = given && Number.isFinite(given[i]);
    if (!later && !known && !(observed && observed[i] > 0)) continue;
    const value = later ? read[i] : known ? given[i] : null;
    dots.set(i, { y: file.y[Math.floor(i / W)], x: file.x[i % W], value, later: Boolean(later), given: known || !later, name: "" });
  }
  const named = [];
  for (const sensor of file.sensors) {
    const i = cellOf(file.y, sensor.y) * W + cellOf(file.x, sensor.x);
    named.push({ value: null, later: false, given: false, ...dots.get(i), ...sensor });
    dots.get(i) && (dots.get(i).taken = true);
  }
  named.sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }));
  return [...named, ...[...dots.values()].filter((dot) => !dot.taken)];
}

function cellOf(axis, value) {
  const step = axis.length > 1 ? (axis[axis.length - 1] - axis[0]) / (axis.length - 1) : 1;
  return Math.max(0, Math.min(axis.length - 1, Math.round((value - axis[0]) / step)));
}

// Colours: the same for all times and both panels, unless asked otherwise; no single cell sets them.
export function scaleOf(scene, others, state, colours) {
  if (scene.kind === "above") return { low: 0, high: 1, stops: colours.chance, percent: true, field: false };
  const spread = scene.kind === "std";
  const alike = [scene, ...others].filter((one) => (one.kind === "std") === spread && one.kind !== "above" && one.units === scene.units);
  let limits = alike.map((one) => (spread ? one.variable.spread_limits : one.variable.field));
  if (state.scale === "each") limits = alike.map((one) => middle(one.values, spread));
  let [low, high] = [Math.min(...limits.map((l) => l[0])), Math.max(...limits.map((l) => l[1]))];
  if (state.scale === "own" && state.low < state.high && scene.kind === alike[0].kind) [low, high] = [state.low, state.high];
  if (!(high > low)) high = low + 1;
  const signs = low < 0 && high > 0 && Math.abs(low + high) < 0.02 * (high - low);
  const stops = spread ? colours.spread : signs ? colours.diverging : colours.field;
  return { low, high, stops, percent: false, field: !spread };
}

// From the 1st to the 99th percentile.
function middle(values, spread) {
  const known = values.filter((value) => Number.isFinite(value)).sort();
  if (!known.length) return [0, 1];
  const at = (share) => known[Math.round(share * (known.length - 1))];
  const [low, high] = [at(0.01), at(0.99)];
  if (spread) return [low, high];
  return low < 0 && high > 0 && Math.min(-low, high) > 0.1 * Math.max(-low, high) ? [-Math.max(-low, high), Math.max(-low, high)] : [low, high];
}

// The nearest sensor that the maps were given, in true lengths.
export function nearest(scene, y, x) {
  const long = metric(scene.file, y);
  let best = null;
  for (const dot of scene.dots) {
    if (!dot.given) continue;
    const length = Math.hypot((dot.y - y) * long.y, (dot.x - x) * long.x);
    if (!best || length < best.length) best = { dot, length, unit: long.unit };
  }
  if (best && scene.distance) best.length = scene.distance[cellOf(scene.file.y, y) * scene.file.x.length + cellOf(scene.file.x, x)];
  return best;
}

export function nearWords({ length, unit, dot }) {
  const where = length > 0 ? `${lengthWords(length, unit)} from the nearest sensor` : "at a sensor";
  return dot.name ? `${where}, ${dot.name}` : where;
}

// Of how many cells that count no reading ever taught the model.
export function untaught(scene) {
  if (!scene.never) return null;
  let [cells, never] = [0, 0];
  scene.never.forEach((value, i) => {
    if (scene.domain && !scene.domain[i]) return;
    cells += 1;
    if (value) never += 1;
  });
  return { cells, never };
}
