// What drawing on a canvas takes: sizes, colours of the page, hatching, text that fits.

export const FONT = 'system-ui, "Segoe UI", "DejaVu Sans", sans-serif';

export function stepOf(axis) {
  return axis.length > 1 ? (axis[axis.length - 1] - axis[0]) / (axis.length - 1) : 1;
}

export function sized(canvas, width, height) {
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext("2d");
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

export function colours(element) {
  const style = getComputedStyle(element);
  const found = {};
  for (const name of ["card", "ink", "soft", "plot", "halo", "accent"]) found[name] = style.getPropertyValue(`--${name}`).trim();
  return found;
}

export function stripes(ratio) {
  const tile = document.createElement("canvas");
  const side = Math.round(9 * ratio);
  const pen = sized(tile, side, side);
  for (const [style, width] of [["rgba(255, 255, 255, .35)", 1.6], ["rgba(20, 20, 20, .5)", 0.8]]) {
    pen.strokeStyle = style;
    pen.lineWidth = width * ratio;
    for (const shift of [-side, 0, side]) {
      pen.beginPath();
      pen.moveTo(shift - 2, side + 2);
      pen.lineTo(shift + side + 2, -2);
      pen.stroke();
    }
  }
  return tile;
}

export function fitting(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let kept = text;
  while (kept.length > 1 && context.measureText(`${kept}…`).width > width) kept = kept.slice(0, -1);
  return `${kept}…`;
}

export function colourOf(scale, value) {
  const steps = scale.stops.length / 3;
  const step = Math.max(0, Math.min(steps - 1, Math.floor(((value - scale.low) / (scale.high - scale.low)) * steps)));
  return `rgb(${scale.stops.slice(3 * step, 3 * step + 3).join(",")})`;
}
