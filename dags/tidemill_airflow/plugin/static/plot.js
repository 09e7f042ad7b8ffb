// Plot of a sample: a point for each time, or a bar for each key.

import { svg } from "./dom.js";

const WIDTH = 720;
const HEIGHT = 180;
const EDGE = 28;
const LABEL = 150;
const BAR = 20;
const MOST_BARS = 15;

export function plotOf({ points, title, is_ordered: isOrdered }) {
  if (!points.length) return svg("svg", {});
  return isOrdered ? alongAxis(points, title) : bars(points.slice(0, MOST_BARS), title);
}

function alongAxis(points, title) {
  const values = points.map((point) => point.value);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const x = (place) => EDGE + (place * (WIDTH - 2 * EDGE)) / Math.max(1, points.length - 1);
  const y = (value) => HEIGHT - EDGE - ((value - low) / (high - low || 1)) * (HEIGHT - 2 * EDGE);
  const dots = points.map((point, place) => svg("circle", { cx: x(place), cy: y(point.value), r: 3 }, svg("title", {}, `${point.label}: ${point.value}`)));
  const ends = [
    svg("text", { x: 0, y: EDGE - 10 }, short(high)), svg("text", { x: 0, y: HEIGHT - EDGE + 4 }, short(low)),
    svg("text", { x: EDGE, y: HEIGHT - 4 }, points[0].label), svg("text", { x: WIDTH - EDGE, y: HEIGHT - 4, "text-anchor": "end" }, points.at(-1).label),
  ];
  return framed(HEIGHT, title, [...dots, ...ends]);
}

function bars(points, title) {
  const most = Math.max(...points.map((point) => Math.abs(point.value))) || 1;
  const lines = points.flatMap((point, place) => [
    svg("text", { x: 0, y: place * BAR + 14 }, point.label.slice(0, 20)),
    svg("rect", { x: LABEL, y: place * BAR + 3, height: BAR - 6, width: ((WIDTH - LABEL - 90) * Math.abs(point.value)) / most }),
    svg("text", { x: WIDTH, y: place * BAR + 14, "text-anchor": "end" }, short(point.value)),
  ]);
  return framed(points.length * BAR, title, lines);
}

function framed(height, title, parts) {
  return svg("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": title }, parts);
}

function short(value) {
  return Number(value.toPrecision(4)).toLocaleString("en");
}
