// The form of /explain.

import { byId, el } from "./elements.js";
import { capital, ms, share } from "./texts.js";

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
  // A target that is not in use is looked up, as its first request would be.
  if (!inbound) query.append("discover", "1");
  for (const header of form.get("headers").split("\n")) if (header.trim()) query.append("header", header.trim());
  const part = byId("explain-answer");
  const missing = inbound ? missingOf(query) : "";
  if (missing) return part.replaceChildren(el("p", { class: "bad" }, missing));
  try {
    const answer = await fetch("/explain?" + query, { cache: "no-store" });
    const found = await answer.json();
    part.replaceChildren(...[verdict(found)].flat().filter(Boolean), whole(found));
  } catch (error) {
    part.replaceChildren(el("p", { class: "bad" }, "No answer: " + error.message));
  }
}

// What an inbound explanation needs: its port chooses it.
function missingOf(query) {
  if (!query.has("port")) return "Enter the port of the application.";
  if (!query.has("client")) return "Enter the client address: whether a client is let in depends on it.";
  return "";
}

function whole(found) {
  const json = el("pre", { tabindex: "0", "aria-label": "The whole answer" }, JSON.stringify(found, null, 2));
  return el("details", {}, el("summary", {}, "The whole answer, as JSON"), json);
}

function verdict(found) {
  const problem = found.error || found.refused;
  if (found.known_targets) return unknownTarget(found);
  const filters = filterLines(found);
  if (problem) return [el("p", { class: "bad" }, text(problem)), filters];
  const parts = [];
  const taken = found.route && (found.route.route || found.route.name);
  if (taken) parts.push("taken by " + taken);
  const backends = (found.route && found.route.distribution && found.route.distribution.backends) || [];
  const answered = (found.route && found.route.answered_by_filters) || {};
  const isAnswered = answered.failed_share === 1 || answered.redirects;
  if (backends.length && !isAnswered) parts.push("to " + backends.map((backend) => backend.backend || backend.name).filter(Boolean).join(", "));
  if (found.authorized_by) parts.push("authorized by " + text(found.authorized_by));
  const { request_ms: limit } = (found.route && found.route.timeouts) || {};
  if (typeof limit === "number") parts.push("within " + ms(limit));
  const failing = filtersThatFail(found.route, backends);
  const unready = isAnswered ? [] : backends.map(readiness).filter(Boolean);
  const kind = answered.failed_share === 1 ? "bad" : failing.length || unready.length || answered.redirects ? "warn" : "good";
  return [
    el("p", { class: kind }, capital(parts.join(", ") || "answered") + "."),
    ...failing.map((line) => el("p", { class: "bad" }, line)),
    answered.redirects ? el("p", { class: "warn" }, "A filter redirects the client: no backend gets the request.") : "",
    filters,
    ...unready.map((line) => el("p", { class: "bad" }, line)),
    found.authorized_by || isAnswered ? "" : el("p", { class: "quiet" }, "Whether the endpoint lets it in is its own proxy's to say: explain it there, as inbound, with the identity of this proxy."),
  ];
}

// The failures that filters of the rule, and of backends, inject.
function filtersThatFail(route, backends) {
  const line = (whose, found) => found && found.failed_share ? "A filter of " + whose + " fails " + share(found.failed_share) + " of the requests on purpose." : "";
  return [line("the rule", route && route.answered_by_filters), ...backends.map((backend) => line(backend.backend, backend.answered_by_filters))].filter(Boolean);
}

// What the filters of the rule, and then of each backend, do to the request and its response.
function filterLines(found) {
  const { filters: ofRule = [], distribution } = found.route || {};
  const ofBackends = ((distribution && distribution.backends) || []).flatMap((backend) => (backend.filters || []).map((filter) => backend.backend + ": " + filter));
  const all = [...ofRule, ...ofBackends];
  return all.length ? el("div", {}, "Filters, in their order", el("ul", { class: "filters" }, ...all.map((filter) => el("li", {}, filter)))) : "";
}

// What to do about a target that the proxy holds no policy of.
function unknownTarget(found) {
  const known = found.known_targets;
  return [
    el("p", { class: "bad" }, found.target + " is not in use, and cannot be looked up now: the proxy holds as many targets as it may."),
    el("p", {}, "Send a request to it through this proxy, and explain it again. For a redirected connection, enter its address, such as 10.0.0.1:80, as the target."),
    el("p", {}, known.length ? "In use: " + known.join(", ") + "." : "No target is in use yet."),
  ];
}

// A line about a backend none of whose endpoints takes requests on any worker that has used it.
function readiness(backend) {
  const balancers = (backend.workers || []).map((worker) => worker.balancer).filter(Boolean);
  if (!balancers.length || balancers.some((balancer) => balancer.ready > 0)) return "";
  const endpoints = balancers.flatMap((balancer) => balancer.endpoints || []);
  const error = endpoints.map((endpoint) => endpoint.last_error || (endpoint.breaker && endpoint.breaker.cause)).find(Boolean);
  return backend.backend + ": no endpoint takes requests" + (error ? " (" + error + ")" : "") + ".";
}

function text(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}
