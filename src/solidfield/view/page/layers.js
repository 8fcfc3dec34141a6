// The choice of a layer: mean, spread, quantile, member, chance; the last three with a slider.

import { percent, withUnits } from "./format.js";

const KINDS = [["mean", "Mean"], ["std", "Spread"], ["q", "Quantile"], ["member", "Member"], ["above", "Chance"]];

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key in made && key !== "list") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

export function kindOf(layer) {
  return layer.split(":")[0];
}

export function layerWords(layer, variable, members) {
  const [kind, detail] = layer.split(":");
  const name = variable.name;
  if (kind === "std") return `spread of ${name}`;
  if (kind === "q") return `${percent(Number(detail))} quantile of ${name}`;
  if (kind === "member") return `${name}, member ${Number(detail) + 1} of ${members}`;
  if (kind === "above") return `chance that ${name} is above ${withUnits(Number(detail), variable.units)}`;
  return `mean of ${name}`;
}

// Fills `holder`; get() is the layer now, set(layer) tells of a new one. Returns a function that shows it again.
export function layerChoice(holder, name, { get, set, flicker, context }) {
  const radios = KINDS.map(([kind, word]) => {
    const radio = element("input", { type: "radio", name, value: kind });
    radio.addEventListener("change", () => set(first(kind)));
    return [radio, element("label", {}, radio, element("span", {}, word))];
  });
  const slider = element("input", { type: "range", step: 1 });
  const shown = element("output", {});
  const play = element("button", { type: "button", textContent: "Flicker", title: "Show one member after the other" });
  play.setAttribute("aria-pressed", "false");
  const detail = element("div", { className: "detail" }, slider, shown, play);
  const legend = element("legend", {}, "Layer");
  holder.replaceChildren(element("fieldset", {}, legend, element("div", { className: "choice" }, ...radios.map(([, l]) => l))), detail);
  const remembered = {};

  function first(kind) {
    if (kind in remembered) return remembered[kind];
    const { variable } = context();
    if (kind === "q") return `q:${quantile(0.9)}`;
    if (kind === "member") return "member:0";
    if (kind === "above") return `above:${Number((variable.field[0] + 0.75 * (variable.field[1] - variable.field[0])).toPrecision(2))}`;
    return kind;
  }

  slider.addEventListener("input", () => {
    const kind = kindOf(get());
    const value = Number(slider.value);
    if (kind === "q") set(`q:${quantile(value / 100)}`);
    if (kind === "member") set(`member:${value - 1}`);
    if (kind === "above") set(`above:${threshold(value)}`);
  });
  play.addEventListener("click", () => flicker(play));

  // Without members there are only the quantiles that were stored.
  function quantile(share) {
    const { variable, members } = context();
    if (members) return share;
    return variable.quantiles.reduce((best, q) => (Math.abs(q - share) < Math.abs(best - share) ? q : best));
  }

  function threshold(position) {
    const [low, high] = range();
    return Number((low + ((high - low) * position) / 200).toPrecision(3));
  }

  function range() {
    const { variable } = context();
    const [low, high] = variable.field;
    return [low, high + 0.25 * (high - low)];
  }

  return function show() {
    const [kind, text] = get().split(":");
    remembered[kind] = get();
    const { variable, members } = context();
    for (const [radio] of radios) {
      radio.checked = radio.value === kind;
      const can = { mean: true, std: variable.spread, q: members > 0 || variable.quantiles.length > 0, member: members > 0, above: members > 0 };
      radio.disabled = !can[radio.value];
    }
    detail.hidden = kind === "mean" || kind === "std";
    play.hidden = kind !== "member" || !flicker;
    const words = { q: "Quantile in percent", member: "Member", above: "Threshold" };
    slider.setAttribute("aria-label", words[kind] ?? "Detail");
    if (kind === "q") place(1, 99, Math.round(100 * Number(text)), percent(Number(text)));
    if (kind === "member") place(1, members, Number(text) + 1, `${Number(text) + 1} of ${members}`);
    if (kind === "above") {
      const [low, high] = range();
      place(0, 200, Math.round((200 * (Number(text) - low)) / (high - low)), `> ${withUnits(Number(text), variable.units)}`);
    }
  };

  function place(least, most, value, words) {
    slider.min = least;
    slider.max = most;
    slider.value = value;
    shown.textContent = words;
    slider.setAttribute("aria-valuetext", words);
  }
}
