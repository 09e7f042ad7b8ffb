// Links into Airflow. Its frame around this page forbids to navigate the window, so that a link in it does
// nothing; a link in Airflow's own document, which is of the same origin, is followed.

import { airflowUrl } from "./api.js";
import { el } from "./dom.js";

const isFramed = window.parent !== window;

export function airflowLink(path, words) {
  return el("a", { href: airflowUrl(path), onclick: follow }, words);
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
  link.href = event.currentTarget.href;
  window.parent.document.body.append(link);
  link.click();
  link.remove();
}
