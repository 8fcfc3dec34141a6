// One map on a canvas: cells in colours on their true coordinates, graticule, scale bar, colour bar, sensors, outline,
// hatching where nothing was ever taught, and the marks of what is being asked.

import { coordinate, degrees, lengthWords, metric, number, roundBelow, ticks } from "./format.js";
import { drawMarks } from "./marks.js";
import { colours, fitting, FONT, sized, stepOf, stripes } from "./pens.js";

export class MapPanel {
  constructor(canvas) {
    this.canvas = canvas;
    this.cells = document.createElement("canvas");
    this.mask = document.createElement("canvas");
    this.scene = null;
  }

  // What to draw: file, values, scale {low, high, stops, units}, never, domain, dots, outline, head, foot, marks.
  show(scene) {
    this.scene = scene;
    this.paintCells();
    this.draw();
  }

  paintCells() {
    const { file, values, scale, never, domain } = this.scene;
    const [H, W] = [file.y.length, file.x.length];
    const context = sized(this.cells, W, H);
    const image = context.createImageData(W, H);
    const steps = scale.stops.length / 3;
    const factor = steps / (scale.high - scale.low);
    for (let row = 0; row < H; row += 1) {
      for (let column = 0; column < W; column += 1) {
        const value = values[row * W + column];
        if (!(value === value) || (domain && !domain[row * W + column])) continue;
        const step = Math.max(0, Math.min(steps - 1, Math.floor((value - scale.low) * factor)));
        const pixel = 4 * ((H - 1 - row) * W + column); // row 0 lies in the south
        image.data[pixel] = scale.stops[3 * step];
        image.data[pixel + 1] = scale.stops[3 * step + 1];
        image.data[pixel + 2] = scale.stops[3 * step + 2];
        image.data[pixel + 3] = 255;
      }
    }
    context.putImageData(image, 0, 0);
    this.untaught = null;
    if (!never) return;
    const mask = sized(this.mask, W, H);
    const marks = mask.createImageData(W, H);
    for (let i = 0; i < H * W; i += 1) {
      if (never[i] && (!domain || domain[i])) marks.data[4 * ((H - 1 - Math.floor(i / W)) * W + (i % W)) + 3] = 255;
    }
    mask.putImageData(marks, 0, 0);
    this.untaught = this.mask;
  }

  // Where the map lies in the canvas, in CSS pixels, and how coordinates become pixels.
  layout() {
    const { file } = this.scene;
    const width = this.canvas.clientWidth || 600;
    const { south, west, high, wide } = part(edges(file), this.scene.window);
    const stretch = file.geographic ? Math.max(Math.cos(((south + high / 2) * Math.PI) / 180), 0.01) : 1;
    const margin = { left: 64, right: 74, top: 46, bottom: 48 };
    const room = Math.max(width - margin.left - margin.right, 80);
    const most = Math.max(Math.min(window.innerHeight - 330, 760), 300);
    const pixels = Math.min(room / (wide * stretch), most / high); // to a unit along y
    const size = { width: wide * stretch * pixels, height: high * pixels };
    const left = margin.left + (room - size.width) / 2;
    this.plot = { left, top: margin.top, size, south, west, high, wide, total: margin.top + size.height + margin.bottom, outer: width };
    return this.plot;
  }

  pixel(y, x) {
    const p = this.plot;
    return [p.left + ((x - p.west) / p.wide) * p.size.width, p.top + (1 - (y - p.south) / p.high) * p.size.height];
  }

  // Where all cells lie, in pixels; beyond the plot where a part is shown.
  whole() {
    const { south, west, high, wide } = edges(this.scene.file);
    const [[x0, y1], [x1, y0]] = [this.pixel(south, west), this.pixel(south + high, west + wide)];
    return [x0, y0, x1 - x0, y1 - y0];
  }

  place(px, py) {
    const p = this.plot;
    const x = p.west + ((px - p.left) / p.size.width) * p.wide;
    const y = p.south + (1 - (py - p.top) / p.size.height) * p.high;
    return [y, x];
  }

  inside(px, py) {
    const p = this.plot;
    return px >= p.left && px <= p.left + p.size.width && py >= p.top && py <= p.top + p.size.height;
  }

  cell(y, x) {
    const { file } = this.scene;
    const row = Math.round((y - file.y[0]) / stepOf(file.y));
    const column = Math.round((x - file.x[0]) / stepOf(file.x));
    const clip = (k, n) => Math.max(0, Math.min(n - 1, k));
    return [clip(row, file.y.length), clip(column, file.x.length)];
  }

  draw(target = this.canvas, ratio = window.devicePixelRatio || 1) {
    if (!this.scene) return;
    const plot = this.layout();
    const ink = colours(this.canvas);
    if (target === this.canvas) target.style.height = `${plot.total}px`;
    const context = sized(target, Math.round(plot.outer * ratio), Math.round(plot.total * ratio));
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = ink.card;
    context.fillRect(0, 0, plot.outer, plot.total);
    context.fillStyle = ink.plot;
    context.fillRect(plot.left, plot.top, plot.size.width, plot.size.height);
    context.save();
    context.beginPath();
    context.rect(plot.left, plot.top, plot.size.width, plot.size.height);
    context.clip();
    context.imageSmoothingEnabled = false;
    context.drawImage(this.cells, ...this.whole());
    if (this.untaught) this.hatch(context, ratio);
    this.graticule(context, ink);
    drawMarks(this, context, ink);
    context.restore();
    context.strokeStyle = ink.soft;
    context.lineWidth = 1;
    context.strokeRect(plot.left, plot.top, plot.size.width, plot.size.height);
    this.axes(context, ink);
    this.bar(context, ink);
    this.lengthBar(context, ink);
    this.words(context, ink);
  }

