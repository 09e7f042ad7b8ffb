// Pipelines and tables from left to right, with their staleness.

import { get } from "./api.js";
import { el, note, svg, tell } from "./dom.js";
import { ago } from "./words.js";

const BOX = { width: 190, height: 40, across: 276, down: 64, edge: 16 };

export function graphView() {
  const picture = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Graph" });
  const problem = el("div");
  const element = el("div", {}, el("p", { class: "faint" }, "Links say when a pipeline last read or committed. Dashed red is stale, with the pipeline whose trouble it is; so is all that is made of it. A box leads to its pipeline."), problem, picture);
  let shown = "";

  async function refresh() {
    const graph = await get("graph");
    tell(problem, graph.problem ? [note("bad", graph.problem)] : []);
    document.getElementById("as-of").textContent = graph.at ? `as of ${ago(graph.at)}` : "looking…";
    // Times change in nearly every snapshot, other data rarely.
    const said = JSON.stringify([graph.nodes, graph.edges], (key, value) => (key === "at" ? undefined : value));
    if (said === shown) return tellAges(graph.edges);
    shown = said;
    const held = document.activeElement?.getAttribute?.("href");
    picture.replaceChildren(graph.nodes.length ? drawn(graph) : "There is no pipeline.");
    if (held) [...picture.querySelectorAll("a")].find((link) => link.getAttribute("href") === held)?.focus();
  }

  function tellAges(edges) {
    picture.querySelectorAll("svg > text.when").forEach((text, place) => { text.firstChild.data = wordsOf(edges[place]); });
  }

  return { name: "graph", title: "Graph · Streams", element, refresh };
}

// Places the nodes of a column near the mean of their dependencies, so that few links cross.
function placed({ nodes, edges }) {
  const places = new Map();
  const last = Math.max(...nodes.map((node) => node.column));
  for (let column = 0; column <= last; column += 1) {
    const members = nodes.filter((node) => node.column === column).map((node) => {
      const rows = edges.filter((edge) => edge.target === node.id && places.has(edge.source)).map((edge) => places.get(edge.source).row);
      return { node, wanted: rows.length ? rows.reduce((sum, row) => sum + row, 0) / rows.length : Infinity };
    });
    members.sort((one, other) => one.wanted - other.wanted || (one.node.name < other.node.name ? -1 : 1));
    members.forEach(({ node }, row) => places.set(node.id, { node, row, x: BOX.edge + column * BOX.across, y: BOX.edge + row * BOX.down }));
  }
  return places;
}

function drawn(graph) {
  const places = placed(graph);
  const width = Math.max(...[...places.values()].map((place) => place.x)) + BOX.width + BOX.edge;
  const height = Math.max(...[...places.values()].map((place) => place.y)) + BOX.height + BOX.edge;
  const links = graph.edges.map((edge) => linkOf(edge, places.get(edge.source), places.get(edge.target)));
  const boxes = [...places.values()].map(boxOf);
  return svg("svg", { class: "graph", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Pipelines and tables" }, links, boxes);
}

function linkOf(edge, from, to) {
  const [x1, y1, x2, y2] = [from.x + BOX.width, from.y + BOX.height / 2, to.x, to.y + BOX.height / 2];
  const middle = (x1 + x2) / 2;
  const stale = edge.stale ? "stale" : null;
  return [
    svg("path", { d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`, class: stale }),
    svg("text", { x: middle, y: (y1 + y2) / 2 - 4, "text-anchor": "middle", class: `when ${stale ?? ""}` }, wordsOf(edge), titleOf(edge)),
  ];
}

function wordsOf(edge) {
  return [edge.stale ? "stale" : null, edge.at ? ago(edge.at) : null].filter(Boolean).join(", ") || "–";
}

function boxOf({ node, x, y }) {
  const stale = node.stale ? "stale" : "";
  const what = [node.kind, node.health, node.stale ? `stale: ${node.stale.pipeline}` : null].filter(Boolean).join(", ");
  const box = [
    svg("rect", { class: `node ${node.health ?? ""} ${stale}`, x, y, width: BOX.width, height: BOX.height, rx: node.kind === "pipeline" ? 20 : 4 }),
    svg("text", { x: x + 12, y: y + 17 }, cut(node.name, 26)),
    svg("text", { x: x + 12, y: y + 33, class: `when ${stale}` }, cut(what, 30)),
    svg("title", {}, [`${node.kind} ${node.name}`, ...reasonOf(node)].join("\n")),
  ];
  if (node.kind !== "pipeline") return svg("g", {}, box);
  return svg("a", { href: `#/pipelines/${node.name}`, "aria-label": [`pipeline ${node.name}`, node.health, ...reasonOf(node)].join(", ") }, box);
}

function titleOf(edge) {
  return edge.stale ? svg("title", {}, reasonOf(edge).join("")) : null;
}

function reasonOf({ stale }) {
  return stale ? [`stale because of ${stale.pipeline}: ${stale.why}`] : [];
}

function cut(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
