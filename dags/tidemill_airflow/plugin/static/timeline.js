// Checkpoints over time: a row for each generation, a bar for the time it was live, and marks for verbs and
// backups. The list below the picture has the same content as text.

import { badge, el, svg } from "./dom.js";
import { span, utc } from "./words.js";

const WIDTH = 720;
const ROW = 26;
const LABEL = 70;
const EDGE = 10;
const MARK = 5;

export function timelineOf(said) {
  const moments = momentsOf(said);
  if (!moments.length) return "It has never run.";
  const items = moments.map(({ at, words }) => el("li", {}, el("time", { datetime: at, class: "faint" }, utc(at)), " ", words));
  return [said.generations.length ? drawn(said) : null, el("ol", { class: "timeline" }, items)].filter(Boolean);
}

// A backup that exists is shown only once, as a backup and not as a verb.
function verbsOf({ audit, backups }) {
  const names = new Set(backups.map((each) => each.backup));
  return audit.filter((each) => each.verb !== "backup" || !names.has(each.request_id));
}

function momentsOf(said) {
  return [
    ...said.generations.map((each) => ({ at: each.since, words: [el("strong", {}, each.generation), " ", each.is_live ? badge("good", "live") : "", ` ${each.why} (${each.by})`] })),
    ...verbsOf(said).map((each) => ({ at: each.at, words: opened(each.verb, each, verbFacts(each), each.lines) })),
    ...said.backups.map((each) => ({ at: each.at, words: opened("backup", each, backupFacts(each), []) })),
  ].sort((one, other) => (Date.parse(one.at) < Date.parse(other.at) ? 1 : -1));
}

function opened(what, { why, by }, facts, lines) {
  const told = Object.entries(facts).filter(([, value]) => value !== null);
  const list = el("dl", { class: "facts" }, told.map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value))));
  return el("details", {}, el("summary", {}, el("strong", {}, what), ` ${why} (${by})`), list, lines.length ? el("ul", {}, lines.map((line) => el("li", {}, line))) : null);
}

function verbFacts(line) {
  const place = (generation, batch) => [generation, batch === null ? null : `batch ${batch}`].filter(Boolean).join(", ") || null;
  return {
    "Before": place(line.from_generation, line.from_batch),
    "After": place(line.to_generation, line.to_batch),
    "Took": span((Date.parse(line.ended_at) - Date.parse(line.at)) / 1000),
    "Request": line.request_id,
  };
}

function backupFacts(each) {
  return { "Holds": `${each.generation}, batch ${each.batch_id}`, "Size": `${(each.size_bytes / 1e6).toFixed(1)} MB`, "Name": each.backup };
}

// Each record of the live generation ends the previous one. A generation that became live again has several
// bars.
function drawn(said) {
  const records = [...said.generations].reverse();
  const rows = [...new Set(records.map((each) => each.generation))];
  const marks = [...verbsOf(said).map(verbMark), ...said.backups.map(backupMark)];
  const now = Date.now();
  const begin = Math.min(...records.map((each) => Date.parse(each.since)), ...marks.map((mark) => mark.at));
  const x = (moment) => LABEL + ((moment - begin) / (now - begin || 1)) * (WIDTH - LABEL - EDGE);
  const y = (generation) => Math.max(0, rows.indexOf(generation)) * ROW;
  const labels = rows.map((name) => svg("text", { x: 0, y: y(name) + 17 }, name));
  const bars = records.map((each, place) => {
    const end = place + 1 < records.length ? Date.parse(records[place + 1].since) : now;
    const from = x(Date.parse(each.since));
    return svg("rect", { class: each.is_live ? "bar live" : "bar", x: from, y: y(each.generation) + 6, height: ROW - 12, width: Math.max(1, x(end) - from) }, svg("title", {}, `${each.generation}: ${each.why}`));
  });
  const liveAt = (moment) => (records.filter((each) => Date.parse(each.since) <= moment).at(-1) ?? records[0]).generation;
  const points = marks.map((mark) => markAt(mark, x(mark.at), y(mark.generation ?? liveAt(mark.at)) + ROW / 2));
  const height = rows.length * ROW;
  const ends = [svg("text", { x: LABEL, y: height + 14 }, utc(new Date(begin))), svg("text", { x: WIDTH, y: height + 14, "text-anchor": "end" }, "now")];
  const words = `generations: ${rows.length}, verbs: ${verbsOf(said).length}, backups: ${said.backups.length}, over time; the list below tells each`;
  return svg("svg", { class: "plot lives", viewBox: `0 0 ${WIDTH} ${height + 20}`, role: "img", "aria-label": words }, [...labels, ...bars, ...points, ...ends]);
}

function verbMark({ verb, at, why, from_generation: before }) {
  return { kind: "verb", at: Date.parse(at), generation: before, words: `${verb}: ${why}` };
}

function backupMark({ at, generation, batch_id: batch, why }) {
  return { kind: "backup", at: Date.parse(at), generation, words: `backup of batch ${batch}: ${why}` };
}

// A verb is a circle, a backup a square.
function markAt({ kind, words }, x, y) {
  const title = svg("title", {}, words);
  if (kind === "verb") return svg("circle", { class: "mark verb", cx: x, cy: y, r: MARK }, title);
  return svg("rect", { class: "mark backup", x: x - MARK, y: y - MARK, width: 2 * MARK, height: 2 * MARK }, title);
}
