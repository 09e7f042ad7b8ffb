// Links out of this page. Airflow's frame around it forbids to navigate the window and to open another one, so
// that a link in it does nothing; a link in Airflow's own document, which is of the same origin, is followed.

import { airflowUrl } from "./api.js";
import { el } from "./dom.js";

const isFramed = window.parent !== window;

export function airflowLink(path, words) {
  return el("a", { href: airflowUrl(path), onclick: follow }, words);
}

// "Runbook: hold", a link where the deployment says where pages can be read.
export function runbookOf({ runbook, runbook_url: url }) {
  const page = url ? el("a", { href: url, target: "_blank", rel: "noopener noreferrer", onclick: follow }, runbook) : runbook;
  return runbook ? ["Runbook: ", page] : [];
}

export function dagPath(dagId, runId = null) {
  const run = runId === null ? "" : `/runs/${encodeURIComponent(runId)}`;
  return `dags/${encodeURIComponent(dagId)}${run}`;
}

function follow(event) {
  const own = event.ctrlKey || event.metaKey || event.shiftKey;
  if (!isFramed || own) return;
  event.preventDefault();
  const link = window.parent.document.createElement("a");
  const { href, target, rel } = event.currentTarget;
  Object.assign(link, { href, target, rel });
  window.parent.document.body.append(link);
  link.click();
  link.remove();
}
