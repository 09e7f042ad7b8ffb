// Elements. Text is only ever set as text, because names, reasons and records are untrusted input.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

export function badge(health, words) {
  return el("span", { class: `badge ${health}` }, words);
}

export function note(health, words) {
  return el("p", { class: `note ${health}`, role: health === "bad" ? "alert" : null }, words);
}

// Shows the notes. Unchanged notes stay in place, because a screen reader would read replaced notes aloud at
// each refresh.
export function tell(place, notes) {
  if (place.textContent !== notes.map((each) => each.textContent).join("")) place.replaceChildren(...notes);
}

export function table(label, headings, rows, attributes = {}) {
  const head = el("tr", {}, headings.map((heading) => el("th", { scope: "col" }, heading)));
  const body = rows.map((cells) => el("tr", {}, cells.map((cell) => (cell instanceof HTMLTableCellElement ? cell : el("td", {}, cell ?? "")))));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    el("table", attributes, el("caption", { hidden: true }, label), el("thead", {}, head), el("tbody", {}, body)));
}

export function number(value) {
  return el("td", { class: "number" }, value);
}

export function wide(value) {
  return el("td", { class: "wide" }, value ?? "");
}