  hatch(context, ratio) {
    const { left, top, size } = this.plot;
    const [w, h] = [Math.ceil(size.width * ratio), Math.ceil(size.height * ratio)];
    const layer = document.createElement("canvas");
    const pen = sized(layer, w, h);
    pen.imageSmoothingEnabled = false;
    const [x, y, wide, high] = this.whole();
    pen.drawImage(this.untaught, (x - left) * ratio, (y - top) * ratio, wide * ratio, high * ratio);
    pen.globalCompositeOperation = "source-in";
    pen.fillStyle = pen.createPattern(stripes(ratio), "repeat");
    pen.fillRect(0, 0, w, h);
    context.drawImage(layer, left, top, size.width, size.height);
  }

  steps() {
    const { west, wide, south, high, size } = this.plot;
    return {
      x: ticks(west, west + wide, Math.max(2, Math.min(6, size.width / 90))),
      y: ticks(south, south + high, Math.max(2, Math.min(7, size.height / 60))),
    };
  }

  graticule(context) {
    const { left, top, size } = this.plot;
    context.strokeStyle = "rgba(127, 127, 127, .4)";
    context.lineWidth = 1;
    context.beginPath();
    const steps = this.steps();
    for (const x of steps.x) {
      const [px] = this.pixel(0, x);
      context.moveTo(px, top);
      context.lineTo(px, top + size.height);
    }
    for (const y of steps.y) {
      const [, py] = this.pixel(y, 0);
      context.moveTo(left, py);
      context.lineTo(left + size.width, py);
    }
    context.stroke();
  }

  axes(context, ink) {
    const { left, top, size } = this.plot;
    const { file } = this.scene;
    const steps = this.steps();
    context.fillStyle = ink.soft;
    context.font = `12px ${FONT}`;
    context.textAlign = "center";
    context.textBaseline = "top";
    let free = -Infinity;
    for (const x of steps.x) {
      const [px] = this.pixel(0, x);
      const text = file.geographic ? degrees(x, "x") : coordinate(x);
      const half = context.measureText(text).width / 2;
      if (px - half < free) continue; // labels never overlap
      context.fillText(text, px, top + size.height + 7);
      free = px + half + 8;
    }
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const y of steps.y) {
      const [, py] = this.pixel(y, 0);
      context.fillText(file.geographic ? degrees(y, "y") : coordinate(y), left - 7, py);
    }
  }

  bar(context, ink) {
    const { left, top, size } = this.plot;
    const { scale } = this.scene;
    const [x, width] = [left + size.width + 16, 13];
    const steps = scale.stops.length / 3;
    for (let step = 0; step < steps; step += 1) {
      context.fillStyle = `rgb(${scale.stops.slice(3 * step, 3 * step + 3).join(",")})`;
      const y = top + size.height * (1 - (step + 1) / steps);
      context.fillRect(x, y, width, size.height / steps + 0.6);
    }
    context.strokeStyle = ink.soft;
    context.strokeRect(x, top, width, size.height);
    context.fillStyle = ink.soft;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.font = `12px ${FONT}`;
    for (const value of ticks(scale.low, scale.high, 6)) {
      const y = top + size.height * (1 - (value - scale.low) / (scale.high - scale.low));
      context.fillText(scale.percent ? `${Math.round(100 * value)} %` : number(value), x + width + 5, y);
    }
  }

  lengthBar(context, ink) {
    const { left, top, size, wide, south, high } = this.plot;
    const { x: long, unit } = metric(this.scene.file, south + high / 2);
    const whole = roundBelow((wide * long) / 3);
    const length = (whole / (wide * long)) * size.width;
    const [x, y] = [left, top + size.height + 36];
    context.fillStyle = ink.soft;
    context.fillRect(x, y - 1, length, 2);
    for (const end of [x, x + length - 1]) context.fillRect(end, y - 5, 1, 9);
    context.font = `12px ${FONT}`;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillText(lengthWords(whole, unit), x + length + 8, y);
  }

  words(context, ink) {
    const { outer, left } = this.plot;
    context.textAlign = "left";
    context.textBaseline = "alphabetic";
    const lines = [[this.scene.head, ink.ink, `600 14px ${FONT}`, 17], [this.scene.foot, ink.soft, `12px ${FONT}`, 35]];
    for (const [text, style, font, y] of lines) {
      [context.fillStyle, context.font] = [style, font];
      const shown = fitting(context, text, outer - 8);
      context.fillText(shown, Math.max(4, Math.min(left, outer - 4 - context.measureText(shown).width)), y);
    }
  }
}

// The outer edges of the cells.
function edges({ y, x }) {
  const [dy, dx] = [stepOf(y), stepOf(x)];
  return { south: y[0] - dy / 2, west: x[0] - dx / 2, high: dy * y.length, wide: dx * x.length };
}

// What of them lies in a window [south, west, north, east]; all of it where nothing does.
function part(all, window) {
  if (!window) return all;
  const [south, west] = [Math.max(all.south, window[0]), Math.max(all.west, window[1])];
  const [north, east] = [Math.min(all.south + all.high, window[2]), Math.min(all.west + all.wide, window[3])];
  return north > south && east > west ? { south, west, high: north - south, wide: east - west } : all;
}
