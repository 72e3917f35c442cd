// What is wrong: the headline, the counts, the problems and the services.

import { arrange, h, icon, iconPaths, setAgo, setText, svg, ago } from "./dom.js";
import { headline, isDown, isProblem, severity, why, word, words } from "./words.js";
import { strip, updateStrip } from "./timeline.js";

const shownProblems = 8;
const shownWarnings = 5;
const shownServices = 60; // more are shown when somebody wants to see them
const $ = (id) => document.getElementById(id);

/** Groups containers by service. Those without one are not there. */
export function servicesOf(containers) {
  const byName = new Map();
  for (const c of containers) {
    if (!c.service) continue;
    const s = byName.get(c.service) ?? { name: c.service, project: c.project, members: [] };
    s.members.push(c);
    byName.set(c.service, s);
  }
  return [...byName.values()];
}

/** Draws the headline, and says by title and icon how things are to those who look at another tab. */
export function drawHeadline(containers, services, warnings, show, link) {
  const { text, tone } = headline(containers, services, warnings.length);
  setText($("headline"), text);
  $("summary").className = tone;
  const problems = containers.filter(isProblem).length;
  document.title = problems ? `(${problems}) ${text} – healthd` : `${text} – healthd`;
  const image = tone === "bad" ? "/page/icon-trouble.svg" : "/page/icon.svg";
  if ($("icon").getAttribute("href") !== image) $("icon").setAttribute("href", image);
  const counts = new Map();
  for (const c of containers) counts.set(c.look, (counts.get(c.look) ?? 0) + 1);
  arrange($("counts"), Object.keys(words).filter((l) => counts.has(l)).map((l) => countOf(l, counts.get(l), show === l, link)));
}

let warningsDrawn = "";

/** Draws what healthd warns of that is about no single container. */
export function drawWarnings(warnings) {
  const own = [...warnings];
  const more = own.length - shownWarnings;
  if (more > 0) own.splice(shownWarnings, more, `And ${more.toLocaleString("en")} more: healthd status`);
  const key = JSON.stringify(own);
  if (key === warningsDrawn) return;
  warningsDrawn = key;
  $("warnings").replaceChildren(...own.map((w) => h("li", { class: "warn" }, w)));
}

const countElements = new Map();

function countOf(look, n, current, link) {
  let element = countElements.get(look);
  if (!element) {
    const anchor = h("a", { "data-link": true }, icon(look), h("b"), words[look].toLowerCase());
    element = h("li", {}, anchor);
    countElements.set(look, element);
  }
  const anchor = element.firstElementChild;
  anchor.setAttribute("href", link({ show: current ? "" : look }));
  if (current) anchor.setAttribute("aria-current", "true");
  else anchor.removeAttribute("aria-current");
  setText(anchor.querySelector("b"), n.toLocaleString("en"));
  return element;
}

const problemElements = new Map(); // by ID

/** Draws the worst problems: those that began last come first among equals. */
export function drawProblems(containers, link, linkTo) {
  const problems = containers.filter(isProblem).sort((a, b) => severity(b) - severity(a) || (b.since ?? "").localeCompare(a.since ?? "") || a.name.localeCompare(b.name));
  const shown = problems.slice(0, shownProblems);
  const ids = new Set(shown.map((c) => c.id));
  for (const id of problemElements.keys()) if (!ids.has(id)) problemElements.delete(id);
  arrange($("problem-list"), shown.map((c) => problemOf(c, linkTo)));
  $("problems").hidden = problems.length === 0;
  const more = $("problem-more");
  more.hidden = problems.length <= shownProblems;
  const all = more.firstElementChild ?? more.appendChild(h("a", { "data-link": true }));
  all.setAttribute("href", link({ show: "problems" }));
  setText(all, `All ${problems.length.toLocaleString("en")} problems`);
}

