// Rates, success and latency of single endpoints and routes, over the last seconds of /metrics.

import { el, table } from "./elements.js";
import { matches } from "./filter.js";
import { ms, number, share } from "./texts.js";

const WINDOW_MS = 12 * 1000;
// A longer pause between two polls, such as a hidden page, begins anew.
const LONGEST_GAP_MS = 10 * 1000;
const MAX_SERIES = 5000;
const SHOWN_ROUTES = 100;

const history = [];

// Reads the series of endpoints and routes. A route of a client policy is counted once for each request, whatever its attempts;
// an endpoint for each response.
export function readSeries(text) {
  const series = new Map();
  for (const line of text.split("\n")) {
    const found = /^(response_total|response_latency_ms_bucket|route_response_(?:total|latency_ms_(?:bucket|sum|count))|outbound_(?:http|grpc)_route_request_(?:statuses_total|duration_seconds_(?:bucket|sum|count)))\{(.*)\} (\S+)/.exec(line);
    if (!found) continue;
    const [, name, list, text] = found;
    const labels = readLabels(list);
    const value = Number(text) || 0;
    for (const [key, route] of keys(name, labels)) {
      if (!series.has(key)) {
        if (series.size >= MAX_SERIES) continue;
        series.set(key, { route, ok: 0, failed: 0, sum: 0, count: 0, buckets: {} });
      }
      count(series.get(key), name, labels, value);
    }
  }
  return series;
}

function count(one, name, labels, value) {
  const unit = name.includes("_seconds_") ? 1000 : 1;
  if (name.endsWith("_bucket")) {
    const bound = labels.le === "+Inf" ? Infinity : Number(labels.le) * unit;
    one.buckets[bound] = (one.buckets[bound] || 0) + value;
  } else if (name.endsWith("_sum")) one.sum += value * unit;
  else if (name.endsWith("_count")) one.count += value;
  else one[isFailure(labels) ? "failed" : "ok"] += value;
}

function isFailure(labels) {
  return labels.classification === "failure" || Boolean(labels.error) || labels.http_status >= "500" || (labels.grpc_status || "OK") !== "OK" && !labels.classification;
}

// What a series counts: an endpoint by its address, a route by its name and its service or port.
function keys(name, labels) {
  if (name.startsWith("outbound_")) {
    const of = resource("parent", labels);
    return [["route " + of + " " + resource("route", labels), { name: resource("route", labels), of, direction: "outbound" }]];
  }
  if (name.startsWith("route_")) {
    const named = labels.rt_route || "default";
    return [["profile " + labels.direction + labels.dst + named, { name: named, of: labels.dst || "", direction: labels.direction }]];
  }
  if (labels.direction === "outbound") return [[endpointKey(labels.target_addr), null]];
  if (labels.target_port === location.port) return [];
  const [route, of] = [resource("route", labels), "port " + labels.target_port];
  return [["inbound " + of + " " + route, { name: route, of, direction: "inbound" }]];
}

function resource(prefix, labels) {
  const [kind, namespace, name, port] = ["kind", "namespace", "name", "port"].map((part) => labels[prefix + "_" + part]);
  if (kind === "default") return "default." + name;
  return [kind, namespace, name].filter(Boolean).join(".") + (port && port !== "0" ? ":" + port : "");
}

function endpointKey(address) {
  return "endpoint " + address;
}

export function keep(series) {
  const at = Date.now();
  if (history.length && at - history.at(-1).at > LONGEST_GAP_MS) history.length = 0;
  history.push({ at, series });
  while (at - history[0].at > WINDOW_MS) history.shift();
}

// The rate of a series over the kept time; null without one.
function rate(key) {
  const [first, last] = [history[0], history.at(-1)];
  if (history.length < 2) return null;
  const now = last.series.get(key);
  if (!now) return null;
  return difference(first.series.get(key) || { ok: 0, failed: 0, sum: 0, count: 0, buckets: {} }, now, (last.at - first.at) / 1000);
}

function difference(before, now, seconds) {
  const grown = (name) => Math.max(0, now[name] - before[name]);
  const [ok, failed, sum, count] = ["ok", "failed", "sum", "count"].map(grown);
  const bounds = Object.keys(now.buckets).map(Number).sort((a, b) => a - b);
  const buckets = bounds.map((bound) => [bound, Math.max(0, now.buckets[bound] - (before.buckets[bound] || 0))]);
  return {
    requests: (ok + failed) / seconds,
    success: ok + failed > 0 ? ok / (ok + failed) : null,
    mean: count ? sum / count : null,
    p50: percentile(buckets, 0.5),
    p95: percentile(buckets, 0.95),
    // The bounds of routes are too far apart for a value between them.
    within: atMost(buckets, 0.95),
  };
}

// Requests, success and latency of an endpoint, as the lines of a cell.
export function endpointRate(address) {
  const found = rate(endpointKey(address));
  if (!found) return history.length < 2 ? "…" : "none";
  if (!found.requests) return "0/s";
  return [
    el("div", {}, number(found.requests) + "/s, ", success(found)),
    el("div", { class: "quiet" }, "p50 " + ms(found.p50) + ", p95 " + ms(found.p95)),
  ];
}

// The routes with requests, those with most first.
export function routes() {
  const last = history.at(-1);
  if (!last) return [];
  const all = [...last.series].filter(([, one]) => one.route);
  const rows = all.map(([key, { route }]) => ({ route, rate: rate(key) || { requests: 0, success: null, mean: null, within: null } }))
    .filter(({ route }) => matches(route.name, route.of, route.direction))
    .sort((a, b) => b.rate.requests - a.rate.requests || a.route.name.localeCompare(b.route.name));
  if (!rows.length) return [];
  const more = rows.length > SHOWN_ROUTES ? ", the first " + SHOWN_ROUTES + " of " + rows.length : "";
  return table("Routes in the last " + WINDOW_MS / 1000 + " s, the busiest first" + more, ["Route", "Of", "Requests", "Success", "Mean latency", "95 % within"], rows.slice(0, SHOWN_ROUTES).map(({ route, rate }) => [
    route.name,
    [route.of, el("div", { class: "quiet" }, route.direction)],
    number(rate.requests) + "/s",
    success(rate),
    ms(rate.mean),
    rate.within === Infinity ? "more than the highest bucket" : ms(rate.within),
  ]));
}

function success(rate) {
  return el("span", { class: rate.success !== null && rate.success < 0.99 ? "bad" : "" }, share(rate.success));
}

function atMost(buckets, share) {
  const total = buckets.length ? buckets.at(-1)[1] : 0;
  const found = buckets.find(([, count]) => total && count >= share * total);
  return found ? found[0] : null;
}

// The value below which a share of all is, between the bounds of its bucket.
export function percentile(buckets, share) {
  const total = buckets.length ? buckets.at(-1)[1] : 0;
  if (!total) return null;
  let lower = 0, below = 0;
  for (const [bound, count] of buckets) {
    if (count >= share * total) {
      if (bound === Infinity) return lower;
      return lower + (bound - lower) * ((share * total - below) / (count - below || 1));
    }
    [lower, below] = [bound, count];
  }
  return lower;
}

export function readLabels(list) {
  const labels = {};
  for (const [, name, value] of list.matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)) labels[name] = value;
  return labels;
}
