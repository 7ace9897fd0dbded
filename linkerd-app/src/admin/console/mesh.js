// The identity, the control plane, and the age of what it told.

import { el, group, table } from "./elements.js";
import { ago, date } from "./texts.js";

export function mesh(state) {
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
    controller.role ? controller.role + ": " + controller.controller : controller.controller,
    endpoint.endpoint,
    [el("span", { class: endpoint.state === "ready" ? "good" : "bad" }, endpoint.state), endpoint.state !== "ready" && endpoint.last_error ? el("div", { class: "mono" }, endpoint.last_error) : ""],
  ]));
  return group(el("h3", {}, "Controllers"), rows.length ? table("Connections to the control plane", ["Controller", "Address", "State"], rows) : el("p", { class: "bad" }, "None is resolved."));
}

// Controllers without a connection, each with the cause.
export function unreachedControllers(state) {
  const list = [];
  for (const controller of state.controllers || []) {
    const all = (controller.balancer && controller.balancer.endpoints) || [];
    if (all.some((endpoint) => endpoint.state === "ready")) continue;
    const failed = all.find((endpoint) => endpoint.last_error);
    if (failed) list.push({ controller, why: failed.endpoint + ": " + failed.last_error });
    else if (!all.length) list.push({ controller, why: "Its name is not resolved." });
  }
  return list;
}

function streams(found) {
  const rows = found.map((stream) => [
    stream.what,
    stream.connected ? el("span", { class: "good" }, "connected") : !stream.opened ? "not open" : el("span", { class: "bad" }, "lost" + (stream.disconnected_ms === null ? "" : " for " + ago(stream.disconnected_ms))),
    stream.age_ms === null ? (stream.opened ? "no answer yet" : "–") : ago(stream.age_ms) + " ago",
    stream.last_error || "–",
  ]);
  return group(el("h3", {}, "Streams"), rows.length ? table("What the proxy watches, and the age of the last update", ["Stream", "State", "Last update", "Last error"], rows) : el("p", {}, "None is open."));
}

export function freshness(state) {
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