function problemOf(c, linkTo) {
  let p = problemElements.get(c.id);
  if (!p) {
    const name = h("a", { class: "name", "data-link": true });
    const parts = { mark: h("span", { class: "mark" }), state: h("span", { class: "state" }), name, of: h("span", { class: "of" }), why: h("p", { class: "why" }), since: ago(""), strip: strip() };
    const element = h("li", {}, parts.mark, h("div", { class: "what" }, h("h3", {}, name, " ", parts.state, " ", parts.of), parts.why), h("div", { class: "past" }, parts.strip, h("span", {}, parts.since)));
    p = { element, ...parts, look: "" };
    problemElements.set(c.id, p);
  }
  p.element.className = severity(c) === 3 ? "bad" : "warn";
  if (p.look !== c.look) p.mark.replaceChildren(icon(severity(c) === 3 || c.look === "Unknown" ? c.look : "NotReady"));
  p.look = c.look;
  setText(p.name, c.name);
  p.name.setAttribute("href", linkTo(c));
  setText(p.state, (c.look === "Ready" ? "Ready, but not well" : word(c)) + (c.held && c.reason !== "Held" ? ", held" : ""));
  setText(p.of, c.service && c.service !== c.name ? c.service : "");
  setText(p.why, why(c));
  setAgo(p.since, c.since, "for ");
  updateStrip(p.strip, c.minutes);
  return p.element;
}

const serviceElements = new Map(); // by name
const projectElements = new Map();
const more = h("button", { type: "button", class: "more" });
let allServices = false;

/** Draws a square for each member of each service, by project. */
export function drawServices(services, linkOf, redraw) {
  const worst = (s) => Math.max(...s.members.map(severity));
  let shown = services;
  const tooMany = services.length > shownServices && !allServices;
  if (tooMany) shown = services.filter((s) => worst(s) > 0).slice(0, shownServices);
  const projects = Map.groupBy ? Map.groupBy(shown, (s) => s.project) : groupBy(shown, (s) => s.project);
  const names = [...projects.keys()].sort((a, b) => a.localeCompare(b));
  const rows = names.map((project) => {
    const list = projects.get(project).sort((a, b) => a.name.localeCompare(b.name)).map((s) => serviceOf(s, linkOf));
    const row = projectElements.get(project) ?? h("div", { class: "row" }, h("h3", {}, project || "No project"), h("ul"));
    projectElements.set(project, row);
    arrange(row.lastElementChild, list);
    return row;
  });
  const known = new Set(services.map((s) => s.name));
  for (const name of serviceElements.keys()) if (!known.has(name)) serviceElements.delete(name);
  for (const project of projectElements.keys()) if (!projects.has(project)) projectElements.delete(project);
  if (services.length > shownServices) {
    const rest = services.length - shown.length;
    setText(more, tooMany ? `Show ${shown.length ? `the other ${rest.toLocaleString("en")}` : `all ${rest.toLocaleString("en")}`} services, in which nothing is wrong` : "Show only services with trouble");
    more.onclick = () => { allServices = !allServices; redraw(); };
    rows.push(more);
  }
  arrange($("service-list"), rows);
  $("services").hidden = services.length === 0;
}

function groupBy(list, key) {
  const groups = new Map();
  for (const x of list) groups.set(key(x), [...(groups.get(key(x)) ?? []), x]);
  return groups;
}

function serviceOf(s, linkOf) {
  const ready = s.members.filter((c) => c.ready).length;
  const looks = s.members.map((c) => c.look).join();
  let e = serviceElements.get(s.name);
  const down = isDown(s.members);
  if (!e || e.looks !== looks || e.down !== down) {
    const width = 16 * Math.min(s.members.length, 24);
    const squares = svg("svg", { class: "members", viewBox: `0 0 ${width} 16`, width, height: 16, "aria-hidden": "true" },
      ...s.members.slice(0, 24).flatMap((c, i) => iconPaths(c.look, 16 * i)));
    const name = s.project && s.name.startsWith(`${s.project}/`) ? s.name.slice(s.project.length + 1) : s.name;
    const anchor = h("a", { "data-link": true, class: down ? "bad" : ready < s.members.length ? "part" : null },
      h("span", { class: "name" }, name), squares, h("span", { class: "ratio" }, `${ready}/${s.members.length}`, h("span", { class: "hidden" }, down ? " ready: down" : " ready")));
    e = { element: h("li", {}, anchor), anchor, looks, down };
    serviceElements.set(s.name, e);
  }
  e.anchor.setAttribute("href", linkOf(s));
  return e.element;
}
