// All pipelines in one table, from one request. Rows are updated in place, so that a refresh moves neither
// the focus nor the scroll position.

import { get } from "./api.js";
import { runbookOf } from "./airflow_links.js";
import { badge, el, note, tell } from "./dom.js";
import { sparkline } from "./sparkline.js";
import { ago, count, fixOf, rate, span } from "./words.js";

const ORDER = { bad: 0, warn: 1, good: 2, off: 3 };

const COLUMNS = [
  { key: "name", words: "Pipeline", of: (row) => row.name },
  { key: "state", words: "State", of: (row) => ORDER[row.health] },
  { key: "reason", words: "Reason and fix", of: (row) => row.reason },
  { key: "mode", words: "Mode", of: (row) => row.mode, optional: true },
  { key: "lag", words: "Lag", of: (row) => row.lag ?? -1 },
  { key: "rate", words: "Rows/s", of: (row) => row.rate.at(-1) ?? -1 },
  { key: "batch", words: "Batch / trigger", of: (row) => row.batch_milliseconds ?? -1, optional: true },
  { key: "loss", words: "Until data loss", of: (row) => row.loss_seconds ?? Infinity },
  { key: "committed", words: "Last commit", of: (row) => row.committed_at ?? "" },
  { key: "owner", words: "Owner", of: (row) => row.owner, optional: true },
];

const LOSS_COLOURS = { warn: "warn", urgent: "bad", lost: "bad" };

function cellsOf(row) {
  const trigger = row.trigger_seconds ? ` / ${span(row.trigger_seconds)}` : "";
  const batch = row.batch_milliseconds === null ? "" : span(row.batch_milliseconds / 1000) + trigger;
  const fixes = row.holds.map((hold) => el("div", {}, "To fix: ", el("a", { href: `#/pipelines/${row.name}` }, el("code", {}, fixOf(row, hold)))));
  return [
    el("td", {}, el("a", { href: `#/pipelines/${row.name}` }, row.name)),
    el("td", {}, badge(row.health, row.state)),
    el("td", { class: "wide" }, row.reason, fixes, el("div", { class: "faint" }, runbookOf(row))),
    el("td", { class: "optional" }, row.mode),
    el("td", { class: "number" }, sparkline(row.lags, "records that waited"), " ", count(row.lag)),
    el("td", { class: "number" }, sparkline(row.rate, "rows a second"), " ", rate(row.rate.at(-1))),
    el("td", { class: "number optional" }, batch),
    el("td", { class: `number ${LOSS_COLOURS[row.loss_level] ?? ""}`, title: row.loss_words }, span(row.loss_seconds)),
    el("td", { class: "number", title: row.committed_at ?? "" }, ago(row.committed_at)),
    el("td", { class: "optional" }, row.owner),
  ];
}

export function overviewView() {
  const chosen = { text: "", health: "", group: "", sort: "state", down: false };
  const kept = new Map();
  let newest = { pipelines: [] };

  const search = el("input", { type: "search", placeholder: "Search name, owner, reason", "aria-label": "Search", oninput: () => { chosen.text = search.value.toLowerCase(); draw(); } });
  const health = choice("State", { "": "all states", bad: "needs a person", warn: "watch", good: "well", off: "off" }, (value) => { chosen.health = value; draw(); });
  const group = choice("Group by", { "": "not grouped", zone: "by zone", owner: "by owner" }, (value) => { chosen.group = value; draw(); });
  const counts = el("span", { class: "faint", role: "status" });
  const problem = el("div");
  const headings = COLUMNS.map((column) => el("th", { scope: "col", class: column.optional ? "optional" : null },
    el("button", { type: "button", onclick: () => sortBy(column.key) }, column.words)));
  const body = el("tbody");
  const table = el("table", { class: "overview" }, el("caption", { hidden: true }, "Pipelines"), el("thead", {}, el("tr", {}, headings)), body);
  const element = el("div", {}, el("div", { class: "bar" }, search, health, group, counts), problem,
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Pipelines" }, table));

  function sortBy(key) {
    chosen.down = chosen.sort === key ? !chosen.down : false;
    chosen.sort = key;
    draw();
  }

  function matches(row) {
    const text = `${row.name} ${row.owner} ${row.state} ${row.reason}`.toLowerCase();
    return (!chosen.health || row.health === chosen.health) && text.includes(chosen.text);
  }

  function compared(one, other) {
    const { of } = COLUMNS.find((column) => column.key === chosen.sort);
    const [left, right] = [of(one), of(other)];
    const order = left < right ? -1 : left > right ? 1 : one.name < other.name ? -1 : 1;
    return chosen.down ? -order : order;
  }

  // Recreates a row only if its text has changed. Ages are shown to the second, so recent rows change often.
  function rowOf(row) {
    const said = JSON.stringify(row) + ago(row.committed_at);
    const known = kept.get(row.name);
    if (known?.said === said) return known.element;
    if (known) {
      known.said = said;
      const held = known.element.contains(document.activeElement);
      known.element.replaceChildren(...cellsOf(row));
      if (held) known.element.querySelector("a").focus();
      return known.element;
    }
    const element = el("tr", { class: "row", "data-pipeline": row.name }, cellsOf(row));
    kept.set(row.name, { said, element });
    return element;
  }

  /** Groups rows by zone or owner; one group "" if they are not grouped. */
  function grouped(rows) {
    const groups = new Map();
    for (const row of rows) {
      const name = chosen.group ? row[chosen.group] || "none" : "";
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(row);
    }
    return groups;
  }

  function draw() {
    for (const [place, column] of COLUMNS.entries()) {
      headings[place].setAttribute("aria-sort", column.key !== chosen.sort ? "none" : chosen.down ? "descending" : "ascending");
    }
    const rows = newest.pipelines.filter(matches).sort(compared);
    const wanted = [...grouped(rows)].sort(([one], [other]) => (one < other ? -1 : 1)).flatMap(([name, members]) => [
      ...(chosen.group ? [el("tr", { class: "group" }, el("th", { colspan: COLUMNS.length, scope: "rowgroup" }, `${name} (${members.length})`))] : []),
      ...members.map(rowOf),
    ]);
    if (wanted.length !== body.children.length || wanted.some((row, place) => row !== body.children[place])) {
      const focused = document.activeElement;
      body.replaceChildren(...wanted);
      if (body.contains(focused)) focused.focus();
    }
    const bad = newest.pipelines.filter((row) => row.health === "bad").length;
    counts.textContent = `${rows.length} of ${newest.pipelines.length} pipelines, ${bad} need a person`;
  }

  async function refresh() {
    newest = await get("pipelines");
    const { warning } = newest;
    tell(problem, [...(newest.problem ? [note("bad", newest.problem)] : []), ...(warning ? [note("bad", [`${warning.words} `, runbookOf(warning)])] : [])]);
    document.getElementById("as-of").textContent = newest.at ? `${newest.environment}, as of ${ago(newest.at)}` : "looking…";
    draw();
  }

  return { name: "overview", title: "Streams", element, refresh };
}

function choice(label, words, choose) {
  const options = Object.entries(words).map(([value, text]) => el("option", { value }, text));
  const select = el("select", { "aria-label": label, onchange: () => choose(select.value) }, options);
  return select;
}
