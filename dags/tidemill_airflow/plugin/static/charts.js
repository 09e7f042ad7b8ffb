// Live charts of a pipeline's batches, drawn by uPlot. Related series share a chart.

import uPlot from "./vendor/uPlot.esm.js";
import { el } from "./dom.js";
import { colour } from "./theme.js";
import { rate } from "./words.js";

const HEIGHT = 150;

// Seconds shown before a single batch; uPlot would show an axis of three years.
const BEFORE_ONE = 60;
const STROKES = ["#3182ce", "#dd6b20", "#38a169", "#805ad5", "#d53f8c", "#b7791f", "#319795", "#718096"];

// The charts: names of their series, and how the values follow from the points.
const CHARTS = [
  { title: "Rows a second", series: (points) => ({ "in": points.map((p) => p.input_rate), "done": points.map((p) => p.processed_rate) }) },
  { title: "Batch time by part (ms)", series: (points) => partsOf(points) },
  { title: "Lag by partition (records)", series: (points) => lagOf(points) },
  { title: "Watermark behind the newest event (s)", series: (points) => ({ delay: points.map((p) => p.watermark_delay_seconds) }) },
  { title: "Rows of state", series: (points) => ({ rows: points.map((p) => p.state_rows) }) },
  { title: "State (MB)", series: (points) => ({ MB: points.map((p) => p.state_bytes / 1e6) }) },
  { title: "Rows set aside", series: (points) => ({ quarantined: points.map((p) => p.quarantined_rows), late: points.map((p) => p.late_rows) }) },
];

function partsOf(points) {
  const names = [...new Set(points.flatMap((point) => Object.keys(point.parts)))].sort();
  return { whole: points.map((p) => p.batch_milliseconds), ...Object.fromEntries(names.map((name) => [name, points.map((p) => p.parts[name] ?? null)])) };
}

// The partitions with the highest lag; only the slowest if the driver reports no others.
function lagOf(points) {
  const worst = new Map();
  for (const point of points) for (const [name, lag] of Object.entries(point.partition_lag)) worst.set(name, Math.max(worst.get(name) ?? 0, lag));
  const names = [...worst].sort(([, one], [, other]) => other - one).slice(0, STROKES.length).map(([name]) => name).sort();
  if (!names.length) return { slowest: points.map((p) => p.lag) };
  return Object.fromEntries(names.map((name) => [name, points.map((p) => p.partition_lag[name] ?? null)]));
}

// UTC, like all times on the page.
function clock(seconds) {
  return new Date(seconds * 1000).toISOString().slice(11, 19);
}

function spanOf(plot, first, last) {
  return plot.data[0].length === 1 ? [first - BEFORE_ONE, first] : [first, last];
}

// True if the user has selected a time range and has not reset it by a double click.
function isZoomed({ data: [times], scales: { x } }) {
  return times.length > 1 && (x.min > times[0] || x.max < times.at(-1));
}

function show(plot, data) {
  const { min, max } = plot.scales.x;
  const stays = isZoomed(plot);
  plot.setData(data, !stays);
  if (stays) plot.setScale("x", { min, max });
}

function says(series) {
  return Object.values(series).some((values) => values.some((value) => value));
}

// Text for screen readers: the newest and the highest value; of several series, the highest one.
function describe(root, title, series) {
  const top = (pick) => Object.entries(series)
    .map(([name, values]) => ({ name, value: pick(values.filter(Number.isFinite)) }))
    .filter(({ value }) => value !== undefined)
    .reduce((one, other) => (other.value > one.value ? other : one));
  const words = ({ name, value }) => (Object.keys(series).length > 1 ? `${rate(value)} (${name})` : rate(value));
  const said = `newest ${words(top((values) => values.at(-1)))}, highest ${words(top((values) => (values.length ? Math.max(...values) : undefined)))}`;
  root.parentElement.querySelector(".said").textContent = said;
  const canvas = root.querySelector("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${title}: ${said}`);
}

export function chartsOf() {
  const element = el("div", { class: "charts" });
  let drawn = new Map();
  let newest = [];

  function draw(points) {
    newest = points;
    const times = points.map((point) => Date.parse(point.at) / 1000);
    const wanted = CHARTS.map((chart) => ({ title: chart.title, series: chart.series(points) })).filter(({ series }) => says(series));
    const keys = wanted.map(({ title, series }) => `${title} ${Object.keys(series)}`);
    if (keys.join() !== [...drawn.keys()].join()) rebuild(wanted, keys);
    wanted.forEach(({ title, series }, place) => {
      show(drawn.get(keys[place]), [times, ...Object.values(series)]);
      describe(drawn.get(keys[place]).root, title, series);
    });
    if (!wanted.length) element.replaceChildren(el("p", { class: "faint" }, "No batch has been reported yet."));
  }

  function rebuild(wanted, keys) {
    for (const plot of drawn.values()) plot.destroy();
    const cards = wanted.map(({ title }) => el("section", { class: "card", "aria-label": title }, el("h3", {}, title), el("p", { class: "said" })));
    element.replaceChildren(...cards);
    drawn = new Map(wanted.map(({ series }, place) => [keys[place], plotIn(cards[place], Object.keys(series))]));
  }

  function plotIn(card, names) {
    const line = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") } };
    const series = names.map((label, place) => ({ label, stroke: STROKES[place % STROKES.length], width: 1.5, spanGaps: true }));
    const options = { width: Math.max(240, card.clientWidth - 26), height: HEIGHT, series: [{}, ...series], axes: [{ ...line, values: (_, moments) => moments.map(clock), space: 80 }, { ...line, size: 60 }], scales: { x: { range: spanOf } }, legend: { live: false }, cursor: { drag: { x: true, y: false } } };
    return new uPlot(options, [[], ...names.map(() => [])], card);
  }

  function again() {
    drawn.forEach((plot) => plot.destroy());
    drawn = new Map();
    draw(newest);
  }

  window.addEventListener("themechange", again);
  window.addEventListener("resize", again);
  return { element, draw, end: () => { window.removeEventListener("themechange", again); window.removeEventListener("resize", again); } };
}
