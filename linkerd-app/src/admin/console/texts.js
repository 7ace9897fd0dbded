// Numbers and times for people.

export function clock(time) {
  return new Date(time).toLocaleTimeString([], { hour12: false });
}

export function date(seconds) {
  return new Date(seconds * 1000).toISOString().replace("T", " ").slice(0, 16) + " UTC";
}

export function ago(milliseconds) {
  const seconds = Math.round(milliseconds / 1000);
  if (seconds < 120) return seconds + " s";
  if (seconds < 7200) return Math.round(seconds / 60) + " min";
  if (seconds < 172800) return Math.round(seconds / 3600) + " h";
  return Math.round(seconds / 86400) + " d";
}

export function number(value) {
  if (value === null || value === undefined) return "–";
  return value >= 10 || value === 0 ? String(Math.round(value)) : value.toFixed(1);
}

export function count(value, noun) {
  return value + " " + noun + (value === 1 ? "" : "s");
}

export function ms(value) {
  if (value === null || value === undefined) return "–";
  return value >= 1000 ? (value / 1000).toFixed(1) + "\u00a0s" : number(value) + "\u00a0ms";
}

export function share(value) {
  return value === null ? "–" : (Math.floor(value * 1000) / 10).toFixed(1) + " %";
}

export function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
