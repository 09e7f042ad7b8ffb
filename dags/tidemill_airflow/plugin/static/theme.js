// Light or dark, as in Airflow, which stores the user's choice where pages of the same origin can read it.

const system = window.matchMedia("(prefers-color-scheme: dark)");
const KEY = "theme";

function isDark() {
  const chosen = localStorage.getItem(KEY) ?? "system";
  return chosen === "system" ? system.matches : chosen === "dark";
}

function apply() {
  document.documentElement.classList.toggle("dark", isDark());
  window.dispatchEvent(new Event("themechange"));
}

export function followAirflowsTheme() {
  apply();
  system.addEventListener("change", apply);
  window.addEventListener("storage", (event) => event.key === KEY && apply());
}

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
