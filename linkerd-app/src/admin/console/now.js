// What is wrong at this moment, the cause before its consequences.

import { el, hint } from "./elements.js";
import { ago, count } from "./texts.js";
import { freshness, unreachedControllers } from "./mesh.js";
import { isConsequence, isCut, recent } from "./failures.js";
import { mergedTargets } from "./topology.js";

const EXPIRES_SOON_MS = 10 * 60 * 1000;

export function now(state) {
  const all = endpoints(state);
  // A breaker opens because of failures: their cause comes before it.
  const [opened, others] = [all.filter((problem) => problem.isOpened), all.filter((problem) => !problem.isOpened)];
  const problems = [...controllers(state), ...others, ...causes(state), ...opened, ...lostStreams(state), ...certificate(state)];
  if (!problems.length) return el("p", { class: "good" }, "Nothing is wrong: every endpoint takes requests, and none failed in the last minute.");
  return el("ul", { class: "now" }, ...problems.map(({ text, why, kind, to }) => el("li", {},
    el("a", { class: kind, href: "#" + to }, text), why ? el("div", {}, why) : "")));
}

function endpoints(state) {
  const list = [];
  for (const target of mergedTargets(state)) {
    for (const backend of target.backends.values()) {
      const all = [...backend.endpoints.values()];
      const usable = all.filter((endpoint) => endpoint.state === "ready").length;
      if (usable && usable === all.length) continue;
      const error = all.map((endpoint) => endpoint.error).find(Boolean);
      const opened = all.map((endpoint) => endpoint.cause).find(Boolean);
      const why = error || (opened && "circuit breakers are open: " + opened) || backend.fails
        || (all.length ? "" : backend.resolved ? "The control plane gives none. Does the Service select any ready pod?" : "The control plane has not answered.");
      const text = all.length ? usable + " of " + count(all.length, "endpoint") + " of " + backend.name + (usable === 1 ? " takes" : " take") + " requests" : backend.name + " has no endpoints";
      list.push({ text, why, kind: usable ? "warn" : "bad", to: "topology", isOpened: !error && Boolean(opened) });
    }
  }
  return list;
}

// The failures of the last minute. Those that only follow from endpoints that are not usable are left to the lines above.
function causes(state) {
  const reasons = new Map();
  const kept = state.failures || {};
  const since = Date.now() - 60 * 1000;
  const least = isCut(kept, since) ? "at least " : "";
  for (const { failure, times } of recent(kept, since)) {
    if (isConsequence(failure)) continue;
    const known = reasons.get(failure.reason);
    if (known) known.times += times; else reasons.set(failure.reason, { failure, times });
  }
  return [...reasons.values()].slice(0, 5).map(({ failure, times }) => ({
    text: least + count(times, "failure") + " in the last minute: " + failure.reason,
    why: [failure.detail + ". ", hint(failure.hint), client(state, failure)].flat(),
    kind: "bad",
    to: "failure-" + failure.id,
  }));
}

// What the refusing side knows this proxy by.
function client(state, failure) {
  if (failure.reason !== "unauthorized" || failure.direction !== "outbound") return "";
  return state.identity ? " This proxy is " + state.identity.identity + "." : " This proxy has no identity.";
}

// Without them nothing is known of any service.
function controllers(state) {
  return unreachedControllers(state).map(({ controller, why }) => ({
    text: "The " + (controller.role ? controller.role + " " : "") + "controller " + controller.controller + " is not reached",
    why,
    kind: "bad",
    to: "mesh",
  }));
}

function lostStreams(state) {
  return freshness(state).filter((stream) => stream.opened && !stream.connected).map((stream) => ({
    text: "The stream of the " + stream.what + " is lost" + (stream.disconnected_ms === null ? "" : " for " + ago(stream.disconnected_ms)),
    why: stream.last_error || "",
    kind: "warn",
    to: "mesh",
  }));
}

function certificate(state) {
  const found = state.identity;
  if (!found) return [];
  const left = found.valid_until ? found.valid_until * 1000 - Date.now() : null;
  const why = found.last_error || "";
  if (left === null) return [{ text: "The proxy has no certificate", why, kind: "bad", to: "mesh" }];
  if (left < 0) return [{ text: "The certificate has ended", why, kind: "bad", to: "mesh" }];
  return why || left < EXPIRES_SOON_MS ? [{ text: "The certificate ends in " + ago(left), why, kind: "warn", to: "mesh" }] : [];
}
