// The form of /explain.

import { byId, el } from "./elements.js";
import { capital } from "./texts.js";

export function start() {
  byId("explain-form").addEventListener("submit", explain);
  for (const radio of byId("explain-form").elements.direction) radio.addEventListener("change", showDirection);
  showDirection();
}

function showDirection() {
  const inbound = new FormData(byId("explain-form")).get("direction") === "inbound";
  for (const label of document.querySelectorAll("label.inbound")) label.hidden = !inbound;
  for (const label of document.querySelectorAll("label.outbound")) label.hidden = inbound;
}

async function explain(event) {
  event.preventDefault();
  const form = new FormData(byId("explain-form"));
  const inbound = form.get("direction") === "inbound";
  const query = new URLSearchParams();
  for (const name of ["method", "url"].concat(inbound ? ["port", "client", "identity"] : ["target"])) {
    if (form.get(name).trim()) query.append(name, form.get(name).trim());
  }
  // An inbound explanation is chosen by its port; without one the answer says that.
  if (inbound && !query.has("port")) query.append("port", "");
  for (const header of form.get("headers").split("\n")) if (header.trim()) query.append("header", header.trim());
  const part = byId("explain-answer");
  try {
    const answer = await fetch("/explain?" + query, { cache: "no-store" });
    const found = await answer.json();
    part.replaceChildren(verdict(found), el("pre", { tabindex: "0", "aria-label": "The whole answer" }, JSON.stringify(found, null, 2)));
  } catch (error) {
    part.replaceChildren(el("p", { class: "bad" }, "No answer: " + error.message));
  }
}

function verdict(found) {
  const problem = found.error || found.refused;
  if (problem) return el("p", { class: "bad" }, text(problem));
  const parts = [];
  const taken = found.route && (found.route.route || found.route.name);
  if (taken) parts.push("taken by " + taken);
  const backends = (found.route && found.route.distribution && found.route.distribution.backends) || [];
  if (backends.length) parts.push("to " + backends.map((backend) => backend.backend || backend.name).filter(Boolean).join(", "));
  if (found.authorized_by) parts.push("authorized by " + text(found.authorized_by));
  return el("p", { class: "good" }, capital(parts.join(", ") || "answered") + ".");
}

function text(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}
