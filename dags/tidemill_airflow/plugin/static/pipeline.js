// One pipeline: its state, its actions and its parts, each of which is read when it is opened.

import { part } from "./api.js";
import { airflowLink, dagPath, runbookOf } from "./airflow_links.js";
import { chartsOf } from "./charts.js";
import { badge, el, note } from "./dom.js";
import { PARTS } from "./parts.js";
import { openTriggerForm } from "./trigger_form.js";
import { ago, count, fixOf, span, utc } from "./words.js";

// `dagId`, if given, must be the pipeline's DAG, because Airflow may also have a pipeline of this name in
// another environment.
export function pipelineView(name, dagId = null) {
  const head = el("div");
  const charts = chartsOf();
  const sections = PARTS.map((each) => section(name, each));
  const element = el("article", { "aria-label": name }, head, el("h2", {}, "Batches (UTC)"), charts.element, sections.map(({ element }) => element));
  let shown = "";

  async function refresh() {
    const view = await part(name, "");
    if (dagId && view.row.dag_id !== dagId) throw new Error(`${dagId} is no DAG of the environment that this page shows`);
    const said = JSON.stringify({ ...view, at: null }) + ago(view.row.committed_at);
    if (said !== shown) drawHead(head, view);
    shown = said;
    document.getElementById("as-of").textContent = [view.message, view.at ? `as of ${ago(view.at)}` : "looking…"].filter(Boolean).join(", ");
    charts.draw((await part(name, "history")).points);
    await Promise.all(sections.map((each) => each.refresh(view)));
  }

  return { name: "pipeline", title: `${name} · Streams`, element, refresh, end: charts.end };
}

function drawHead(head, view) {
  const { row } = view;
  const held = head.querySelector("button:focus")?.textContent;
  const buttons = view.actions.map((action, place) => el("button", { type: "button", class: place === 0 && row.health === "bad" ? "main" : null, onclick: () => openTriggerForm(action) }, action.label));
  head.replaceChildren(
    el("div", { class: "bar" }, el("h1", {}, row.name), badge(row.health, row.state), airflowLink(dagPath(row.dag_id), `DAG ${row.dag_id}`)),
    ...(view.problem ? [note("bad", view.problem)] : []),
    el("p", {}, view.description, el("span", { class: "faint" }, ` Owner: ${row.owner}.`)),
    ...(row.reason ? [note(row.health, [row.reason, row.runbook ? "\n" : null, runbookOf(row)])] : []),
    ...row.holds.map((hold) => holdNote(view, hold)),
    el("div", { class: "bar", role: "group", "aria-label": "Actions" }, buttons),
    facts(view),
  );
  if (held) [...head.querySelectorAll("button")].find((button) => button.textContent === held)?.focus();
}

// Shows the fix as a button if the viewer may use it.
function holdNote({ row, actions }, hold) {
  const release = actions.find((action) => action.conf.hold === hold.id);
  const fix = el("code", {}, fixOf(row, hold));
  const to = release ? el("button", { type: "button", "aria-label": `To fix: ${fixOf(row, hold)}`, onclick: () => openTriggerForm(release) }, fix) : fix;
  return note("warn", [`Held by ${hold.by} since ${utc(hold.since)}: ${hold.why}\nTo fix: `, to]);
}

function facts({ row, ...view }) {
  const said = {
    "Wanted": row.desired,
    "Mode": row.mode,
    "Lag": count(row.lag),
    "Batch": row.batch_id === null ? "–" : `${row.batch_id}, ${span(row.batch_milliseconds === null ? null : row.batch_milliseconds / 1000)}`,
    "Last commit": ago(row.committed_at),
    "Until data loss": span(row.loss_seconds),
    "Quarantined": count(row.quarantined_rows),
    "Late": count(row.late_rows),
    "Watermark": utc(view.watermark),
    "Generation, epoch": view.generation ? `${view.generation}, ${view.epoch}` : "–",
    "Reads": view.source,
    "Writes": view.tables.join(", ") || "–",
  };
  return el("dl", { class: "facts" }, Object.entries(said).map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value))));
}

// Selects one of several items of a part. The selection is outside the part, which is redrawn, so it keeps
// the focus.
function choiceOf({ label, among }, chosen) {
  const select = el("select", { "aria-label": label, onchange: chosen });
  const element = el("div", { class: "bar", hidden: true }, select);

  function offer(view) {
    const [options, before] = [among(view), select.value];
    if (options.join("\n") === [...select.options].map((option) => option.value).join("\n")) return;
    select.replaceChildren(...options.map((each) => el("option", { value: each, selected: each === before }, each)));
    element.hidden = options.length < 2;
  }

  return { element, offer, value: () => select.value };
}

// A part is read while it is open, and redrawn only if it has changed.
function section(name, { title, id, needsRecords, load, choose }) {
  const body = el("div");
  const choice = choose ? choiceOf(choose, () => refresh(newest)) : null;
  const element = el("details", { id, ontoggle: () => element.open && newest && refresh(newest) }, el("summary", {}, el("h2", { class: "inline" }, title)), choice?.element, body);
  let newest = null;
  let shown = "";

  async function refresh(view) {
    newest = view;
    element.hidden = needsRecords && !view.may_see_records;
    if (!element.open || element.hidden) return;
    choice?.offer(view);
    const chosen = choice?.value();
    try {
      const { said, draw } = await load(name, view, chosen);
      if (chosen !== choice?.value()) return;
      const text = JSON.stringify(said);
      if (text !== shown) body.replaceChildren(...[draw()].flat());
      shown = text;
    } catch (error) {
      shown = "";
      body.replaceChildren(note(error.status === 404 ? "off" : "bad", error.message));
    }
  }

  return { element, refresh };
}
