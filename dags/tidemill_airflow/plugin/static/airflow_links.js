// Links out of this page. Airflow shows the page in a frame that must not navigate the window or open another
// one, so a link inside the frame does nothing. A link in Airflow's own document, which has the same origin,
// works.

import { airflowUrl } from "./api.js";
import { el } from "./dom.js";

const isFramed = window.parent !== window;

export function airflowLink(path, words) {
  return el("a", { href: airflowUrl(path), onclick: follow }, words);
}

// "Runbook: hold", as a link if the deployment configures the address of the pages.
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
