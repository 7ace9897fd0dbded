// The last failures, those that are alike as one row.

import { el, hint, table } from "./elements.js";
import { clock } from "./texts.js";

const SHOWN_FAILURES = 100;
const ORIGINS = {
  client: "lies with the client",
  endpoint: "lies with the endpoint",
  network: "lies with the network or the endpoint",
  control_plane: "lies with what the control plane says",
  proxy: "lies with this proxy",
};

export function failures(kept) {
  const last = kept.last || [];
  if (!last.length) return el("p", {}, "None since the proxy started.");
  const counts = new Map();
  for (const failure of last) counts.set(failure.reason, (counts.get(failure.reason) || 0) + 1);
  const summary = [...counts].sort((a, b) => b[1] - a[1]).map(([reason, count]) => reason + " " + count).join(", ");
  const groups = grouped(last);
  const sorted = [...groups.filter(({ failure }) => !isConsequence(failure)), ...groups.filter(({ failure }) => isConsequence(failure))];
  const rows = sorted.slice(0, SHOWN_FAILURES).map(({ failure, times }) => [
    [clock(failure.time_ms), times > 1 ? el("div", { class: "quiet" }, times + " times") : ""],
    [el("strong", { class: "bad" }, failure.reason), el("div", { class: "quiet" }, whereItLies(failure))],
    [el("div", { class: "mono" }, failure.detail), el("div", {}, hint(failure.hint)), isConsequence(failure) ? el("div", { class: "quiet" }, "A consequence: look at the rows above and at the topology.") : ""],
    [el("div", { class: "mono" }, failure.destination + (failure.path || "")), el("div", { class: "quiet" }, whose(failure))],
    failure.reset ? "reset" : failure.status === null ? "closed" : failure.status + (failure.grpc_code === null ? "" : ", gRPC " + failure.grpc_code),
  ]);
  return [
    el("p", {}, kept.total + " since the start, the last " + last.length + " by reason: " + summary + "."),
    table("Causes before their consequences, the newest first; failures that are alike are one row", ["Last at", "Reason", "Detail and hint", "Request or connection", "Answer"], rows),
  ];
}

// Failures with one reason, detail and destination, as one with the time of the newest. Ports of clients make no difference.
function grouped(last) {
  const groups = new Map();
  for (const failure of last) {
    const detail = failure.detail.replace(/client \S+?:\d+/g, "client");
    const key = [failure.reason, detail, failure.destination, failure.path, failure.direction].join("\n");
    const group = groups.get(key);
    if (group) group.times += 1;
    else groups.set(key, { failure, times: 1 });
  }
  return [...groups.values()];
}

// The groups of the failures since a time.
export function recent(kept, since) {
  return grouped((kept.last || []).filter((failure) => failure.time_ms >= since));
}

// Whether failures since then are not kept any more.
export function isCut(kept, since) {
  const last = kept.last || [];
  return last.length > 0 && kept.total > last.length && last.every((failure) => failure.time_ms >= since);
}

// Requests that found no usable endpoint follow from what happened to others.
export function isConsequence(failure) {
  return /^(failfast|unavailable)_/.test(failure.reason) && !failure.reason.endsWith("_no_endpoints");
}

// A timeout is the endpoint's or the limit's: the proxy cannot know how long an answer should take.
function whereItLies(failure) {
  if (failure.told_by_peer) return "at the endpoint's proxy";
  const origin = ORIGINS[failure.origin] || failure.origin;
  return failure.origin === "endpoint" && /_timeout$/.test(failure.reason) ? origin + ", or the limit is too short" : origin;
}

function whose(failure) {
  const parts = [failure.direction + " " + failure.protocol, "from " + failure.client];
  if (failure.endpoint) parts.push("endpoint " + failure.endpoint);
  if (failure.trace_id) parts.push("trace " + failure.trace_id);
  return parts.join(", ");
}
