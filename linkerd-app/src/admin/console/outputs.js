// What leaves the proxy for those who watch it, and what was dropped on the way.

import { el, table } from "./elements.js";
import { count } from "./texts.js";

export function outputs(state) {
  return table("Nothing of them delays a request: what nobody takes in time is dropped and counted", ["Output", "Setting", "Dropped"], [
    log(state.log),
    accessLog(state.access_log),
    traces(state.trace),
    taps(state.taps),
  ]);
}

function log(found) {
  if (!found) return ["Log", off("LINKERD2_PROXY_LOG")];
  const streams = (found.streams && found.streams.open) || [];
  return ["Log", streams.length ? count(streams.length, "stream") + " of /logs.json" : "on", dropped(found.dropped_lines, "line")];
}

function accessLog(found) {
  if (!found) return ["Access log", off("LINKERD2_PROXY_ACCESS_LOG or LINKERD_PROXY_ACCESS_LOG_FORMAT=full"), "–"];
  return ["Access log", found.format + " to " + found.output + sampled(found.sample), dropped(found.queue && found.queue.dropped_lines, "line")];
}

function traces(found) {
  if (!found) return ["Traces", off("LINKERD2_PROXY_TRACE_COLLECTOR_SVC_ADDR or LINKERD_PROXY_TRACE_OUTPUT=stderr"), "–"];
  const sent = found.export || {};
  const to = [found.collector && "collector " + found.collector, found.output && found.output.name].filter(Boolean).join(", ");
  const error = sent.last_error ? el("div", { class: "bad" }, sent.last_error.message + ", " + sent.last_error.age_seconds + " s ago") : "";
  const lost = Object.values(sent.dropped || {}).reduce((sum, spans) => sum + spans, 0);
  return ["Traces", [to + sampled(found.sample) + ": " + count(sent.exported || 0, "span") + " exported", error], dropped(lost, "span")];
}

function taps(found) {
  const open = (found && found.open) || [];
  const clients = open.map((tap) => el("div", {}, "by " + tap.client));
  return ["Taps", [(open.length || "none") + " open", ...clients], dropped(found && found.dropped, "event")];
}

function off(names) {
  return "off; " + names + " turns it on";
}

function sampled(share) {
  return share === undefined || share === null || share === 1 ? "" : ", " + share * 100 + " % of successes";
}

function dropped(number, noun) {
  return number ? el("span", { class: "bad" }, count(number, noun)) : "none";
}
