// Words and numbers: ticks, values with units, places, lengths and times.

export const KM = 111.19508; // of a degree of latitude

export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "no value";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2);
  return String(Number(value.toPrecision(size >= 1000 ? 4 : 3)));
}

export function withUnits(value, units) {
  const known = value !== null && Number.isFinite(value);
  return units && known ? `${number(value)} ${units}` : number(value);
}

export function percent(share) {
  return Number.isFinite(share) ? `${Math.round(100 * share)} %` : "no value";
}

// Round numbers between two limits, about `count` of them.
export function ticks(low, high, count) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(span / count));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => span / s <= count) ?? 10 * power;
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * span; k += 1) found.push(Number((k * step).toPrecision(12)));
  return found;
}

// The largest of 1, 2, 5, 10, 20 ... that is not above a limit.
export function roundBelow(limit) {
  const power = 10 ** Math.floor(Math.log10(limit));
  return [5, 2, 1].find((m) => m * power <= limit) * power;
}

export function degrees(value, along) {
  const letter = along === "y" ? (value < 0 ? "S" : "N") : value < 0 ? "W" : "E";
  return `${Number(Math.abs(value).toFixed(4))}° ${value === 0 ? "" : letter}`.trim();
}

// A coordinate in metres has more digits than a reading.
export function coordinate(value) {
  return String(Number(value.toPrecision(7)));
}

export function placeWords(file, y, x) {
  if (file.geographic) return `${degrees(Number(y.toFixed(3)), "y")}, ${degrees(Number(x.toFixed(3)), "x")}`;
  return `${file.axes[0]} ${coordinate(y)}, ${file.axes[1]} ${coordinate(x)}`;
}

// How long a step along x and along y is, at a latitude, and in which unit.
export function metric(file, y) {
  if (file.geographic) return { y: KM, x: KM * Math.max(Math.cos((y * Math.PI) / 180), 0.01), unit: "km" };
  return { y: 1, x: 1, unit: file.units };
}

export function lengthWords(length, unit) {
  if (unit === "km" && length < 1) return `${number(length * 1000)} m`;
  return unit ? `${number(length)} ${unit}` : number(length);
}

function offset(zone) {
  const found = /^(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?$/.exec(zone);
  return found ? (found[1] === "-" ? -1 : 1) * (Number(found[2]) * 60 + Number(found[3] ?? 0)) * 60000 : null;
}

// How far a zone, an offset or a name, is ahead of UTC at an instant.
export function shift(milliseconds, zone) {
  const fixed = offset(zone);
  if (fixed !== null) return fixed;
  const parts = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  const there = Object.fromEntries(new Intl.DateTimeFormat("en", { ...parts, timeZone: zone }).formatToParts(milliseconds).map((p) => [p.type, p.value]));
  const local = Date.UTC(there.year, there.month - 1, there.day, there.hour, there.minute);
  return local - Math.floor(milliseconds / 60000) * 60000;
}

// An instant in the zone of the readings, to the minute, or as much finer as it is.
export function instant(milliseconds, zone, short = false) {
  const options = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: "UTC" };
  if (!short) options.year = "numeric";
  if (milliseconds % 60000) options.second = "2-digit";
  if (milliseconds % 1000) options.fractionalSecondDigits = milliseconds % 100 ? 3 : 1;
  const text = new Intl.DateTimeFormat("en-GB", options).format(new Date(milliseconds + shift(milliseconds, zone)));
  return short ? text : `${text} ${zone}`;
}

export function span(milliseconds) {
  const hours = milliseconds / 3600000;
  if (Math.abs(hours) >= 72) return `${number(hours / 24)} days`;
  if (Math.abs(hours) >= 1 || hours === 0) return `${number(hours)} h`;
  return Math.abs(hours) >= 1 / 60 ? `${number(hours * 60)} min` : `${number(milliseconds / 1000)} s`;
}

// What a map's time is called: when it holds, and how far ahead of its readings.
export function timeWords(file, start, lead, zone) {
  const { clock, start: starts, lead: leads } = file.times;
  if (!clock) {
    const scene = starts.length > 1 ? `scene ${start + 1} of ${starts.length}, ` : "";
    return `${scene}time ${number(starts[start] + leads[lead])}${leads[lead] ? ` (${number(leads[lead])} ahead)` : ""}`;
  }
  const ahead = leads[lead] ? ` (${span(leads[lead])} ahead)` : "";
  return instant(starts[start] + leads[lead], zone) + ahead;
}
