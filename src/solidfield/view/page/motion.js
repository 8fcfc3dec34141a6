// Things that move by themselves: play through the times, flicker through the members.

import { by, fileA, goTo, page, position, timesOf } from "./page.js";

const [PLAY, FLICKER] = [600, 80]; // milliseconds a picture stays
const BLOCK = 16; // members fetched together
let [playing, flickering] = [null, null];

export function play() {
  clearInterval(playing);
  playing = playing ? null : setInterval(() => goTo((position() + 1) % timesOf().length), PLAY);
  by("play").setAttribute("aria-pressed", Boolean(playing));
  by("play-sign").textContent = playing ? "❚❚" : "▶";
}

// One member after the other; the next block is fetched while this one is shown.
export function flicker(button) {
  clearInterval(flickering);
  flickering = flickering ? null : setInterval(next, FLICKER);
  button.setAttribute("aria-pressed", Boolean(flickering));
  const { members } = fileA();
  let now = Number(page.state.layer.split(":")[1]);
  if (flickering) [now, now + BLOCK].forEach(fetchAround);

  function next() {
    if (!page.state.layer.startsWith("member:")) return flicker(button);
    now = (now + 1) % members;
    if (now % BLOCK === 0) fetchAround(now + BLOCK);
    return page.change({ layer: `member:${now}` });
  }

  function fetchAround(member) {
    const first = Math.floor((member % members) / BLOCK) * BLOCK;
    const { variable, start, lead } = page.state;
    page.source.ahead?.(0, variable, start, lead, first, Math.min(BLOCK, members - first));
  }
}
