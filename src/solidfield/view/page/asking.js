// Questions by pointer and by keys: a place, a box, an area with any corners, an imagined sensor that is dragged.

const NEAR = 12; // pixels: a press this close takes hold of what is there

// panel: a MapPanel; tell: {hover, place, ring, draft, cursor, imagine, mode}
export function asking(panel, tell) {
  const canvas = panel.canvas;
  let from = null; // where a press began: [px, py]
  let held = null; // the imagined sensor that is being dragged
  let corners = []; // of an area that is being drawn
  let cursor = null; // [row, column], moved by keys
  let anchor = null; // where a box by keys began

  const spot = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const kept = ([px, py]) => {
    const { left, top, size } = panel.plot;
    return [Math.min(Math.max(px, left), left + size.width), Math.min(Math.max(py, top), top + size.height)];
  };
  const box = (a, b) => {
    const [[y0, x0], [y1, x1]] = [panel.place(...a), panel.place(...b)];
    return [[x0, y0], [x1, y0], [x1, y1], [x0, y1]];
  };

  canvas.addEventListener("pointerdown", (event) => {
    if (!panel.scene || event.button !== 0) return;
    const at = spot(event);
    if (!panel.inside(...at)) return;
    canvas.setPointerCapture(event.pointerId);
    from = at;
    held = panel.scene.marks.imagined.findIndex((one) => {
      const [px, py] = panel.pixel(one.y, one.x);
      return Math.hypot(px - at[0], py - at[1]) < NEAR;
    });
    if (held < 0) held = null;
  });

  canvas.addEventListener("pointermove", (event) => {
    if (!panel.scene) return;
    const at = spot(event);
    if (held !== null) return tell.imagine(held, panel.place(...kept(at)), false);
    if (from && tell.mode() === "ask" && moved(from, at)) return tell.draft([...box(from, kept(at)), box(from, kept(at))[0]]);
    if (tell.mode() === "area" && corners.length) tell.draft([...corners, flipped(panel.place(...kept(at)))]);
    if (!panel.inside(...at)) return tell.hover(null);
    return tell.hover(panel.place(...at), event);
  });

  canvas.addEventListener("pointerup", (event) => {
    if (!from) return;
    const at = kept(spot(event));
    const began = from;
    from = null;
    if (held !== null) {
      tell.imagine(held, panel.place(...at), true);
      held = null;
    } else if (tell.mode() === "imagine") tell.imagine(-1, panel.place(...at), true);
    else if (tell.mode() === "area") corner(at);
    else if (moved(began, at)) tell.ring(box(began, at));
    else tell.place(panel.place(...at));
  });

  canvas.addEventListener("pointercancel", () => {
    [from, held] = [null, null];
    tell.draft(null);
  });
  canvas.addEventListener("pointerleave", () => tell.hover(null));
  canvas.addEventListener("dblclick", () => finish());

  function corner(at) {
    const first = corners.length && panel.pixel(corners[0][1], corners[0][0]);
    if (first && corners.length > 2 && Math.hypot(first[0] - at[0], first[1] - at[1]) < NEAR) return finish();
    corners.push(flipped(panel.place(...at)));
    return tell.draft([...corners]);
  }

  function finish() {
    const ring = corners;
    corners = [];
    if (ring.length > 2) tell.ring(ring);
    else tell.draft(null);
  }

  canvas.addEventListener("keydown", (event) => {
    if (!panel.scene) return;
    const { file } = panel.scene;
    const step = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key === "Escape") {
      [cursor, anchor, corners] = [null, null, []];
      tell.draft(null);
      tell.cursor(null);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (corners.length > 2) finish();
      else if (cursor && anchor) tell.ring(span());
      else if (cursor && tell.mode() === "imagine") tell.imagine(-1, centre(cursor), true);
      else if (cursor) tell.place(centre(cursor));
      anchor = null;
    } else if (step) {
      event.preventDefault();
      const before = cursor ?? [Math.floor(file.y.length / 2), Math.floor(file.x.length / 2)];
      if (event.shiftKey && !anchor) anchor = before;
      if (!event.shiftKey) anchor = null;
      const clip = (k, n) => Math.max(0, Math.min(n - 1, k));
      cursor = [clip(before[0] + step[0], file.y.length), clip(before[1] + step[1], file.x.length)];
      tell.cursor(cursor, centre(cursor));
      tell.draft(anchor ? [...span(), span()[0]] : null);
    }
  });

  const centre = ([row, column]) => [panel.scene.file.y[row], panel.scene.file.x[column]];

  function span() {
    const { file } = panel.scene;
    const half = (axis) => (axis.length > 1 ? Math.abs(axis[1] - axis[0]) / 2 : 0.5);
    const [low, high] = [0, 1].map((axis) => [Math.min(anchor[axis], cursor[axis]), Math.max(anchor[axis], cursor[axis])]);
    const [south, north] = [file.y[low[0]] - half(file.y), file.y[low[1]] + half(file.y)];
    const [west, east] = [file.x[high[0]] - half(file.x), file.x[high[1]] + half(file.x)];
    return [[west, south], [east, south], [east, north], [west, north]];
  }
}

function moved(a, b) {
  return Math.hypot(a[0] - b[0], a[1] - b[1]) > 6;
}

function flipped([y, x]) {
  return [x, y];
}
