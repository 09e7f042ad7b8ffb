// The parts of a pipeline's page: the data that each requests, and how it is drawn.

import { part } from "./api.js";
import { badge, el, number, table, wide } from "./dom.js";
import { plotOf } from "./plot.js";
import { timelineOf } from "./timeline.js";
import { count, span, utc } from "./words.js";

const STATES = { "at work": "good", finished: "good", planned: "off", stopped: "warn" };

async function explanation(name) {
  const said = await part(name, "explanation");
  const paragraph = ({ heading, sentences }) => [el("h3", {}, heading), el("ul", {}, sentences.map((sentence) => el("li", {}, sentence)))];
  return { said, draw: () => said.map(paragraph).flat() };
}

async function ledger(name) {
  const lines = await part(name, "ledger");
  const row = (line) => [
    utc(line.committed_at), line.table, number(line.version), line.mode, number(line.batch_id ?? ""), line.generation,
    number(count(line.rows)), number(count(line.quarantined_rows)), number(count(line.late_rows)), utc(line.watermark),
    el("td", {}, Object.keys(line.sources).length ? el("details", {}, el("summary", {}, "offsets"), el("pre", {}, JSON.stringify(line.sources, null, 1))) : ""),
  ];
  const headings = ["Committed (UTC)", "Table", "Version", "Mode", "Batch", "Generation", "Rows", "Quarantined", "Late", "Watermark", "Read"];
  return { said: lines, draw: () => (lines.length ? table("Ledger", headings, lines.map(row)) : "Nothing has been committed yet.") };
}

async function checkpoints(name) {
  const said = await part(name, "checkpoints");
  return { said, draw: () => timelineOf(said) };
}

async function backfills(name) {
  const said = await part(name, "backfills");
  const row = (each) => [
    each.range, badge(STATES[each.state], each.state),
    el("td", {}, each.share === null ? "–" : el("progress", { max: "1", value: String(each.share), "aria-label": `${each.done} of ${each.chunks} chunks` }), each.chunks ? ` ${each.done} of ${each.chunks}` : ""),
    each.left_seconds === null ? "–" : span(each.left_seconds), Object.entries(each.rows).map(([name, rows]) => `${name} ${count(rows)}`).join(", "), utc(each.begun_at), el("code", {}, each.plan),
  ];
  return { said, draw: () => (said.length ? table("Backfills", ["Range", "State", "Chunks", "Left", "Rows", "Begun (UTC)", "Plan"], said.map(row)) : "None was planned.") };
}

async function quarantine(name, view) {
  const reasons = await part(name, "quarantine");
  const records = view.may_see_records && reasons.length ? await part(name, "quarantine/records") : null;
  const counts = () => table("Reasons", ["Reason", "Records", "Newest (UTC)"], reasons.map((each) => [wide(each.reason), number(count(each.records)), utc(each.newest)]));
  const hidden = () => el("p", { class: "faint" }, "You may not see the records.");
  return { said: [reasons, records], draw: () => (reasons.length ? [counts(), records ? recordsTable("Newest records", records) : hidden()] : ["Nothing is in quarantine."]) };
}

async function sample(name, view, table) {
  const said = await part(name, "sample", table ? `?table=${encodeURIComponent(table)}` : "");
  return { said, draw: () => [el("p", {}, `${said.table}, version ${said.version}: ${said.title}`), plotOf(said), recordsTable("Newest rows", said.records)] };
}

async function log(name) {
  const said = await part(name, "log");
  return { said, draw: () => [el("p", { class: "faint" }, `${said.run_id}, ${said.process}`), el("pre", { tabindex: "0", "aria-label": "Log" }, said.lines.join("\n"))] };
}

async function plan(name, view) {
  return { said: view.plan, draw: () => el("pre", { tabindex: "0", "aria-label": "Plan" }, view.plan || "There is no plan before the first batch.") };
}

function recordsTable(label, records) {
  return table(label, records.columns, records.rows.map((row) => row.map(wide)));
}

export const PARTS = [
  { id: "explanation", title: "In sentences", load: explanation },
  { id: "sample", title: "Output: newest rows and plot", load: sample, needsRecords: true, choose: { label: "Table", among: (view) => view.tables } },
  { id: "ledger", title: "Ledger", load: ledger },
  { id: "checkpoints", title: "Checkpoints and verbs", load: checkpoints },
  { id: "backfills", title: "Backfills", load: backfills },
  { id: "quarantine", title: "Quarantine", load: quarantine },
  { id: "log", title: "Driver log", load: log, needsRecords: true },
  { id: "plan", title: "Plan", load: plan },
];
