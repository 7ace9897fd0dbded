// Targets with their routes, backends and endpoints, over all workers.

import { el, group, table } from "./elements.js";
import { matches } from "./filter.js";
import { endpointRate } from "./series.js";
import { count, ms, share } from "./texts.js";

const SHOWN_ENDPOINTS = 200;

export function topology(state) {
  const targets = mergedTargets(state);
  const parts = [];
  for (const listener of mergedListeners(state)) parts.push(listener);
  const list = [el("p", {}, "Listeners: " + (parts.join(", ") || "none") + ".")];
  if (!targets.length) list.push(el("p", {}, "No target is in use: send a request through the proxy."));
  for (const target of targets) {
    const parts = [];
    if (target.routes.size) {
      parts.push(el("p", { class: "quiet" }, "Routes, in the order in which they are tried"));
      parts.push(el("ol", { class: "routes" }, ...[...target.routes.values()].map(route)));
    }
    for (const backend of target.backends.values()) parts.push(backendPart(target, backend));
    list.push(group(el("h3", {}, target.name, el("span", { class: "quiet" }, " " + count(target.connections, "connection"))), ...parts));
  }
  const applications = mergedApplications(state);
  if (applications.length) {
    list.push(group(el("h3", {}, "Applications (inbound)"), table("Ports of this pod that have connections", ["Address", "Server policy", "Connections"], applications)));
  }
  return list;
}

function route(rule) {
  const matches = (rule.matches || []).join(" or ") || "every request";
  return el("li", {}, el("strong", {}, rule.route), " ", el("span", { class: "mono" }, matches),
    (rule.hosts || []).length ? " for " + rule.hosts.join(", ") : "",
    ...settings(rule).map((text) => el("div", { class: "quiet" }, text)));
}

// What a rule does to its requests: limits, retries, filters and shares.
function settings(rule) {
  const list = [];
  const { request_ms: request, response_ms: response, idle_ms: idle } = rule.timeouts || {};
  const limits = [["request", request], ["response", response], ["idle", idle]].filter(([, limit]) => typeof limit === "number");
  if (limits.length) list.push("Timeouts: " + limits.map(([name, limit]) => name + " " + ms(limit)).join(", "));
  if (rule.retry) list.push("Retries: at most " + rule.retry.max_retries + " for " + [...rule.retry.statuses, ...rule.retry.grpc_codes.map((code) => "gRPC " + code)].join(", "));
  for (const filter of rule.filters || []) list.push("Filter: " + (typeof filter === "string" ? filter : filter.filter || JSON.stringify(filter)));
  const backends = (rule.distribution && rule.distribution.backends) || [];
  if (backends.length > 1) list.push("Split: " + backends.map((used) => used.backend + (used.share === undefined ? "" : " " + share(used.share))).join(", "));
  return list;
}

function backendPart(target, backend) {
  const endpoints = [...backend.endpoints.values()];
  const heading = el("h4", {}, backend.name + (backend.destination ? " over " + backend.destination : ""));
  if (!endpoints.length) return group(heading, el("p", { class: "bad" }, backend.fails || (backend.resolved ? "No endpoints." : "Not resolved yet.")));
  const usable = endpoints.filter((endpoint) => endpoint.state === "ready").length;
  // The filter comes before the cut: it finds an endpoint among thousands.
  const found = endpoints.filter((endpoint) => matches(target.name, heading.textContent, endpoint.name, endpoint.identity || "none: plain text", endpoint.state, endpoint.cause, endpoint.error));
  const rows = found.slice(0, SHOWN_ENDPOINTS).map((endpoint) => [
    [endpoint.name, endpoint.weight === null || endpoint.weight === 10000 ? "" : el("div", { class: "quiet" }, "weight " + endpoint.weight / 10000)],
    endpoint.identity || "none: plain text",
    [el("span", { class: endpoint.state === "ready" ? "good" : "bad" }, endpoint.state), endpoint.cause ? el("div", {}, "breaker open: " + endpoint.cause) : "", endpoint.retry === null ? "" : el("div", { class: "quiet" }, "next try in " + ms(endpoint.retry)), endpoint.error ? el("div", { class: "mono" }, endpoint.error) : ""],
    endpointRate(endpoint.name),
    String(endpoint.inFlight),
    ms(endpoint.latency),
    String(endpoint.connections),
  ]);
  const more = found.length > SHOWN_ENDPOINTS ? ", the first " + SHOWN_ENDPOINTS : "";
  const queue = backend.queue ? ", " + backend.queue + " requests wait" : "";
  return group(heading, table(usable + " of " + endpoints.length + " endpoints ready" + queue + more, ["Endpoint", "Expected identity", "State", "Requests", "In flight", "Load estimate", "Connections"], rows));
}

// The targets of all workers, each once.
export function mergedTargets(state) {
  const targets = new Map();
  const identities = expectedIdentities(state);
  for (const worker of state.workers || []) {
    for (const found of (worker && worker.outbound && worker.outbound.targets) || []) {
      const target = entry(targets, found.target, () => ({ name: found.target, connections: 0, routes: new Map(), backends: new Map() }));
      target.connections += found.connections || 0;
      for (const http of found.http || []) {
        for (const rule of (http.routes && http.routes.first) || []) target.routes.set(rule.route + rule.matches + rule.hosts, rule);
      }
      walk(found, (part) => { if (part.balancer || part.forward || part.fails) addBackend(target, part, identities); });
    }
  }
  return [...targets.values()].sort((a, b) => a.name.localeCompare(b.name));
}

// By destination and address: who the control plane says an endpoint is.
function expectedIdentities(state) {
  const identities = new Map();
  for (const found of (state.discovery && state.discovery.destinations) || []) {
    for (const endpoint of found.endpoints || []) identities.set(found.destination + " " + endpoint.addr, endpoint.identity);
  }
  return identities;
}

function addBackend(target, part, identities) {
  const name = part.backend || part.destination || target.name;
  const backend = entry(target.backends, name, () => ({ name, destination: part.destination, resolved: false, queue: 0, fails: part.fails, endpoints: new Map() }));
  const status = part.connections || {};
  const forward = { endpoint: part.forward, state: part.state || "ready", ...status, connections: status.connections ? status : {} };
  const balancer = part.balancer || { resolved: true, endpoints: part.forward ? [forward] : [] };
  backend.resolved = backend.resolved || balancer.resolved === true;
  backend.queue += (balancer.queue && balancer.queue.length) || 0;
  for (const found of balancer.endpoints || []) {
    const endpoint = entry(backend.endpoints, found.endpoint, () => ({ name: found.endpoint, identity: identities.get(part.destination + " " + found.endpoint), state: "ready", inFlight: 0, latency: null, connections: 0, weight: found.weight ?? null, cause: "", retry: null, error: "" }));
    // The worst of the workers' states: a sound one needs no eye.
    if (found.state !== "ready") endpoint.state = found.state;
    if (found.breaker && found.breaker.cause && found.breaker.state !== "closed") endpoint.cause = found.breaker.cause;
    if (found.state !== "ready" && typeof found.retry_in_ms === "number") endpoint.retry = found.retry_in_ms;
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

function entry(map, key, make) {
  if (!map.has(key)) map.set(key, make());
  return map.get(key);
}

function walk(value, visit) {
  if (!value || typeof value !== "object") return;
  if (!Array.isArray(value)) visit(value);
  for (const part of Object.values(value)) walk(part, visit);
}
