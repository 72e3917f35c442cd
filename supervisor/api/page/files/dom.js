// Elements, icons and times. Whatever comes from a container goes into texts and attributes: there is no markup
// anywhere in these files.

/**
 * Makes an element. Attributes of the value null or false are left out; a function is a listener of "on…".
 * @param {string} name
 * @param {Object<string, any>} [attributes]
 * @param {...(Node|string|null)} children
 * @returns {HTMLElement}
 */
export function h(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same for SVG. @returns {SVGElement} */
export function svg(name, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.filter((c) => c !== null && c !== undefined));
  return element;
}

/** Sets a text only if it is another one: screen readers read what is written again. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Brings children into this order and moves as few as possible, so that the focus stays where it is. */
export function arrange(parent, children) {
  const wanted = new Set(children);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  let at = parent.firstElementChild;
  for (const child of children) {
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
  }
}

// Each state has a shape of its own beside its color.
const shapes = {
  Ready: ["M2 2h12v12H2z", ""],
  Starting: ["", "M3 3h10v10H3z M3 8h10"],
  NotReady: ["M8 1 15 14.5H1z", ""],
  Draining: ["M1.5 2h13L8 14.5z", ""],
  Paused: ["M3 2h3.5v12H3z M9.5 2H13v12H9.5z", ""],
  Waiting: ["M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1z", ""],
  Stopped: ["", "M3 3h10v10H3z"],
  Unknown: ["", "M8 2 14 8 8 14 2 8z"],
  Invalid: ["M5 1h6l4 4v6l-4 4H5l-4-4V5z", ""],
};

/** The paths of a state's icon, of 16 by 16, moved right by x. */
export function iconPaths(look, x = 0) {
  const [solid, line] = shapes[look] ?? shapes.Unknown;
  const at = x ? { transform: `translate(${x} 0)` } : {};
  return [
    ...(solid ? [svg("path", { d: solid, class: `fill ${tone(look)}`, ...at })] : []),
    ...(line ? [svg("path", { d: line, class: `line ${tone(look)}`, ...at })] : []),
  ];
}

/** The icon of a state. The word for it stands beside. */
export function icon(look) {
  return svg("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, ...iconPaths(look));
}

const tones = { Ready: "good", Starting: "busy", NotReady: "bad", Draining: "busy", Paused: "off", Waiting: "bad", Stopped: "off", Unknown: "warn", Invalid: "bad" };

/** The color of a state. */
export function tone(look) {
  return tones[look] ?? "off";
}

/** How long, in at most two units: "3 d 4 h", "12 s". @param {number} ms */
export function duration(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return m < 10 && s % 60 ? `${m} min ${s % 60} s` : `${m} min`;
  const hours = Math.floor(m / 60);
  if (hours < 24) return m % 60 ? `${hours} h ${m % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return hours % 24 && days < 10 ? `${days} d ${hours % 24} h` : `${days} d`;
}

/** A latency with two digits that count. */
export function latency(seconds) {
  if (!seconds) return "";
  const ms = seconds * 1000;
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
}

const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const shortFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** 14:03:12, with the day if it is another one. */
export function clock(time) {
  const t = new Date(time);
  const text = clockFormat.format(t);
  return t.toDateString() === new Date().toDateString() ? text : `${dayFormat.format(t)} ${text}`;
}

/** 14:03 */
export const shortClock = (time) => shortFormat.format(new Date(time));

let skew = 0;

/** Notes what healthd's clock says. Less than 2 s are the time that the answer took. */
export function noteClock(date) {
  const other = Date.parse(date ?? "") - Date.now();
  skew = Math.abs(other) > 2000 ? other : 0;
}

/** The time by healthd's clock. */
export const now = () => Date.now() + skew;

/** An element with how long ago a time was, kept up to date by tick. */
export function ago(time) {
  const element = h("time", { class: "ago" });
  setAgo(element, time);
  return element;
}

/** Sets it anew; before stands before it. */
export function setAgo(element, time, before = "") {
  if (!time) {
    element.removeAttribute("datetime");
    setText(element, "");
    return;
  }
  if (element.getAttribute("datetime") !== time) {
    element.setAttribute("datetime", time);
    element.title = `since ${clock(time)}`;
    element.ms = Date.parse(time);
  }
  element.lead = before;
  setText(element, before + duration(now() - element.ms));
}

/** Brings all times on the screen up to date. */
export function tick() {
  for (const element of document.querySelectorAll("time.ago[datetime]")) {
    setText(element, element.lead + duration(now() - element.ms));
  }
}
