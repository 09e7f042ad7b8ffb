// Line of the newest values, from zero to the maximum.

import { svg } from "./dom.js";

const WIDTH = 96;
const HEIGHT = 20;

export function sparkline(values, what) {
  if (values.length < 2) return null;
  const top = Math.max(...values) || 1;
  const points = values.map((value, place) => `${((place * WIDTH) / (values.length - 1)).toFixed(1)},${(HEIGHT - 1 - (value / top) * (HEIGHT - 2)).toFixed(1)}`);
  const words = `${what}, ${values.length} batches, at most ${Math.max(...values)}`;
  return svg("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": words }, svg("polyline", { points: points.join(" ") }));
}
