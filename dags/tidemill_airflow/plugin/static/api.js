// Calls of this page's API and of Airflow's API. The login is Airflow's cookie.

const AIRFLOW = new URL("../", new URL(".", document.baseURI));

export class Refused extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

async function asked(url, options) {
  const answer = await fetch(url, { credentials: "same-origin", ...options });
  const document_ = await answer.json().catch(() => ({}));
  if (answer.ok) return document_;
  throw new Refused(answer.status, wordsOf(document_.detail) || `the server answered ${answer.status}`);
}

function wordsOf(detail) {
  if (Array.isArray(detail)) return detail.map((each) => each.msg).join("; ");
  return typeof detail === "object" && detail !== null ? JSON.stringify(detail) : detail;
}

export function get(path) {
  return asked(new URL(`api/${path}`, document.baseURI));
}

export function part(pipeline, name, query = "") {
  return get(`pipelines/${encodeURIComponent(pipeline)}${name ? `/${name}` : ""}${query}`);
}

export function dagDetails(dagId) {
  return asked(new URL(`api/v2/dags/${encodeURIComponent(dagId)}/details`, AIRFLOW));
}

export function triggerDag(dagId, conf) {
  return asked(new URL(`api/v2/dags/${encodeURIComponent(dagId)}/dagRuns`, AIRFLOW), {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ logical_date: null, conf }),
  });
}

export function airflowUrl(path) {
  return new URL(path, AIRFLOW).href;
}
