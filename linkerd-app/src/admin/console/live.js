// Requests as they happen, from /tap. A tap costs the proxy something for each request, so that it is open only on demand,
// and no longer than the page can be seen.

import { byId, el, hint, replace, table } from "./elements.js";
import { clock, ms } from "./texts.js";

const SHOWN_REQUESTS = 50;
const PARAMETERS = ["direction", "method", "authority", "path", "from", "to"];

let watching = null;
let requests = new Map();
let lost = 0;
let isDrawing = false;

export function start() {
  byId("live-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (watching) stop("Stopped."); else watch();
  });
  byId("live-form").elements.failed.addEventListener("change", draw);
  document.addEventListener("visibilitychange", () => { if (document.hidden && watching) stop("Stopped when the page was hidden."); });
}

async function watch() {
  const form = new FormData(byId("live-form"));
  const query = new URLSearchParams();
  for (const name of PARAMETERS) if (form.get(name).trim()) query.append(name, form.get(name).trim());
  watching = new AbortController();
  [requests, lost] = [new Map(), 0];
  byId("live-toggle").textContent = "Stop";
  say("Watching.");
  draw();
  try {
    const answer = await fetch("/tap?" + query, { cache: "no-store", signal: watching.signal });
    if (!answer.ok) throw new Error(await refusal(answer));
    await read(answer.body.pipeThrough(new TextDecoderStream()).getReader());
    stop("The proxy ended the tap.");
  } catch (error) {
    if (error.name !== "AbortError") stop(error.message, "bad");
  }
}

function stop(text, kind) {
  if (watching) watching.abort();
  watching = null;
  byId("live-toggle").textContent = "Watch";
  say(text, kind);
}

async function refusal(answer) {
  const body = await answer.text();
  try { return JSON.parse(body).error; } catch { return body || "/tap answered " + answer.status; }
}

async function read(reader) {
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) take(JSON.parse(line));
    draw();
  }
}

function take(event) {
  if (event.event === "dropped") lost = event.events + event.skipped_requests;
  if (!event.id) return;
  const { at } = requests.get(event.id) || { at: Date.now() };
  requests.set(event.id, { at, ...event });
  // The oldest of those that have ended goes first.
  while (requests.size > 4 * SHOWN_REQUESTS) {
    const ended = [...requests].find(([, request]) => request.event === "end");
    requests.delete(ended ? ended[0] : requests.keys().next().value);
  }
}

// Draws at most once for each frame, however many events there are.
function draw() {
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => {
    isDrawing = false;
    const onlyFailed = byId("live-form").elements.failed.checked;
    const shown = [...requests.values()].filter((request) => !onlyFailed || failed(request)).slice(-SHOWN_REQUESTS).reverse();
    const caption = "Newest first" + (lost ? "; " + lost + " events or requests are missing, as there were more than this tap takes" : "");
    const columns = ["At", "Request", "Answer", "Took", "Went to"];
    replace("live-body", shown.length ? table(caption, columns, shown.map(row)) : el("p", {}, watching ? "No such request yet." : ""));
  });
}

function failed(request) {
  return Boolean(request.reason || request.reset || request.status >= 500 || request.grpc_status);
}

function row(request) {
  const client = request.direction + ", from " + request.source;
  return [
    clock(request.at),
    [el("div", { class: "mono" }, request.method + " " + request.authority + request.path), el("div", { class: "quiet" }, client)],
    answer(request),
    request.since_request_ms === undefined ? "…" : ms(request.since_request_ms),
    way(request),
  ];
}

function answer(request) {
  const kind = failed(request) ? "bad" : "good";
  const status = request.status ? String(request.status) : "none";
  const grpc = request.grpc_status ? ", gRPC " + request.grpc_status : "";
  if (request.event !== "end") return request.status ? [el("span", { class: kind }, status), " and a body"] : "waits";
  const parts = [el("span", { class: kind }, status + grpc + (request.cancelled ? ", cancelled by the client" : ""))];
  if (request.reason) parts.push(el("div", {}, el("strong", { class: "bad" }, request.reason)), el("div", { class: "mono" }, request.detail), el("div", {}, hint(request.hint)));
  return parts;
}

function way(request) {
  const parts = [el("div", {}, request.destination || "no endpoint")];
  if (request.route) parts.push(el("div", { class: "quiet" }, "route " + request.route));
  if (request.backend) parts.push(el("div", { class: "quiet" }, "backend " + request.backend));
  if (request.attempts > 1) parts.push(el("div", { class: "quiet" }, request.attempts + " attempts"));
  return parts;
}

function say(text, kind) {
  const status = byId("live-status");
  status.className = kind || "";
  status.textContent = text;
}
