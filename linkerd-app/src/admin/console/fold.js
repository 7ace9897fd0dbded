// Sections that fold. The browser remembers which are folded, for this proxy's address.

const KEY = "linkerd-proxy-console-folded";

export function start() {
  const folded = read();
  for (const part of document.querySelectorAll("main > section > details")) {
    const { id } = part.parentElement;
    part.open = !folded.has(id);
    part.addEventListener("toggle", () => {
      const now = read();
      if (part.open) now.delete(id); else now.add(id);
      write(now);
    });
  }
  // A link to a section opens it, also one that has been followed before.
  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest('a[href^="#"]');
    if (link) open(link.getAttribute("href").slice(1));
  });
}

export function open(id) {
  const part = document.querySelector("#" + CSS.escape(id) + " > details");
  if (part) part.open = true;
}

// Without storage, such as in a private window, sections fold until the page is left.
function read() {
  try { return new Set(JSON.parse(localStorage.getItem(KEY)) || []); } catch { return new Set(); }
}

function write(folded) {
  try { localStorage.setItem(KEY, JSON.stringify([...folded])); } catch { /* see above */ }
}
