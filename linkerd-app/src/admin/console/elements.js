// Elements of the page. Strings become text nodes here, and nowhere is HTML parsed.

import { apply } from "./filter.js";

export function el(name, attributes, ...children) {
  return build(document.createElement(name), attributes, children);
}

export function svg(name, attributes, ...children) {
  return build(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) if (value !== "") node.setAttribute(name, value);
  node.append(...children.flat().filter((child) => child !== ""));
  return node;
}

// A table whose rows begin with their heading. On narrow screens each cell shows its column's name. `attributes` gives those of a
// row by its index.
export function table(caption, columns, rows, attributes = () => ({})) {
  const head = el("thead", {}, el("tr", {}, ...columns.map((column) => el("th", { scope: "col" }, column))));
  const body = rows.map(([first, ...rest], index) => el("tr", attributes(index),
    el("th", { scope: "row" }, first),
    ...rest.map((cell, i) => el("td", { "data-label": columns[i + 1] }, cell))));
  return el("table", {}, el("caption", {}, caption), head, el("tbody", {}, ...body));
}

// A hint of the proxy, whose mentions of /state become links to the part of this page that shows it.
export function hint(text) {
  const [before, ...after] = text.split("/state");
  const part = /control plane reachable|identity controller/.test(text) ? ["#mesh", "Identity and control plane"] : ["#topology", "Topology"];
  return [before, ...after.flatMap((rest) => [el("a", { href: part[0] }, part[1]), rest])];
}

// A heading and what belongs to it: the filter shows all of it if the heading matches.
export function group(heading, ...children) {
  return el("div", { "data-group": heading.textContent }, heading, ...children);
}

export function options(id, values) {
  const list = byId(id);
  if (list.children.length === values.length) return;
  list.replaceChildren(...values.slice(0, 100).map((value) => el("option", { value })));
}

export function byId(id) {
  return document.getElementById(id);
}

// Leaves a part alone while somebody selects text or has the focus in it.
export function replace(id, nodes) {
  const part = byId(id);
  const selection = getSelection();
  if (selection && !selection.isCollapsed && part.contains(selection.anchorNode)) return;
  if (document.activeElement !== part && part.contains(document.activeElement)) return;
  part.replaceChildren(...[nodes].flat().filter(Boolean));
  apply(part);
}
