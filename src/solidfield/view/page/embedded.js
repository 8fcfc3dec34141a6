// The source of a page that stands alone: fields packed as 16-bit steps, and the same questions answered from members.
//   value = low + step k,  k = 65535 where there is none

import { Kept } from "./data.js";
import { stepOf } from "./pens.js";

const NONE = 65535;
const SUBCELLS = 5; // a share of a cell is counted on 5 x 5 points, as the library does
const QUANTILES = [0.05, 0.25, 0.5, 0.75, 0.95];

export class Embedded {
  constructor(holder) {
    this.document = JSON.parse(holder.textContent);
    this.fields = new Map();
    this.kept = new Kept();
  }

  async about() {
    return this.document.about;
  }

  // A whole field: {low, step, shape, codes}; unpacked when it is first asked for.
  field(name) {
    if (!this.fields.has(name)) this.fields.set(name, unpacked(this.document.fields[name]));
    return this.fields.get(name);
  }

  stored(file, variable, layer) {
    const name = `${file} ${variable} ${layer}`;
    return name in this.document.fields ? name : null;
  }

  async frame(file, variable, layer, start, lead) {
    const key = [file, variable, layer, start, lead].join(" ");
    const kept = this.kept.get(key);
    if (kept) return kept;
    const values = await this.made(file, variable, layer, start, lead);
    this.kept.put(key, values);
    return values;
  }

  async made(file, variable, layer, start, lead) {
    const name = this.stored(file, variable, layer);
    const [H, W] = [this.document.about.files[file].y.length, this.document.about.files[file].x.length];
    if (name) {
      const field = await this.field(name);
      const times = field.shape.length === 4 ? start * field.shape[1] + lead : field.shape.length === 3 ? start : 0;
      return values(field, times * H * W, H * W);
    }
    const all = await this.members(file, variable, start, lead);
    const [kind, detail] = layer.split(":");
    if (kind === "member") return all[Number(detail)];
    return Float32Array.from({ length: H * W }, (_, i) => summary(all.map((member) => member[i]), kind, Number(detail)));
  }

  // The members of one time, each (H, W).
  async members(file, variable, start, lead) {
    const name = this.stored(file, variable, "members");
    if (!name) throw new Error("this page holds no members");
    const field = await this.field(name);
    const [K, N, L, H, W] = field.shape;
    return Array.from({ length: K }, (_, k) => values(field, ((k * N + start) * L + lead) * H * W, H * W));
  }

  async place(file, variable, y, x, start, first, above) {
    const about = this.document.about.files[file];
    const [rows, columns] = [between(about.y, y), between(about.x, x)];
    const weights = new Map();
    for (const [row, a] of rows) {
      for (const [column, b] of columns) {
        const i = row * about.x.length + column;
        weights.set(i, (weights.get(i) ?? 0) + a * b);
      }
    }
    const heaviest = [...weights].sort((a, b) => b[1] - a[1])[0][0];
    const whole = this.stored(file, variable, "members");
    const law = whole ? await this.law(file, variable, weights, start, first, above) : await this.storedLaw(file, variable, heaviest, start);
    return { ...law, read: await this.readings(file, variable, heaviest) };
  }

  // Without members: mean and quantiles of a cell as they were stored.
  async storedLaw(file, variable, cell, start) {
    const about = this.document.about.files[file];
    const found = { first: 0, mean: [], quantiles: {} };
    for (const [begin, lead] of this.along(about, start)) {
      const value = async (layer) => known((await this.frame(file, variable, layer, begin, lead))[cell]);
      found.mean.push(await value("mean"));
      for (const q of about.variables.find((one) => one.name === variable).quantiles) (found.quantiles[q] ??= []).push(await value(`q:${q}`));
    }
    return found;
  }

  // The starts and leads of a chart.
  along(about, start) {
    const { start: starts, lead: leads } = about.times;
    return leads.length > 1 ? leads.map((_, k) => [start, k]) : starts.map((_, k) => [k, 0]);
  }

