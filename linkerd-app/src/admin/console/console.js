// The console of the admin port. It polls /state and /metrics, and shows them. All that comes from the proxy becomes text
// nodes and attributes of these scripts' own choice, never markup: hosts and paths may be hostile.

import { byId, options, replace } from "./elements.js";
import * as filter from "./filter.js";
import * as fold from "./fold.js";
import * as series from "./series.js";
import { clock } from "./texts.js";
import { POLL_MS, cards, charts, keepSample, readMetrics } from "./traffic.js";
import { now } from "./now.js";
import { failures, followLink } from "./failures.js";
import { mergedTargets, topology } from "./topology.js";
import { mesh } from "./mesh.js";
import { outputs } from "./outputs.js";
import * as live from "./live.js";
import * as explain from "./explain.js";
import * as configuration from "./configuration.js";

const SECTIONS = [
  "workers", "failures", "identity", "controllers", "discovery", "policies", "server_policies", "service_profiles",
  "access_log", "trace", "taps", "log",
];

let paused = false;
let timer = 0;
let shown = null;

byId("pause").addEventListener("click", togglePause);
document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
fold.start();
filter.start(() => { if (shown) showAll(shown); });
followLink(() => { if (shown) showAll(shown); });
live.start();
explain.start();
configuration.show();
poll();

async function poll() {
  clearTimeout(timer);
  if (paused || document.hidden) return;
  try {
    const [state, metrics] = await Promise.all([
      get("/state?" + SECTIONS.join("&")).then((answer) => answer.json()),
      get("/metrics").then((answer) => answer.text()),
    ]);
    keepSample(readMetrics(metrics), state);
    series.keep(series.readSeries(metrics));
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
  byId("pause").textContent = paused ? "Resume" : "Pause";
  if (paused) say("Paused at " + clock(Date.now())); else poll();
}

function say(text, kind) {
  const status = byId("status");
  status.className = kind || "";
  // Screen readers hear changes of state, not each poll.
  status.setAttribute("aria-live", kind ? "polite" : "off");
  status.textContent = text;
}

function showAll(state) {
  shown = state;
  replace("now-body", now(state));
  replace("cards", cards(state));
  replace("charts", charts());
  replace("routes-body", series.routes());
  replace("failures-body", failures(state.failures || {}));
  replace("topology-body", topology(state));
  replace("mesh-body", mesh(state));
  replace("outputs-body", outputs(state));
  byId("who").textContent = (state.identity && state.identity.identity) || location.host;
  const targets = mergedTargets(state).map((target) => target.name);
  options("known-targets", targets);
  options("known-authorities", targets.map((name) => name.replace(/:\d+$/, "")));
  options("known-urls", targets.map((name) => "http://" + name + "/"));
}
