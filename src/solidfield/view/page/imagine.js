// Imagined sensors: placed, dragged, given a value; the run draws again, and its maps stand beside the first ones.

import { number, withUnits } from "./format.js";
import { element } from "./layers.js";
import { by, fileA, page, say, variableA } from "./page.js";

export function fillFiles() {
  const { files } = page.about;
  by("file-b").replaceChildren(...files.map((file, k) => element("option", { value: k, textContent: file.name })));
  by("file-label").hidden = files.length < 2;
}

// A new sensor (index -1) or one that is dragged; the maps are drawn again when it is let go.
export function imagine(index, place, done) {
  const { state, scenes, panels } = page;
  const one = { y: place[0], x: place[1], value: index < 0 ? guess(place) : state.imagined[index].value };
  const imagined = index < 0 ? [...state.imagined, one] : state.imagined.map((other, k) => (k === index ? one : other));
  page.mode = "ask";
  say("readout", "");
  if (done) {
    by("imagine-value").value = one.value;
    return drawImagined(imagined);
  }
  page.state = { ...state, imagined };
  scenes.a.marks = { ...scenes.a.marks, imagined };
  return panels.a.draw();
}

// What the map says there, where it shows a value; else the middle of its colours.
function guess(place) {
  const { scenes, panels } = page;
  const [row, column] = panels.a.cell(...place);
  const here = scenes.a.scale.field ? scenes.a.values[row * fileA().x.length + column] : NaN;
  const [low, high] = variableA().field;
  return Number((Number.isFinite(here) ? here : (low + high) / 2).toPrecision(3));
}

function changed(what, [before, after]) {
  const less = Math.round(100 * (1 - after / before));
  const words = less >= 0 ? `${less} % less` : `${-less} % more`;
  return `${what}: ${number(before)} without, ${withUnits(after, variableA().units)} with it (${words}).`;
}

export async function drawImagined(imagined) {
  const { state, about } = page;
  if (!imagined.length) {
    say("imagine-words", "");
    about.files.length = about.named;
    fillFiles();
    return page.change({ imagined, second: "", fileB: 0 });
  }
  say("imagine-words", "Drawing the maps again …");
  try {
    const { variable, start, lead } = state;
    const answer = await page.source.imagine({ variable, start, lead, sensors: imagined });
    about.files[answer.number] = answer.about;
    say("imagine-words", `${changed("Spread there", answer.there)} ${changed("Mean spread of the map", answer.all)} The second map is with it.`);
    fillFiles();
    return page.change({ imagined, second: state.second || state.layer, fileB: answer.number });
  } catch (error) {
    say("imagine-words", error.message);
    return page.change({ imagined: state.imagined.length < imagined.length ? state.imagined : state.imagined.slice(0, -1) });
  }
}
