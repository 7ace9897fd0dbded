// The effective configuration: what is set and derived, and on demand the defaults.

import { el, replace, table } from "./elements.js";

export async function show() {
  try {
    const answer = await fetch("/state?configuration", { cache: "no-store" });
    if (!answer.ok) throw new Error("/state answered " + answer.status);
    const all = (await answer.json()).configuration || [];
    const [defaults, chosen] = [all.filter((row) => row.source === "default"), all.filter((row) => row.source !== "default")];
    replace("configuration-body", [
      chosen.length ? table("Set by the environment, or derived from what is set; secrets are masked", COLUMNS, chosen.map(cells)) : el("p", {}, "No variable is set: all values are defaults."),
      el("details", {}, el("summary", {}, defaults.length + " variables have their defaults"), table("Defaults", COLUMNS, defaults.map(cells))),
    ]);
  } catch (error) {
    replace("configuration-body", el("p", { class: "bad" }, error.message));
  }
}

const COLUMNS = ["Name", "Value", "Source"];

function cells(row) {
  return [row.name, el("span", { class: "mono" }, brief(row.value)), el("span", { class: "whole" }, row.source)];
}

function brief(value) {
  if (value === null) return "–";
  return value.length > 300 ? value.slice(0, 300) + "… (" + value.length + " characters)" : value || "(empty)";
}
