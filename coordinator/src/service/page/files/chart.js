// How many devices were busy in the last hour, as a picture and in words.

import { count } from "/words.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 720;
const HEIGHT = 100;
const HOUR_MS = 3600000;

function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function paragraph(...words) {
  const made = document.createElement("p");
  made.append(
    ...words.map((word) => {
      const span = document.createElement("span");
      span.textContent = word;
      return span;
    }),
  );
  return made;
}

// Puts the picture of the samples into a place.
export function draw(place, past) {
  const samples = past.samples;
  if (samples.length === 0) {
    place.replaceChildren(paragraph("The first sample is about to be taken."));
    return;
  }
  const last = samples[samples.length - 1];
  const most = Math.max(1, ...samples.map((sample) => sample.devices));
  const x = (sample) => Math.max(0, WIDTH * (1 - (last.unix_ms - sample.unix_ms) / HOUR_MS)).toFixed(1);
  const y = (sample) => (HEIGHT * (1 - sample.busy / most)).toFixed(1);
  // Each sample holds back to the one before.
  const every = (WIDTH * past.every_ms) / HOUR_MS;
  const start = Math.max(0, x(samples[0]) - every).toFixed(1);
  const steps = samples.map((sample) => `V${y(sample)}H${x(sample)}`).join("");
  const busy = samples.map((sample) => sample.busy);
  const words =
    `${count(last.busy)} of ${count(last.devices)} devices are busy now; ` +
    `at most ${count(Math.max(...busy))} and at least ${count(Math.min(...busy))} were`;
  const picture = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": words });
  picture.append(element("path", { class: "busy", d: `M${start} ${HEIGHT}${steps}V${HEIGHT}Z` }));
  place.replaceChildren(picture, paragraph("1 h ago", "now"), paragraph(`${words}. The full height is ${count(most)} ${most === 1 ? "device" : "devices"}.`));
}
