// The last failures, those that are alike as one row.

import { byId, el, hint, table } from "./elements.js";
import { clear, matches } from "./filter.js";
import { open } from "./fold.js";
import { clock } from "./texts.js";

const SHOWN_FAILURES = 100;
const ORIGINS = {
  client: "lies with the client",
  endpoint: "lies with the endpoint",
  network: "lies with the network or the endpoint",
  control_plane: "lies with what the control plane says",
  proxy: "lies with this proxy",
};

// The failure that the address of the page names, and whether it has been scrolled to.
let linked = "";
let isScrolled = true;

// A failure has an address of its own, #failure-ID, which opens its section.
export function followLink(draw) {
  const follow = () => {
    const found = /^#failure-([\w-]+)$/.exec(location.hash);
    linked = found ? found[1] : "";
    isScrolled = !found;
    if (!found) return;
    clear();
    open("failures");
    // A part that has the focus is not drawn anew: that of the link that was followed.
    if (byId("failures-body").contains(document.activeElement)) document.activeElement.blur();
    draw();
  };
  addEventListener("hashchange", follow);
  follow();
}

export function failures(kept) {
  const last = kept.last || [];
  if (!last.length) return [gone(kept), el("p", {}, "None since the proxy started.")];
  const counts = new Map();
  for (const failure of last) counts.set(failure.reason, (counts.get(failure.reason) || 0) + 1);
  const summary = [...counts].sort((a, b) => b[1] - a[1]).map(([reason, count]) => reason + " " + count).join(", ");
  const groups = grouped(last);
  const isLinked = ({ ids }) => ids.has(linked);
  const sorted = [...groups.filter(isLinked), ...causesFirst(groups.filter((group) => !isLinked(group)))]
    .filter(({ failure }) => matches(...Object.values(failure), whereItLies(failure)));
  const shown = sorted.slice(0, SHOWN_FAILURES);
  if (!isScrolled) requestAnimationFrame(scroll);
  const rows = shown.map(({ failure, times }) => [
    [el("a", { href: "#failure-" + failure.id, title: "Link to this failure" }, clock(failure.time_ms)), times > 1 ? el("div", { class: "quiet" }, times + " times") : ""],
    [el("strong", { class: "bad" }, failure.reason), el("div", { class: "quiet" }, whereItLies(failure))],
    [el("div", { class: "mono" }, failure.detail), el("div", {}, hint(failure.hint)), isConsequence(failure) ? el("div", { class: "quiet" }, "A consequence: look at the rows above and at the topology.") : ""],
    [el("div", { class: "mono" }, failure.destination + (failure.path || "")), el("div", { class: "quiet" }, whose(failure))],
    failure.reset ? "reset" : failure.status === null ? "closed" : failure.status + (failure.grpc_code === null ? "" : ", gRPC " + failure.grpc_code),
  ]);
  const attributes = (index) => isLinked(shown[index]) ? { class: "linked", "aria-current": "true" } : {};
  return [
    groups.some(isLinked) ? "" : gone(kept),
    el("p", {}, kept.total + " since the start, the last " + last.length + " by reason: " + summary + "."),
    table("Causes before their consequences, the newest first; failures that are alike are one row", ["Last at", "Reason", "Detail and hint", "Request or connection", "Answer"], rows, attributes),
  ];
}

function causesFirst(groups) {
  return [...groups.filter(({ failure }) => !isConsequence(failure)), ...groups.filter(({ failure }) => isConsequence(failure))];
}

function scroll() {
  const row = document.querySelector("tr.linked");
  (row || byId("failures")).scrollIntoView({ block: "center" });
  isScrolled = true;
}

function gone(kept) {
  if (!linked) return "";
  return el("p", { class: "warn" }, "The failure " + linked + " of the link is not kept: the proxy keeps the last " + kept.limit + " since its start.");
}

// Failures with one reason, detail and destination, as one with the time of the newest. Ports of clients make no difference.
function grouped(last) {
  const groups = new Map();
  for (const failure of last) {
    const detail = failure.detail.replace(/client \S+?:\d+/g, "client");
    const key = [failure.reason, detail, failure.destination, failure.path, failure.direction].join("\n");
    const group = groups.get(key);
    if (group) {
      group.times += 1;
      group.ids.add(failure.id);
    } else groups.set(key, { failure, times: 1, ids: new Set([failure.id]) });
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
