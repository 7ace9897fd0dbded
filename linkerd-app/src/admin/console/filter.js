// One filter for the rows of all sections: a row is shown if it, or the heading that it belongs to, has all the words.

// The answer about one request is shown whole.
const ROWS = "tbody tr:not(#explain *), li:not(#explain *)";

let words = [];

export function start(draw) {
  input().addEventListener("input", () => {
    words = wordsOf(input().value);
    draw();
    apply(document);
  });
}

export function clear() {
  input().value = "";
  words = [];
}

export function matches(...texts) {
  const text = texts.join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

// Hides the other rows of a part, and the groups without a row that is left.
export function apply(part) {
  for (const row of part.querySelectorAll(ROWS)) row.hidden = !matches(row.textContent, ...headings(row));
  // The inner ones first: their headings are part of the outer ones.
  for (const group of [...part.querySelectorAll("[data-group]")].reverse()) {
    const isLeft = [...group.querySelectorAll(ROWS)].some((row) => !row.hidden);
    group.hidden = words.length > 0 && !isLeft && !matches(group.dataset.group, ...headings(group));
  }
  const rows = [...document.querySelectorAll(ROWS)];
  const shown = rows.filter((row) => !row.closest("[hidden]")).length;
  const status = document.getElementById("filter-status");
  const text = words.length ? shown + " of " + rows.length + " rows" : "";
  if (status.textContent !== text) status.textContent = text;
}

function headings(node) {
  const found = [];
  for (let group = node.parentElement.closest("[data-group]"); group; group = group.parentElement.closest("[data-group]")) found.push(group.dataset.group);
  return found;
}

function wordsOf(text) {
  return text.toLowerCase().split(/\s+/).filter(Boolean);
}

function input() {
  return document.getElementById("filter");
}