  // What was read in a cell at the times of the maps.
  async readings(file, variable, cell) {
    const { times, has } = this.document.about.files[file];
    const found = { time: [], value: [] };
    const put = async (layer, start, lead, time) => {
      const value = (await this.frame(file, variable, layer, start, lead))[cell];
      if (Number.isFinite(value)) found.time.push(time) && found.value.push(value);
    };
    for (const [n, begin] of times.start.entries()) {
      if (has.includes("given")) await put("given", n, 0, begin);
      if (!has.includes("read")) continue;
      for (const [l, ahead] of times.lead.entries()) if (ahead) await put("read", n, l, begin + ahead);
    }
    return found;
  }

  async area(file, variable, ring, start, first, above) {
    const about = this.document.about.files[file];
    const weights = new Map();
    const [dy, dx] = [stepOf(about.y), stepOf(about.x)];
    const points = Array.from({ length: SUBCELLS }, (_, k) => (k + 0.5) / SUBCELLS - 0.5);
    about.y.forEach((y, row) => {
      about.x.forEach((x, column) => {
        let hits = 0;
        for (const a of points) for (const b of points) hits += within(ring, y + a * dy, x + b * dx) ? 1 : 0;
        const narrow = about.geographic ? Math.cos((y * Math.PI) / 180) : 1; // meridians meet
        if (hits) weights.set(row * about.x.length + column, (hits / SUBCELLS ** 2) * narrow);
      });
    });
    const law = await this.law(file, variable, weights, start, first, above);
    if (!law.cells) throw new Error("the area holds no cell of the map; draw it over the map");
    return law;
  }

  // The law of a weighted mean of cells, along the times of a chart.
  async law(file, variable, weights, start, first, above) {
    const about = this.document.about.files[file];
    const domain = about.has.includes("domain") ? await this.frame(file, variable, "domain", 0, 0) : null;
    const cells = [...weights].filter(([i, w]) => w > 0 && (!domain || domain[i]));
    const total = cells.reduce((sum, [, w]) => sum + w, 0);
    const found = { first: 0, mean: [], quantiles: {}, above: above === "" ? null : [], cells: cells.length };
    for (const q of QUANTILES) found.quantiles[q] = [];
    for (const time of this.along(about, start)) {
      const members = await this.members(file, variable, ...time);
      const answers = members.map((member) => cells.reduce((sum, [i, w]) => sum + w * member[i], 0) / total);
      const put = (row, kind, detail) => row.push(known(summary(answers, kind, detail)));
      put(found.mean, "mean");
      for (const q of QUANTILES) put(found.quantiles[q], "q", q);
      if (found.above) put(found.above, "above", Number(above));
    }
    return first ? { ...found, mean: [], quantiles: {}, above: null } : found;
  }
}

async function unpacked({ low, step, shape, data }) {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return { low, step, shape, codes: new Uint16Array(await new Response(stream).arrayBuffer()) };
}

function values({ low, step, codes }, from, count) {
  const out = new Float32Array(count);
  for (let i = 0; i < count; i += 1) out[i] = codes[from + i] === NONE ? NaN : low + step * codes[from + i];
  return out;
}

function known(value) {
  return Number.isFinite(value) ? value : null;
}

function summary(members, kind, detail) {
  const K = members.length;
  if (members.some((value) => !Number.isFinite(value))) return NaN;
  if (kind === "above") return members.filter((value) => value > detail).length / K;
  if (kind === "q") {
    const sorted = members.sort((a, b) => a - b);
    const at = detail * (K - 1);
    const low = Math.floor(at);
    return sorted[low] + (at - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
  }
  const mean = members.reduce((sum, value) => sum + value, 0) / K;
  if (kind === "mean") return mean;
  return Math.sqrt(members.reduce((sum, value) => sum + (value - mean) ** 2, 0) / Math.max(K - 1, 1));
}

// The cells around a place along one axis, with their shares.
function between(axis, place) {
  const position = Math.max(0, Math.min(axis.length - 1, (place - axis[0]) / stepOf(axis)));
  const low = Math.min(Math.floor(position), Math.max(axis.length - 2, 0));
  return [[low, 1 - (position - low)], [Math.min(low + 1, axis.length - 1), position - low]];
}

// The even-odd rule: a ray to the east crosses the ring an odd number of times.
function within(ring, y, x) {
  let odd = false;
  ring.forEach(([x1, y1], k) => {
    const [x2, y2] = ring[(k + 1) % ring.length];
    if (y1 <= y !== y2 <= y && x < x1 + ((y - y1) * (x2 - x1)) / (y2 - y1)) odd = !odd;
  });
  return odd;
}
