// The last failures, those that are alike as one row.

import { el, table } from "./elements.js";
import { clock } from "./texts.js";

const SHOWN_FAILURES = 100;

export function failures(kept) {
  const last = kept.last || [];
  if (!last.length) return el("p", {}, "None since the proxy started.");
  const counts = new Map();
  for (const failure of last) counts.set(failure.reason, (counts.get(failure.reason) || 0) + 1);
  const summary = [...counts].sort((a, b) => b[1] - a[1]).map(([reason, count]) => reason + " " + count).join(", ");
  const rows = grouped(last).slice(0, SHOWN_FAILURES).map(({ failure, times }) => [
    [clock(failure.time_ms), times > 1 ? el("div", { class: "quiet" }, times + " times") : ""],
    [el("strong", { class: "bad" }, failure.reason), el("div", { class: "quiet" }, failure.told_by_peer ? "at the endpoint's proxy" : "by " + failure.origin)],
    [el("div", { class: "mono" }, failure.detail), el("div", {}, failure.hint)],
    [el("div", { class: "mono" }, failure.destination + (failure.path || "")), el("div", { class: "quiet" }, whose(failure))],
    failure.reset ? "reset" : failure.status === null ? "closed" : failure.status + (failure.grpc_code === null ? "" : ", gRPC " + failure.grpc_code),
  ]);
  return [
    el("p", {}, kept.total + " since the start, the last " + last.length + " by reason: " + summary + "."),
    table("Newest first; failures that are alike are one row", ["Last at", "Reason", "Detail and hint", "Request or connection", "Answer"], rows),
  ];
}

// Failures with one reason, detail and destination, as one with the time of the newest.
function grouped(last) {
  const groups = [];
  for (const failure of last) {
    const key = [failure.reason, failure.detail, failure.destination, failure.path, failure.direction].join("\n");
    const group = groups.find((group) => group.key === key);
    if (group) group.times += 1;
    else groups.push({ key, failure, times: 1 });
  }
  return groups;
}

function whose(failure) {
  const parts = [failure.direction + " " + failure.protocol, "from " + failure.client];
  if (failure.endpoint) parts.push("endpoint " + failure.endpoint);
  if (failure.trace_id) parts.push("trace " + failure.trace_id);
  return parts.join(", ");
}
