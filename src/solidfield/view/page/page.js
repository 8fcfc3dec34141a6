// What all parts of the page share: the source of the data, the state, what is drawn, and the way to change it.

export const by = (id) => document.getElementById(id);

export const page = {
  source: null,
  about: null,
  state: null,
  scenes: {}, // by panel: what is drawn
  panels: {}, // a and b
  marks: { draft: null, cursor: null },
  mode: "ask", // or "area", "imagine": what a click on the map means
  change: null, // set by main.js: change(part, anew)
  waiting: { map: null, law: null }, // promises of what was asked for last
};

export const fileA = () => page.about.files[0];
export const variableA = () => fileA().variables.find((one) => one.name === page.state.variable);

// A chart, the slider and play run along the leads; along the starts where there is but one lead.
export const alongLeads = () => fileA().times.lead.length > 1;
export const timesOf = () => (alongLeads() ? fileA().times.lead : fileA().times.start);
export const position = () => (alongLeads() ? page.state.lead : page.state.start);
export const goTo = (time) => page.change(alongLeads() ? { lead: time } : { start: time });

// The threshold of a layer of chances that is shown, as text.
export const threshold = () => [page.state.layer, page.state.second].find((layer) => layer.startsWith("above:"))?.slice(6);

// When what was asked for last is there. What is overtaken ends at once: then wait for what overtook it.
export async function settled(what, there) {
  let last = null;
  do {
    last = page.waiting[what];
    await last;
  } while (!there() && last !== page.waiting[what]);
  return there();
}

export function say(id, words) {
  by(id).textContent = words;
}
