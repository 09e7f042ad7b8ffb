// Chooses the view by the address after # and refreshes it.

import { Refused } from "./api.js";
import { airflowLink } from "./airflow_links.js";
import { el, note } from "./dom.js";
import { graphView } from "./graph.js";
import { overviewView } from "./overview.js";
import { pipelineView } from "./pipeline.js";
import { followAirflowsTheme } from "./theme.js";

// Milliseconds between two refreshes; the server takes a snapshot every three seconds.
const REFRESH = 4000;

const main = document.getElementById("main");
let shown = null;

// Returns an invalid address unchanged, such as one cut in the middle of %C3%A4.
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function viewOf(address) {
  const [kind, name] = address.replace(/^#\//, "").split("/").map(decoded);
  if (kind === "pipelines" && name) return pipelineView(name);
  if (kind === "dags" && name) return ofDag(name);
  return kind === "graph" ? graphView() : overviewView();
}

function ofDag(dagId) {
  const found = /^(?:[^.]+\.)?(?:stream|incremental)__(.+)$/.exec(dagId);
  if (found) return pipelineView(found[1], dagId);
  return { name: "dag", title: "Streams", element: note("off", `${dagId} is the DAG of no single pipeline.`), refresh: async () => {} };
}

async function refresh(view) {
  try {
    await view.refresh();
    if (shown === view) said("");
  } catch (error) {
    if (shown === view) refused(error);
  }
  if (shown === view) view.timer = setTimeout(() => refresh(view), document.hidden ? REFRESH * 5 : REFRESH);
}

function refused(error) {
  if (error instanceof Refused && error.status === 401) {
    main.replaceChildren(note("warn", "You are not logged in to Airflow."), el("p", {}, airflowLink("auth/login", "Log in")));
    shown = null;
  } else {
    said(`not refreshed: ${error.message}`);
  }
}

function said(words) {
  const place = document.getElementById("as-of");
  if (words) place.textContent = words;
  place.classList.toggle("bad", words !== "");
}

function show() {
  if (shown) clearTimeout(shown.timer);
  shown?.end?.();
  shown = viewOf(location.hash);
  document.title = shown.title;
  document.getElementById("as-of").textContent = "";
  for (const link of document.querySelectorAll("header nav a")) {
    if (link.dataset.view === shown.name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  main.replaceChildren(shown.element);
  refresh(shown);
}

followAirflowsTheme();
window.addEventListener("hashchange", () => { show(); main.focus(); });
show();
