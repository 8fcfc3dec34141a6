// What is shown, to keep: a picture and tables.

export function download(name, content, type) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = document.createElement("a");
  [link.href, link.download] = [address, name];
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

export function fileName(words, ending) {
  return `${words.replace(/[^\p{L}\p{N}.]+/gu, "-").replace(/^-|-$/g, "").slice(0, 80) || "map"}.${ending}`;
}

// The maps beside each other at twice their size.
export function picture(panels) {
  const parts = panels.map((panel) => {
    const canvas = document.createElement("canvas");
    panel.draw(canvas, 2);
    return canvas;
  });
  const whole = document.createElement("canvas");
  whole.width = parts.reduce((sum, part) => sum + part.width, 0);
  whole.height = Math.max(...parts.map((part) => part.height));
  const context = whole.getContext("2d");
  context.fillStyle = getComputedStyle(document.body).getPropertyValue("--card");
  context.fillRect(0, 0, whole.width, whole.height);
  let left = 0;
  for (const part of parts) {
    context.drawImage(part, left, 0);
    left += part.width;
  }
  return new Promise((done) => whole.toBlob(done, "image/png"));
}

// A field with a comma, quote or line end is quoted; one that a spreadsheet would take for a formula is kept as text.
export function csvField(value) {
  const text = value === null || value === undefined || (typeof value === "number" && !Number.isFinite(value)) ? "" : String(value);
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function csv(rows) {
  return `${rows.map((row) => row.map(csvField).join(",")).join("\r\n")}\r\n`;
}

// Every cell of the maps that are shown; a second map on other cells is left to its own file.
export function cellRows(scenes) {
  const [first] = scenes;
  const { y, x, axes } = first.file;
  const same = scenes.filter((one) => one.values.length === first.values.length);
  const rows = [[axes[0], axes[1], ...same.map((one) => `${one.head} [${one.foot}]`)]];
  for (let row = 0; row < y.length; row += 1) {
    for (let column = 0; column < x.length; column += 1) {
      rows.push([y[row], x[column], ...same.map((one) => Number(one.values[row * x.length + column].toPrecision(7)))]);
    }
  }
  return rows;
}
