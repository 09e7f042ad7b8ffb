// The trigger form of a DAG, filled in. Airflow's own form has no address (3.3 opens it only by a button), so
// this form is built from the same parameters and calls the same API with the same login.

import { dagDetails, triggerDag } from "./api.js";
import { airflowLink, dagPath } from "./airflow_links.js";
import { el, note } from "./dom.js";

export async function openTriggerForm(action) {
  const opener = document.activeElement;
  const body = el("div", {}, "reading the form…");
  const title = el("h1", { id: "form-title" }, `Run ${action.dag_id}`);
  const close = () => { dialog.close(); };
  const dialog = el("dialog", { "aria-labelledby": "form-title", onclose: () => { dialog.remove(); giveFocusBackTo(opener); } }, title, body);
  document.body.append(dialog);
  dialog.showModal();
  try {
    body.replaceChildren(formOf(action, await dagDetails(action.dag_id), close));
  } catch (error) {
    const words = error.status === 404 ? `Airflow knows no DAG ${action.dag_id} yet.` : error.message;
    body.replaceChildren(note("bad", words), el("div", { class: "bar" }, el("button", { type: "button", onclick: close }, "Close")));
  }
  body.querySelector("input, select, button")?.focus();
}

// The page may have been redrawn behind the form; then the button with the same text gets the focus.
function giveFocusBackTo(opener) {
  const wordsOf = (button) => button.getAttribute("aria-label") ?? button.textContent;
  const same = opener.isConnected ? opener : [...document.querySelectorAll("main button")].find((each) => wordsOf(each) === wordsOf(opener));
  (same ?? document.getElementById("main")).focus();
}

function formOf(action, dag, close) {
  const fields = Object.entries(dag.params ?? {}).map(([name, param]) => fieldOf(name, param, action.conf));
  const outcome = el("div", { role: "status" });
  const submit = el("button", { type: "submit", class: "main" }, "Trigger");
  const sent = async (event) => {
    event.preventDefault();
    submit.disabled = true;
    try {
      const conf = Object.fromEntries(fields.map(({ name, value }) => [name, value()]));
      const run = await triggerDag(action.dag_id, conf);
      outcome.replaceChildren(note("good", "The run was asked for."), airflowLink(dagPath(action.dag_id, run.dag_run_id), "See the run in Airflow"));
    } catch (error) {
      outcome.replaceChildren(note("bad", error.message));
      submit.disabled = false;
    }
  };
  const paused = dag.is_paused ? note("warn", "This DAG is paused: the run waits until somebody un-pauses it.") : null;
  const buttons = el("div", { class: "bar" }, submit, el("button", { type: "button", onclick: close }, "Close"), airflowLink(dagPath(action.dag_id), "The DAG in Airflow"));
  return el("form", { onsubmit: sent }, paused, el("p", { class: "faint" }, dag.description ?? ""), fields.map(({ element }) => element), el("p"), buttons, outcome);
}

// Airflow validates the values by the DAG's schema; the form only keeps their types.
function fieldOf(name, param, filled) {
  const schema = param.schema ?? {};
  const types = [schema.type].flat();
  const start = Object.hasOwn(filled, name) ? filled[name] : param.value;
  const input = inputOf(schema, types, start);
  input.setAttribute("name", name);
  const element = el("label", {}, name, input, el("small", {}, param.description ?? ""));
  return { name, element, value: () => valueOf(input, types) };
}

function inputOf(schema, types, start) {
  if (schema.enum) {
    const options = schema.enum.map((value) => el("option", { value: value ?? "", selected: value === start }, value ?? "none"));
    return el("select", {}, start === null || start === undefined ? el("option", { value: "" }, "") : null, options);
  }
  if (types.includes("boolean")) return el("input", { type: "checkbox", checked: start === true });
  const text = typeof start === "object" && start !== null ? JSON.stringify(start) : start ?? "";
  return el("input", { type: "text", value: String(text), autocomplete: "off" });
}

function valueOf(input, types) {
  if (input.type === "checkbox") return input.checked;
  const text = input.value;
  if (text === "" && types.includes("null")) return null;
  if ((types.includes("integer") || types.includes("number")) && text !== "" && !Number.isNaN(Number(text))) return Number(text);
  if (types.includes("object") || types.includes("array")) return JSON.parse(text);
  return text;
}
