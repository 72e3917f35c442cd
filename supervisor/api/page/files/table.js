// The table of containers. Rows are made once, and in slices: the first ones are on the screen while the others are
// made. The browser draws only those in view (content-visibility).

import { ago, arrange, h, icon, setAgo, setText } from "./dom.js";
import { cause, isProblem, why, word } from "./words.js";
import { strip, updateStrip } from "./timeline.js";

const firstSlice = 40;
const nextSlice = 120;
const $ = (id) => document.getElementById(id);
const order = new Intl.Collator("en", { numeric: true });

/** By project, service and name. */
export const inOrder = (a, b) => order.compare(a.project, b.project) || order.compare(a.service, b.service) || order.compare(a.name, b.name);

export class Table {
  #rows = new Map(); // by ID
  #visible = [];
  #made = 0;
  #frame = 0;
  #linkTo;

  /** @param {(c: object) => string} linkTo the URL that shows a container */
  constructor(linkTo) {
    this.#linkTo = linkTo;
    $("rows").addEventListener("keydown", (e) => this.#key(e));
    $("rows").addEventListener("focusin", (e) => this.#focused(e.target));
    $("rows").addEventListener("click", (e) => {
      if (e.target.closest("a") || getSelection()?.toString()) return;
      e.target.closest("tr")?.querySelector("a")?.click();
    });
  }

  /** Draws these containers in this order. open is the ID of the one that is shown beside. */
  draw(containers, known, open) {
    for (const id of this.#rows.keys()) if (!known.has(id)) this.#rows.delete(id);
    this.#visible = containers;
    this.#open = open;
    this.#made = Math.max(firstSlice, Math.min(this.#made, containers.length));
    this.#fill();
  }

  #open = "";

  #fill() {
    const shown = this.#visible.slice(0, this.#made);
    arrange($("rows"), shown.map((c) => this.#row(c)));
    const rows = $("rows");
    if (rows.firstElementChild && !rows.querySelector('a[tabindex="0"]')) rows.querySelector("a").tabIndex = 0;
    cancelAnimationFrame(this.#frame);
    if (this.#made >= this.#visible.length) return;
    this.#frame = requestAnimationFrame(() => {
      this.#made += nextSlice;
      this.#fill();
    });
  }

  #row(c) {
    let row = this.#rows.get(c.id);
    if (!row) {
      row = newRow();
      this.#rows.set(c.id, row);
    }
    if (row.data !== c) row.update(c);
    const href = this.#linkTo(c);
    if (row.href !== href) row.name.setAttribute("href", (row.href = href));
    const open = c.id === this.#open;
    if (row.open !== open) {
      row.open = open;
      row.element.classList.toggle("open", open);
      if (open) row.name.setAttribute("aria-current", "true");
      else row.name.removeAttribute("aria-current");
    }
    return row.element;
  }

  /** Puts the focus on a container's row, if it is shown. */
  focus(id) {
    this.#rows.get(id)?.name.focus();
  }

  #key(event) {
    const at = event.target.closest("tr");
    if (!at || event.ctrlKey || event.metaKey || event.altKey) return;
    const to = {
      ArrowDown: () => at.nextElementSibling, ArrowUp: () => at.previousElementSibling,
      Home: () => at.parentElement.firstElementChild, End: () => at.parentElement.lastElementChild,
    }[event.key]?.();
    if (!to) return;
    event.preventDefault();
    to.querySelector("a").focus();
  }

  // One row is a stop of the Tab key; the arrow keys lead to the others.
  #focused(link) {
    if (!link.matches?.("a")) return;
    for (const other of $("rows").querySelectorAll('a[tabindex="0"]')) other.tabIndex = -1;
    link.tabIndex = 0;
  }
}

function newRow() {
  const cell = (name, ...children) => h("td", { role: "cell", class: name }, ...children);
  const name = h("a", { tabindex: "-1", "data-link": true });
  const parts = {
    mark: h("span", { class: "mark" }), state: h("span"), name, of: h("span", { class: "of" }), why: h("span", { class: "why" }),
    strip: strip(), restarts: h("span"), cause: h("span", { class: "of" }), since: ago(""),
  };
  const element = h("tr", { role: "row" }, cell("state", parts.mark, parts.state), cell("name", name, " ", parts.of, parts.why),
    cell("strip", parts.strip), cell("restarts", parts.restarts, " ", parts.cause), cell("since", parts.since));
  const row = { element, name, data: null, href: "", open: false, update };
  let look = "";

  function update(c) {
    row.data = c;
    if (look !== c.look) {
      look = c.look;
      parts.mark.replaceChildren(icon(look));
    }
    element.classList.toggle("problem", isProblem(c));
    setText(parts.state, word(c) + (c.held && c.reason !== "Held" ? ", held" : "") + (c.observe ? ", observed" : ""));
    setText(name, c.name);
    setText(parts.of, c.service && c.service !== c.name ? c.service : "");
    setText(parts.why, isProblem(c) ? why(c) : "");
    updateStrip(parts.strip, c.minutes);
    setText(parts.restarts, c.restarts ? c.restarts.toLocaleString("en") : "");
    element.classList.toggle("restarted", c.restarts > 0);
    setText(parts.cause, c.restarts && c.lastRestart ? cause(c.lastRestart, c.ended) : "");
    setAgo(parts.since, c.since);
  }
  return row;
}
