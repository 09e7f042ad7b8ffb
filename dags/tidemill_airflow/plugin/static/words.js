// Formats values for display.

const NOTHING = "–";

export function count(value) {
  return value === null || value === undefined ? NOTHING : Math.round(value).toLocaleString("en");
}

export function rate(value) {
  if (value === null || value === undefined) return NOTHING;
  return value >= 100 ? count(value) : value.toPrecision(2).replace(/\.0$/, "");
}

export function span(seconds) {
  if (seconds === null || seconds === undefined) return NOTHING;
  const size = Math.abs(seconds);
  if (size < 10) return `${seconds.toFixed(1)} s`;
  if (size < 120) return `${Math.round(seconds)} s`;
  if (size < 7200) return `${Math.round(seconds / 60)} min`;
  if (size < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

export function fixOf(row, hold) {
  return hold.fix || `tidemill checkpoint release ${row.name} ${hold.id}`;
}

export function ago(moment) {
  return moment ? `${span(Math.max(0, (Date.now() - Date.parse(moment)) / 1000))} ago` : NOTHING;
}

export function utc(moment) {
  return moment ? new Date(moment).toISOString().replace("T", " ").slice(0, 19) : NOTHING;
}
