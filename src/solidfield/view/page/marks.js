// What lies over the cells of a map: outlines, sensors with their names, and the marks of what is being asked.

import { colourOf, fitting, FONT, stepOf } from "./pens.js";

export function drawMarks(panel, context, ink) {
  outlines(panel, context, ink);
  dots(panel, context, ink);
  if (panel.scene.names) names(panel, context, ink);
  questionMarks(panel, context, ink);
}

function trace(panel, context, line) {
  line.forEach(([x, y], k) => (k ? context.lineTo(...panel.pixel(y, x)) : context.moveTo(...panel.pixel(y, x))));
}

function outlines(panel, context, ink) {
  context.lineJoin = "round";
  for (const [style, width] of [[ink.halo, 2.8], [ink.ink, 1.1]]) {
    context.strokeStyle = style;
    context.lineWidth = width;
    context.beginPath();
    for (const line of panel.scene.outline) trace(panel, context, line);
    context.stroke();
  }
}

// Many sensors on a small map are drawn small.
function radiusOf({ scene, plot }) {
  const room = Math.sqrt((plot.size.width * plot.size.height) / Math.max(scene.dots.length, 1));
  return Math.max(1.5, Math.min(4.5, room / 9));
}

// A disc was read at the start, a square at the time of the map; with a field both have the colour of their reading.
function dots(panel, context) {
  const { dots, scale } = panel.scene;
  const size = radiusOf(panel);
  for (const dot of dots) {
    const [px, py] = panel.pixel(dot.y, dot.x);
    const known = dot.value !== null && scale.field;
    const radius = known ? size : Math.min(size, 2);
    context.beginPath();
    if (dot.later && known) context.rect(px - radius, py - radius, 2 * radius, 2 * radius);
    else context.arc(px, py, radius, 0, 7);
    context.lineWidth = known && size > 3 ? 4 : 2;
    context.strokeStyle = "#fff";
    context.stroke();
    context.fillStyle = known ? colourOf(scale, dot.value) : "#111";
    context.fill();
    if (!known) continue;
    context.lineWidth = size > 3 ? 1.2 : 0.8;
    context.strokeStyle = "#111";
    context.stroke();
  }
}

// Names beside their dots, as many as fit: none covers another or a dot.
function names(panel, context, ink) {
  const radius = radiusOf(panel);
  const taken = panel.scene.dots.map((dot) => around(panel.pixel(dot.y, dot.x), radius));
  context.font = `12px ${FONT}`;
  context.textAlign = "left";
  context.textBaseline = "middle";
  const shown = panel.scene.dots.filter((dot) => dot.name && panel.inside(...panel.pixel(dot.y, dot.x)));
  const common = commonStart(shown.map((dot) => dot.name));
  for (const dot of shown) {
    const text = fitting(context, dot.name.slice(common), 140);
    const width = context.measureText(text).width;
    const [px, py] = panel.pixel(dot.y, dot.x);
    const sides = [[px + radius + 4, py], [px - radius - 4 - width, py], [px - width / 2, py - radius - 9], [px - width / 2, py + radius + 9]];
    for (const [x, y] of sides) {
      const box = [x - 2, y - 8, x + width + 2, y + 8];
      if (!panel.inside(box[0], box[1]) || !panel.inside(box[2], box[3]) || taken.some((other) => meet(box, other))) continue;
      taken.push(box);
      context.lineWidth = 3.5;
      context.strokeStyle = ink.halo;
      context.strokeText(text, x, y);
      context.fillStyle = ink.ink;
      context.fillText(text, x, y);
      break;
    }
  }
}

function questionMarks(panel, context, ink) {
  const { place, ring, draft, imagined, cursor } = panel.scene.marks;
  const stroke = (style, width, dash = []) => {
    context.setLineDash(dash);
    context.strokeStyle = style;
    context.lineWidth = width;
    context.stroke();
    context.setLineDash([]);
  };
  for (const line of [ring, draft]) {
    if (!line || line.length < 1) continue;
    context.beginPath();
    trace(panel, context, line);
    if (line === ring) context.closePath();
    stroke("#fff", 4.5);
    stroke("#111", 2, line === draft ? [5, 4] : []);
  }
  if (place) {
    const [px, py] = panel.pixel(...place);
    context.beginPath();
    for (const [a, b] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
      context.moveTo(px + 5 * a, py + 5 * b);
      context.lineTo(px + 14 * a, py + 14 * b);
    }
    context.moveTo(px + 8, py);
    context.arc(px, py, 8, 0, 7);
    stroke("#fff", 4.5);
    stroke("#111", 2);
  }
  for (const one of imagined) {
    const [px, py] = panel.pixel(one.y, one.x);
    context.beginPath();
    context.moveTo(px, py - 9);
    for (const [a, b] of [[9, 0], [0, 9], [-9, 0]]) context.lineTo(px + a, py + b);
    context.closePath();
    context.fillStyle = ink.accent;
    stroke("#fff", 5);
    context.fill();
    stroke("#111", 1.5);
  }
  if (cursor) {
    const { file } = panel.scene;
    const [dy, dx] = [stepOf(file.y) / 2, stepOf(file.x) / 2];
    const [x0, y0] = panel.pixel(file.y[cursor[0]] + dy, file.x[cursor[1]] - dx);
    const [x1, y1] = panel.pixel(file.y[cursor[0]] - dy, file.x[cursor[1]] + dx);
    context.beginPath();
    context.rect(x0, y0, x1 - x0, y1 - y0);
    stroke("#fff", 4);
    stroke("#111", 2);
  }
}

// How many letters all names begin with, in whole words: "Station north 7" and "Station north 12" differ in their numbers.
function commonStart(names) {
  if (names.length < 2) return 0;
  const [first] = names;
  let length = 0;
  while (length < first.length && names.every((name) => name[length] === first[length])) length += 1;
  const words = first.slice(0, length).lastIndexOf(" ") + 1;
  return words > 5 ? words : 0;
}

function around([x, y], radius) {
  return [x - radius, y - radius, x + radius, y + radius];
}

function meet(a, b) {
  return a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
}
