// Rates, success and latency, from the differences of /metrics between two polls.

import { el, svg } from "./elements.js";
import { ago, capital, ms, number, share } from "./texts.js";
import { isCut } from "./failures.js";
import { freshness, unreachedControllers } from "./mesh.js";
import { percentile, readLabels } from "./series.js";

export const POLL_MS = 2000;
const KEPT_MS = 5 * 60 * 1000;
const SHORTEST_SPAN_MS = 60 * 1000;

const samples = [];

export function cards(state) {
  const last = samples.at(-1) || {};
  const workers = state.workers || [];
  const sum = (read) => workers.reduce((total, worker) => total + (read(worker || {}) || 0), 0);
  const list = [];
  for (const direction of ["outbound", "inbound"]) {
    const rate = last[direction];
    if (direction === "inbound" && !seen(direction)) continue;
    const name = capital(direction);
    list.push([name + " requests", rate ? number(rate.requests) + "/s" : "…"]);
    list.push([name + " success", rate ? share(rate.success) : "…", rate && rate.success !== null && rate.success < 0.99 ? "bad" : ""]);
    list.push([name + " p50, p95", rate ? ms(rate.p50) + ",\u200b " + ms(rate.p95) : "…"]);
  }
  list.push(["In flight", String(sum((w) => w.outbound && w.outbound.in_flight) + sum((w) => w.inbound && w.inbound.in_flight))]);
  const kept = state.failures || {};
  const minute = (kept.last || []).filter((failure) => failure.time_ms >= Date.now() - 60 * 1000).length;
  const cut = isCut(kept, Date.now() - 60 * 1000);
  list.push(["Failures, last minute", cut ? minute + " or more" : String(minute), minute ? "bad" : ""]);
  const streams = freshness(state);
  const lost = streams.filter((stream) => stream.opened && !stream.connected).length;
  const unreached = unreachedControllers(state).length;
  const health = unreached ? "not reached" : lost ? lost + " of " + streams.length + " lost" : "connected";
  list.push(["Control plane", health, unreached || lost ? "bad" : ""]);
  return list.map(([name, value, kind]) => el("dl", { class: "card" }, el("dt", {}, name), el("dd", { class: kind || "" }, value)));
}

function seen(direction) {
  return samples.some((sample) => sample.read[direction].ok + sample.read[direction].failed > 0);
}

export function charts() {
  const list = [];
  for (const direction of ["outbound", "inbound"]) {
    if (direction === "inbound" && !seen(direction)) continue;
    const name = capital(direction);
    list.push(chart(name + " per second", direction, ["requests", "failed"], ["requests", "failed"], number));
    list.push(chart(name + " latency", direction, ["p50", "p95"], ["p50", "p95"], ms));
  }
  return list;
}

function chart(title, direction, keys, names, format) {
  const points = samples.filter((sample) => sample[direction]);
  const values = keys.flatMap((key) => points.map((sample) => sample[direction][key] || 0));
  const top = Math.max(...values, 1e-9);
  const now = Date.now();
  const span = Math.min(KEPT_MS, Math.max(SHORTEST_SPAN_MS, now - samples[0].at));
  const lines = keys.map((key, index) => {
    let path = "", drawn = false;
    for (const sample of points) {
      const value = sample[direction][key];
      if (value === null) { drawn = false; continue; }
      const x = 300 * (1 - (now - sample.at) / span), y = 78 - 74 * (value / top);
      path += (drawn ? "L" : "M") + x.toFixed(1) + " " + y.toFixed(1);
      drawn = true;
    }
    return svg("path", { d: path, class: index ? "second" : "first" });
  });
  const latest = points.length ? points.at(-1)[direction] : {};
  const label = title + ", last " + ago(span) + ": now " + keys.map((key, i) => names[i] + " " + format(latest[key])).join(", ") + "; highest " + format(Math.max(...values, 0));
  return el("figure", {},
    el("figcaption", {}, el("strong", {}, title), " last " + ago(span) + ", up to " + format(Math.max(...values, 0)), ...names.map((name, i) => el("span", { class: i ? "key second" : "key" }, name))),
    svg("svg", { viewBox: "0 0 300 80", preserveAspectRatio: "none", role: "img", "aria-label": label }, ...lines));
}

// The counters of the charts. Outbound requests are counted by route, each once whatever its attempts, and inbound ones by
// response; those that came to neither by the reason of the refusal. Requests to the admin port itself are left out.
export function readMetrics(text) {
  const read = { outbound: counters(), inbound: counters() };
  for (const line of text.split("\n")) {
    const found = /^(response_total|response_latency_ms_bucket|outbound_(?:http|grpc)_route_request_statuses_total|proxy_failures_total|inbound_http_(?:errors|authz_deny|route_not_found)_total)\{(.*)\} (\S+)/.exec(line);
    if (!found) continue;
    const [, name, list, number] = found;
    const labels = readLabels(list);
    const value = Number(number) || 0;
    const isAdmin = labels.target_port === location.port;
    if (name.startsWith("inbound_http_")) {
      // The reasons have no port.
      if (isAdmin) read.inbound.failed -= value;
    } else if (isAdmin && labels.direction === "inbound") {
      continue;
    } else if (name === "response_latency_ms_bucket") {
      const { buckets } = read[labels.direction] || counters();
      buckets[labels.le] = (buckets[labels.le] || 0) + value;
    } else if (name === "response_total") {
      if (labels.direction === "inbound") add(read.inbound, labels.classification === "failure", value);
    } else if (name === "proxy_failures_total") {
      if (labels.protocol !== "connection" && BEFORE_A_ROUTE.includes(labels.phase) && read[labels.direction]) read[labels.direction].failed += value;
    } else {
      add(read.outbound, labels.error || labels.http_status >= "500" || (labels.grpc_status || "OK") !== "OK", value);
    }
  }
  return read;
}

const BEFORE_A_ROUTE = ["accept", "detect", "discover", "route"];

function add(counted, isFailure, value) {
  counted[isFailure ? "failed" : "ok"] += value;
}

function counters() {
  return { ok: 0, failed: 0, buckets: {} };
}

export function keepSample(read, state) {
  const at = Date.now();
  const before = samples.at(-1);
  // To a client that does not know who answers, a refusal of the endpoint's proxy is no failure: to this page it is.
  const refused = (state.failures && state.failures.refused_by_peers) || 0;
  read.outbound.failed += refused;
  read.outbound.ok -= refused;
  const sample = { at, read, failures: (state.failures && state.failures.total) || 0 };
  // After a break, such as a hidden page, the mean over it would be no rate of now.
  if (before && at - before.at < 5 * POLL_MS) {
    for (const direction of ["outbound", "inbound"]) {
      sample[direction] = rates(before.read[direction], read[direction], (at - before.at) / 1000);
    }
  }
  samples.push(sample);
  while (at - samples[0].at > KEPT_MS) samples.shift();
}

// Rates and percentiles of the time between two samples.
function rates(before, now, seconds) {
  const difference = (a, b) => Math.max(0, (b || 0) - (a || 0));
  const ok = difference(before.ok, now.ok), failed = difference(before.failed, now.failed);
  const buckets = Object.keys(now.buckets)
    .map((le) => [le === "+Inf" ? Infinity : Number(le), difference(before.buckets[le], now.buckets[le])])
    .sort((a, b) => a[0] - b[0]);
  return {
    requests: (ok + failed) / seconds,
    failed: failed / seconds,
    success: ok + failed > 0 ? ok / (ok + failed) : null,
    p50: percentile(buckets, 0.5),
    p95: percentile(buckets, 0.95),
  };
}
