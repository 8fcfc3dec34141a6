// What is being looked at, as one flat record, and its text behind the # of the address: every view has a link.

export const EMPTY = {
  variable: "", layer: "mean", start: 0, lead: 0, second: "", fileB: 0, scale: "fixed", low: null, high: null,
  place: null, ring: null, window: null, imagined: [], names: false,
};

const SHORT = { variable: "v", layer: "l", start: "n", lead: "t", second: "b", fileB: "f", scale: "s" };

export function toHash(state) {
  const query = new URLSearchParams();
  for (const [name, key] of Object.entries(SHORT)) if (state[name] !== EMPTY[name]) query.set(key, state[name]);
  if (state.scale === "own") query.set("k", [state.low, state.high].join(","));
  if (state.place) query.set("p", state.place.map(rounded).join(","));
  if (state.ring) query.set("a", state.ring.flat().map(rounded).join(","));
  if (state.window) query.set("z", state.window.map(rounded).join(","));
  if (state.imagined.length) query.set("i", state.imagined.flatMap((one) => [one.y, one.x, one.value]).map(rounded).join(","));
  if (state.names) query.set("w", "1");
  return query.toString();
}

export function fromHash(text) {
  const query = new URLSearchParams(text.replace(/^#/, ""));
  const state = { ...EMPTY, imagined: [] };
  for (const [name, key] of Object.entries(SHORT)) {
    if (query.has(key)) state[name] = typeof EMPTY[name] === "number" ? Math.max(0, Math.round(Number(query.get(key))) || 0) : query.get(key);
  }
  const numbers = (key) => (query.get(key) ?? "").split(",").map(Number);
  const sound = (list, least) => list.length >= least && list.every(Number.isFinite);
  if (state.scale === "own") [state.low, state.high] = sound(numbers("k"), 2) ? numbers("k") : [null, null];
  if (query.has("p") && sound(numbers("p"), 2)) state.place = numbers("p").slice(0, 2);
  if (query.has("a") && sound(numbers("a"), 6)) state.ring = grouped(numbers("a"), 2);
  if (query.has("z") && sound(numbers("z"), 4)) state.window = numbers("z").slice(0, 4);
  if (query.has("i") && sound(numbers("i"), 3)) state.imagined = grouped(numbers("i"), 3).map(([y, x, value]) => ({ y, x, value }));
  state.names = query.get("w") === "1";
  return state;
}

// A state that fits what there is: a link from another file may name a variable or a time that this one lacks.
export function fitted(state, about) {
  const file = about.files[0];
  const clip = (value, size) => Math.min(value, size - 1);
  const name = file.variables.some((one) => one.name === state.variable) ? state.variable : file.variables[0].name;
  const sound = (layer) => /^(mean|std|(q|member|above):-?[\d.e+-]+)$/.test(layer);
  return {
    ...state,
    variable: name,
    layer: sound(state.layer) ? state.layer : "mean",
    second: sound(state.second) ? state.second : "",
    fileB: clip(state.fileB, about.files.length),
    start: clip(state.start, file.times.start.length),
    lead: clip(state.lead, file.times.lead.length),
    scale: ["fixed", "each", "own"].includes(state.scale) ? state.scale : "fixed",
    imagined: about.imagine ? state.imagined : [],
  };
}

function rounded(value) {
  return Number(value.toPrecision(9));
}

function grouped(list, size) {
  const groups = [];
  for (let k = 0; k + size <= list.length; k += size) groups.push(list.slice(k, k + size));
  return groups;
}
