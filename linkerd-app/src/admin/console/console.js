"use strict";
// The console of the admin port. It polls /state and /metrics, and shows them. All that comes from the proxy becomes text
// nodes and attributes of this script's own choice, never markup: hosts and paths may be hostile.

const POLL_MS = 2000;
const KEPT_MS = 5 * 60 * 1000;
const SHORTEST_SPAN_MS = 60 * 1000;
const SHOWN_FAILURES = 100;
const SHOWN_ENDPOINTS = 200;
const SECTIONS = ["workers", "failures", "identity", "controllers", "discovery", "policies", "server_policies", "service_profiles"];

const samples = [];
let paused = false;
let timer = 0;

start();

function start() {
  byId("pause").addEventListener("click", togglePause);
  byId("explain-form").addEventListener("submit", explain);
  for (const radio of document.getElementsByName("direction")) radio.addEventListener("change", showDirection);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
  showDirection();
  showConfiguration();
  poll();
}

// ---- Polling

async function poll() {
  clearTimeout(timer);
  if (paused || document.hidden) return;
  try {
    const [state, metrics] = await Promise.all([
      get("/state?" + SECTIONS.join("&")).then((answer) => answer.json()),
      get("/metrics").then((answer) => answer.text()),
    ]);
    keepSample(readMetrics(metrics), state);
    showAll(state);
    say("Live, updated " + clock(Date.now()));
  } catch (error) {
    say("No answer: " + error.message + ". The page shows the last state.", "bad");
  }
  timer = setTimeout(poll, POLL_MS);
}

async function get(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error(path.split("?")[0] + " answered " + answer.status);
  return answer;
}

function togglePause() {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
  if (paused) say("Paused"); else poll();
}

function say(text, kind) {
  const status = byId("status");
  status.className = kind || "";
  // Screen readers hear changes of state, not each poll.
  status.setAttribute("aria-live", kind ? "polite" : "off");
  status.textContent = text;
}

function showAll(state) {
  replace("cards", cards(state));
  replace("charts", charts());
  replace("failures-body", failures(state.failures || {}));
  replace("topology-body", topology(state));
  replace("mesh-body", mesh(state));
  byId("who").textContent = (state.identity && state.identity.identity) || location.host;
  const targets = mergedTargets(state).map((target) => target.name);
  options("known-targets", targets);
  options("known-urls", targets.map((name) => "http://" + name + "/"));
}

// Leaves a part alone while somebody selects text or has the focus in it.
function replace(id, nodes) {
  const part = byId(id);
  const selection = getSelection();
  if (selection && !selection.isCollapsed && part.contains(selection.anchorNode)) return;
  if (part.contains(document.activeElement)) return;
  part.replaceChildren(...[nodes].flat().filter(Boolean));
}

// ---- Metrics

// The counters of the charts. Requests to the admin port itself are left out.
function readMetrics(text) {
  const read = { outbound: counters(), inbound: counters() };
  for (const line of text.split("\n")) {
    const found = /^(response_total|response_latency_ms_bucket|outbound_http_errors_total|inbound_http_errors_total)\{(.*)\} (\S+)/.exec(line);
    if (!found) continue;
    const [, name, list, number] = found;
    const labels = readLabels(list);
    if (labels.target_port === location.port && labels.direction === "inbound") continue;
    const value = Number(number) || 0;
    if (name.endsWith("_http_errors_total")) {
      read[name.split("_")[0]].failed += value;
      continue;
    }
    const direction = read[labels.direction];
    if (!direction) continue;
    if (name === "response_latency_ms_bucket") direction.buckets[labels.le] = (direction.buckets[labels.le] || 0) + value;
    else if (labels.classification === "failure") direction.failed += value;
    else direction.ok += value;
  }
  return read;
}

function counters() {
  return { ok: 0, failed: 0, buckets: {} };
}

function readLabels(list) {
  const labels = {};
  for (const [, name, value] of list.matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)) labels[name] = value;
  return labels;
}

