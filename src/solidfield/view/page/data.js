// Where pieces of the maps come from: the server that sent the page, or the page itself (embedded.js). Both answer
// about(), frame(), place(), area(); frames that were asked for lately are kept.

const KEPT = 96e6; // bytes of frames

export class Kept {
  constructor() {
    this.frames = new Map();
    this.bytes = 0;
  }
  get(key) {
    const frame = this.frames.get(key);
    if (frame) {
      this.frames.delete(key); // the one used last is the last to go
      this.frames.set(key, frame);
    }
    return frame;
  }
  put(key, frame) {
    if (this.frames.has(key)) return;
    this.frames.set(key, frame);
    this.bytes += frame.byteLength;
    for (const [old, one] of this.frames) {
      if (this.bytes <= KEPT || this.frames.size === 1) break;
      this.frames.delete(old);
      this.bytes -= one.byteLength;
    }
  }
}

export class Served {
  constructor() {
    this.kept = new Kept();
    this.waiting = new Map();
  }

  async ask(path, query, body) {
    const address = query ? `${path}?${new URLSearchParams(query)}` : path;
    const options = body ? { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } } : {};
    const answer = await fetch(address, options);
    if (answer.ok) return answer;
    const words = answer.status === 422 ? (await answer.json()).error : `the server answered ${answer.status}`;
    throw new Error(words);
  }

  async about() {
    return (await this.ask("about")).json();
  }

  async frame(file, variable, layer, start, lead) {
    const key = [file, variable, layer, start, lead].join(" ");
    const kept = this.kept.get(key);
    if (kept) return kept;
    if (!this.waiting.has(key)) {
      const asked = this.ask("frame", { file, variable, layer, start, lead })
        .then((answer) => answer.arrayBuffer())
        .then((bytes) => {
          const values = new Float32Array(bytes);
          this.kept.put(key, values);
          return values;
        })
        .finally(() => this.waiting.delete(key));
      this.waiting.set(key, asked);
    }
    return this.waiting.get(key);
  }

  // Several members at once, so that flicker waits for nothing.
  async ahead(file, variable, start, lead, first, count) {
    const last = [file, variable, `member:${first + count - 1}`, start, lead].join(" ");
    if (this.kept.get(last)) return;
    const answer = await this.ask("frame", { file, variable, layer: `member:${first}`, start, lead, count });
    const all = new Float32Array(await answer.arrayBuffer());
    const size = all.length / count;
    for (let k = 0; k < count; k += 1) {
      this.kept.put([file, variable, `member:${first + k}`, start, lead].join(" "), all.slice(k * size, (k + 1) * size));
    }
  }

  async place(file, variable, y, x, start, first, above) {
    return (await this.ask("place", { file, variable, y, x, start, first, above })).json();
  }

  async area(file, variable, ring, start, first, above) {
    return (await this.ask("area", null, { file, variable, ring, start, first, above })).json();
  }

  async imagine(request) {
    this.kept = new Kept();
    return (await this.ask("imagine", null, request)).json();
  }
}