function keepSample(read, state) {
  const at = Date.now();
  const before = samples.at(-1);
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

function percentile(buckets, share) {
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

// ---- Traffic

function cards(state) {
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
    list.push([name + " p50, p95", rate ? ms(rate.p50) + ", " + ms(rate.p95) : "…"]);
  }
  list.push(["In flight", String(sum((w) => w.outbound && w.outbound.in_flight) + sum((w) => w.inbound && w.inbound.in_flight))]);
  const kept = state.failures || {};
  list.push(["Failures since start", String(kept.total || 0), kept.total ? "warn" : ""]);
  const streams = freshness(state);
  const lost = streams.filter((stream) => stream.opened && !stream.connected).length;
  list.push(["Control plane", lost ? lost + " of " + streams.length + " lost" : "connected", lost ? "bad" : ""]);
  return list.map(([name, value, kind]) => el("dl", { class: "card" }, el("dt", {}, name), el("dd", { class: kind || "" }, value)));
}

function seen(direction) {
  return samples.some((sample) => sample.read[direction].ok + sample.read[direction].failed > 0);
}

function charts() {
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

// ---- Failures

function failures(kept) {
  const last = kept.last || [];
  if (!last.length) return el("p", {}, "None since the proxy started.");
  const counts = new Map();
  for (const failure of last) counts.set(failure.reason, (counts.get(failure.reason) || 0) + 1);
  const summary = [...counts].sort((a, b) => b[1] - a[1]).map(([reason, count]) => reason + " " + count).join(", ");
  const rows = grouped(last).slice(0, SHOWN_FAILURES).map(({ failure, times }) => [
    [clock(failure.time_ms), times > 1 ? el("div", { class: "quiet" }, times + " times") : ""],
    [el("strong", { class: "bad" }, failure.reason), el("div", { class: "quiet" }, "by " + failure.origin)],
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

// ---- Topology

function topology(state) {
  const targets = mergedTargets(state);
  const parts = [];
  for (const listener of mergedListeners(state)) parts.push(listener);
  const list = [el("p", {}, "Listeners: " + (parts.join(", ") || "none") + ".")];
  if (!targets.length) list.push(el("p", {}, "No target is in use: send a request through the proxy."));
  for (const target of targets) {
    list.push(el("h3", {}, target.name, el("span", { class: "quiet" }, " " + count(target.connections, "connection"))));
    if (target.routes.size) {
      list.push(el("p", { class: "quiet" }, "Routes, in the order in which they are tried"));
      list.push(el("ol", { class: "routes" }, ...[...target.routes.values()].map(route)));
    }
    for (const backend of target.backends.values()) list.push(...backendPart(backend));
  }
  const applications = mergedApplications(state);
  if (applications.length) {
    list.push(el("h3", {}, "Applications (inbound)"));
    list.push(table("Ports of this pod that have connections", ["Address", "Server policy", "Connections"], applications));
  }
  return list;
}

function route(rule) {
  const matches = (rule.matches || []).map(readable).join(" or ") || "every request";
  return el("li", {}, el("strong", {}, rule.route), " ", el("span", { class: "mono" }, matches),
    (rule.hosts || []).length ? " for " + rule.hosts.join(", ") : "", rule.filters ? ", " + count(rule.filters, "filter") : "");
}

function readable(match) {
  const path = /path: Some\((\w+)\("((?:[^"\\]|\\.)*)"/.exec(match);
  const rest = /headers: \[\], query: \[\], method: None/.test(match);
  if (rest && path) return path[1].toLowerCase() + " " + path[2];
  if (rest && /path: None/.test(match)) return "every request";
  return match;
}

function backendPart(backend) {
  const endpoints = [...backend.endpoints.values()];
  const heading = el("h4", {}, backend.name + (backend.destination ? " over " + backend.destination : ""));
  if (!endpoints.length) return [heading, el("p", { class: "bad" }, backend.fails || (backend.resolved ? "No endpoints." : "Not resolved yet."))];
  const usable = endpoints.filter((endpoint) => endpoint.state === "ready").length;
  const rows = endpoints.slice(0, SHOWN_ENDPOINTS).map((endpoint) => [
    endpoint.name,
    [el("span", { class: endpoint.state === "ready" ? "good" : "bad" }, endpoint.state), endpoint.breaker && endpoint.breaker !== "closed" ? el("div", { class: "bad" }, "breaker " + endpoint.breaker) : "", endpoint.error ? el("div", { class: "mono" }, endpoint.error) : ""],
    String(endpoint.inFlight),
    ms(endpoint.latency),
    String(endpoint.connections),
    endpoint.weight === null ? "–" : String(endpoint.weight / 10000),
  ]);
  const more = endpoints.length > SHOWN_ENDPOINTS ? ", the first " + SHOWN_ENDPOINTS : "";
  const queue = backend.queue ? ", " + backend.queue + " requests wait" : "";
  return [heading, table(usable + " of " + endpoints.length + " endpoints ready" + queue + more, ["Endpoint", "State", "In flight", "Latency", "Connections", "Weight"], rows)];
}

// The targets of all workers, each once.
function mergedTargets(state) {
  const targets = new Map();
  for (const worker of state.workers || []) {
    for (const found of (worker && worker.outbound && worker.outbound.targets) || []) {
      const target = entry(targets, found.target, () => ({ name: found.target, connections: 0, routes: new Map(), backends: new Map() }));
      target.connections += found.connections || 0;
      for (const http of found.http || []) {
        for (const rule of (http.routes && http.routes.first) || []) target.routes.set(rule.route + rule.matches + rule.hosts, rule);
      }
      walk(found, (part) => { if (part.balancer || part.forward || part.fails) addBackend(target, part); });
    }
  }
  return [...targets.values()].sort((a, b) => a.name.localeCompare(b.name));
}

function addBackend(target, part) {
  const name = part.backend || part.destination || target.name;
  const backend = entry(target.backends, name, () => ({ name, destination: part.destination, resolved: false, queue: 0, fails: part.fails, endpoints: new Map() }));
  const status = part.connections || {};
  const forward = { endpoint: part.forward, state: part.state || "ready", ...status, connections: status.connections ? status : {} };
  const balancer = part.balancer || { resolved: true, endpoints: part.forward ? [forward] : [] };
  backend.resolved = backend.resolved || balancer.resolved === true;
  backend.queue += (balancer.queue && balancer.queue.length) || 0;
  for (const found of balancer.endpoints || []) {
    const endpoint = entry(backend.endpoints, found.endpoint, () => ({ name: found.endpoint, state: "ready", inFlight: 0, latency: null, connections: 0, weight: found.weight ?? null, breaker: "", error: "" }));
    // The worst of the workers' states: a sound one needs no eye.
    if (found.state !== "ready") endpoint.state = found.state;
    if (found.breaker && found.breaker.state !== "closed") endpoint.breaker = found.breaker.state;
    if (found.last_error && found.state !== "ready") endpoint.error = found.last_error;
    endpoint.inFlight += found.in_flight || 0;
    endpoint.latency = Math.max(endpoint.latency || 0, found.estimate_ms || 0);
    const connections = found.connections || {};
    endpoint.connections += Array.isArray(connections.connections) ? connections.connections.length : connections.open || 0;
  }
}

function mergedListeners(state) {
  const listeners = new Map();
  for (const worker of state.workers || []) {
    for (const open of (worker && worker.listeners && worker.listeners.open) || []) {
      const listener = entry(listeners, open.name, () => ({ ...open, connections: 0 }));
      listener.connections += open.connections;
    }
  }
  return [...listeners.values()].map((l) => l.direction + " " + l.address + " with " + count(l.connections, "connection") + (l.draining ? ", draining" : ""));
}

function mergedApplications(state) {
  const applications = new Map();
  for (const worker of state.workers || []) {
    const inbound = worker && worker.inbound;
    for (const found of (inbound && inbound.applications && inbound.applications.in_use) || []) {
      const application = entry(applications, found.address, () => ({ ...found, connections: 0 }));
      application.connections += found.connections || 0;
    }
  }
  return [...applications.values()].map((a) => [a.address, a.server, String(a.connections)]);
}

// ---- Identity and control plane

function mesh(state) {
  return [identity(state.identity), controllers(state.controllers || []), streams(freshness(state))].flat();
}

function identity(found) {
  if (!found) return [el("h3", {}, "Identity"), el("p", {}, "None: connections of this proxy are not encrypted.")];
  const facts = [["Identity", found.identity], ["Issuer", found.issuer || "–"]];
  if (found.valid_until) facts.push(["Valid until", date(found.valid_until) + ", " + ago(found.valid_until * 1000 - Date.now()) + " left"]);
  if (found.next_request) facts.push(["Next certificate", "in " + ago(found.next_request * 1000 - Date.now())]);
  facts.push(["Certificates", found.issued + " issued, " + found.failed + " requests failed"]);
  if (found.last_error) facts.push(["Last error", el("span", { class: "bad" }, found.last_error)]);
  return [el("h3", {}, "Identity"), el("dl", { class: "facts" }, ...facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]))];
}

function controllers(found) {
  const rows = found.flatMap((controller) => ((controller.balancer && controller.balancer.endpoints) || []).map((endpoint) => [
    controller.controller,
    endpoint.endpoint,
    [el("span", { class: endpoint.state === "ready" ? "good" : "bad" }, endpoint.state), endpoint.state !== "ready" && endpoint.last_error ? el("div", { class: "mono" }, endpoint.last_error) : ""],
  ]));
  return [el("h3", {}, "Controllers"), rows.length ? table("Connections to the control plane", ["Controller", "Address", "State"], rows) : el("p", { class: "bad" }, "None is resolved.")];
}

function streams(found) {
  const rows = found.map((stream) => [
    stream.what,
    stream.connected ? el("span", { class: "good" }, "connected") : !stream.opened ? "not open" : el("span", { class: "bad" }, "lost" + (stream.disconnected_ms === null ? "" : " for " + ago(stream.disconnected_ms))),
    stream.age_ms === null ? (stream.opened ? "no answer yet" : "–") : ago(stream.age_ms) + " ago",
    stream.last_error || "–",
  ]);
  return [el("h3", {}, "Streams"), rows.length ? table("What the proxy watches, and the age of the last update", ["Stream", "State", "Last update", "Last error"], rows) : el("p", {}, "None is open.")];
}

function freshness(state) {
  const list = [];
  const add = (what, found) => { if (found) list.push({ ...found, what, opened: found.streams_opened > 0 }); };
  for (const found of (state.discovery && state.discovery.destinations) || []) add("endpoints of " + found.destination, found.freshness);
  for (const found of (state.policies && state.policies.targets) || []) {
    add("policy of " + found.target, found.policy_freshness);
    add("profile of " + found.target, found.profile_freshness);
  }
  for (const found of (state.server_policies && state.server_policies.ports) || []) add("inbound policy of port " + found.port, found.freshness);
  for (const found of (state.service_profiles && state.service_profiles.services) || []) add("inbound profile of " + found.service, found.freshness);
  return list;
}

// ---- Explain

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

// ---- Configuration

async function showConfiguration() {
  try {
    const env = await (await get("/env.json")).json();
    const rows = Object.keys(env).filter((name) => /^LINKERD/.test(name)).sort().map((name) => [name, brief(String(env[name]))]);
    replace("configuration-body", rows.length ? table("LINKERD variables, secrets masked", ["Name", "Value"], rows) : el("p", {}, "No variable is set: all values are defaults."));
  } catch (error) {
    replace("configuration-body", el("p", { class: "bad" }, error.message));
  }
}

function brief(value) {
  return value.length > 300 ? value.slice(0, 300) + "… (" + value.length + " characters)" : value || "(empty)";
}

// ---- Elements. Strings become text nodes here, and nowhere is HTML parsed.

function el(name, attributes, ...children) {
  return build(document.createElement(name), attributes, children);
}

function svg(name, attributes, ...children) {
  return build(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) if (value !== "") node.setAttribute(name, value);
  node.append(...children.flat().filter((child) => child !== ""));
  return node;
}

// A table whose rows begin with their heading. On narrow screens each cell shows its column's name.
function table(caption, columns, rows) {
  const head = el("thead", {}, el("tr", {}, ...columns.map((column) => el("th", { scope: "col" }, column))));
  const body = rows.map(([first, ...rest]) => el("tr", {},
    el("th", { scope: "row" }, first),
    ...rest.map((cell, i) => el("td", { "data-label": columns[i + 1] }, cell))));
  return el("table", {}, el("caption", {}, caption), head, el("tbody", {}, ...body));
}

function options(id, values) {
  const list = byId(id);
  if (list.children.length === values.length) return;
  list.replaceChildren(...values.slice(0, 100).map((value) => el("option", { value })));
}

function byId(id) {
  return document.getElementById(id);
}

function entry(map, key, make) {
  if (!map.has(key)) map.set(key, make());
  return map.get(key);
}

function walk(value, visit) {
  if (!value || typeof value !== "object") return;
  if (!Array.isArray(value)) visit(value);
  for (const part of Object.values(value)) walk(part, visit);
}

// ---- Texts

function clock(time) {
  return new Date(time).toLocaleTimeString([], { hour12: false });
}

function date(seconds) {
  return new Date(seconds * 1000).toISOString().replace("T", " ").slice(0, 16) + " UTC";
}

function ago(milliseconds) {
  const seconds = Math.round(milliseconds / 1000);
  if (seconds < 120) return seconds + " s";
  if (seconds < 7200) return Math.round(seconds / 60) + " min";
  if (seconds < 172800) return Math.round(seconds / 3600) + " h";
  return Math.round(seconds / 86400) + " d";
}

function number(value) {
  if (value === null || value === undefined) return "–";
  return value >= 10 || value === 0 ? String(Math.round(value)) : value.toFixed(1);
}

function count(value, noun) {
  return value + " " + noun + (value === 1 ? "" : "s");
}

function ms(value) {
  if (value === null || value === undefined) return "–";
  return value >= 1000 ? (value / 1000).toFixed(1) + "\u00a0s" : number(value) + "\u00a0ms";
}

function share(value) {
  return value === null ? "–" : (Math.floor(value * 1000) / 10).toFixed(1) + " %";
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
