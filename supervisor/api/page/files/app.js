// Wires the page: the URL says what is shown, the store has the data, the views draw it.

import { clock, h, setText, tick } from "./dom.js";
import { Detail } from "./detail.js";
import { drawEvents } from "./events.js";
import { drawFleet } from "./fleet.js";
import { Store } from "./store.js";
import { drawHeadline, drawProblems, drawServices, drawWarnings, servicesOf } from "./summary.js";
import { inOrder, Table } from "./table.js";
import { isProblem, word, words } from "./words.js";

const $ = (id) => document.getElementById(id);
const drawnEvents = 300;
const store = new Store();
const table = new Table(linkTo);
const detail = new Detail(close);
const narrow = matchMedia("(max-width: 1099px)");
const filters = { "": "All", problems: "Problems", unready: "Not ready", restarted: "Restarted" };

// What the URL says.
let place = read();

function read() {
  const p = new URLSearchParams(location.search);
  return { q: p.get("q") ?? "", show: p.get("show") ?? "", project: p.get("project"), view: p.get("view") ?? "", c: p.get("c") ?? "" };
}

/** The URL of what is shown now, but for some changes. */
function link(changes) {
  const p = new URLSearchParams();
  for (const [key, value] of Object.entries({ ...place, c: "", ...changes })) if (value || (key === "project" && value === "")) p.set(key, value);
  const query = p.toString();
  return query ? `/?${query}` : "/";
}

/** The URL that shows a container, or one of that name, beside what is shown now. */
function linkTo(container) {
  let name = container;
  if (typeof container !== "string") name = unique.get(container.name) === container.id ? container.name : `id:${container.id}`;
  const here = link({}); // without one: it comes last
  return `${here}${here === "/" ? "?" : "&"}c=${encodeURIComponent(name)}`;
}

let unique = new Map(); // from names that one container has to its ID

function go(url, replace = false) {
  if (url === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", url);
  arrive();
}

function arrive() {
  const before = place;
  place = read();
  if ($("q").value.trim() !== place.q) $("q").value = place.q;
  draw();
  if (place.view !== before.view) scrollTo(0, 0);
  if (place.c && place.c !== before.c) detail.focus();
  if (!place.c && before.c) {
    const c = find(before.c);
    if (c) table.focus(c.id);
  }
}

function close() {
  go(link({ c: "" }));
}

function find(name) {
  const id = name.startsWith("id:") ? name.slice(3) : unique.get(name);
  return store.containers.get(id) ?? [...store.containers.values()].find((c) => c.name === name);
}

// What is drawn.

let frame = 0;

function drawSoon() {
  if (frame) return;
  const run = () => { frame = 0; draw(); };
  // A tab in the background draws no frames, but has a title.
  frame = document.hidden ? setTimeout(run, 100) : requestAnimationFrame(run);
}

function draw() {
  document.querySelectorAll("nav a").forEach((a) => {
    const current = a.dataset.view === place.view;
    if (current) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  });
  const onEvents = place.view === "events";
  $("events").hidden = !onEvents;
  $("containers").hidden = onEvents;
  const filtered = Boolean(place.q || place.show || place.project !== null);
  if (!store.loaded) return;
  const all = [...store.containers.values()].sort(inOrder);
  unique = uniqueNames(all);
  const services = servicesOf(all);
  const warnings = store.warnings.filter((w) => !w.startsWith("fleet: ")); // those stand in the fleet's place
  drawHeadline(all, services, warnings, place.show, (changes) => link({ view: "", ...changes }));
  drawProblems(all, link, linkTo);
  drawServices(services, (s) => (s.members.length === 1 ? linkTo(s.members[0]) : link({ q: s.name })), draw);
  drawWarnings(warnings);
  drawFleet(store.fleet);
  if (filtered || onEvents) $("problems").hidden = $("fleet").hidden = $("services").hidden = true;
  if (onEvents) drawEventView();
  else drawTable(all);
  drawDetail();
  performance.mark("drawn");
}

function uniqueNames(all) {
  const names = new Map();
  for (const c of all) names.set(c.name, names.has(c.name) ? "" : c.id);
  return names;
}

const wordsOf = (q) => q.toLowerCase().split(/\s+/).filter(Boolean);

function matches(c, wanted) {
  if (wanted.length === 0) return true;
  const text = [c.name, c.project, c.service, c.image, word(c), c.reason ?? "", c.id].join(" ").toLowerCase();
  return wanted.every((w) => text.includes(w));
}

const shows = new Map([
  ["problems", isProblem],
  ["unready", (c) => !c.ready],
  ["restarted", (c) => c.restarts > 0],
  ...Object.keys(words).map((look) => [look, (c) => c.look === look]),
]);

function drawTable(all) {
  const wanted = wordsOf(place.q);
  const show = shows.get(place.show) ?? (() => true);
  const found = all.filter((c) => (place.project === null || c.project === place.project) && matches(c, wanted));
  const visible = found.filter(show);
  table.draw(visible, store.containers, place.c ? find(place.c)?.id ?? "" : "");
  drawFilters(found);
  drawProjects(all);
  $("empty").hidden = visible.length > 0;
  $("table").hidden = visible.length === 0;
  setText($("empty"), all.length === 0 ? "healthd supervises no container. Write a spec that matches some, or give them labels: healthd.liveness.http_get.port=8080." :
    visible.length === 0 ? (place.show === "problems" && !place.q ? "Nothing needs attention." : "No container matches.") : "");
}

function drawFilters(found) {
  for (const a of $("filters").children) {
    const key = a.dataset.show;
    a.setAttribute("href", link({ show: key }));
    if (key === place.show) a.setAttribute("aria-current", "true");
    else a.removeAttribute("aria-current");
    setText(a.lastElementChild, (key ? found.filter(shows.get(key)) : found).length.toLocaleString("en"));
  }
}

let projectsDrawn = "";

function drawProjects(all) {
  const select = $("project");
  const names = [...new Set(all.map((c) => c.project))].sort();
  const key = JSON.stringify([names, place.project]);
  if (key === projectsDrawn) return;
  projectsDrawn = key;
  const option = (value, text, selected) => h("option", { value, selected }, text);
  select.replaceChildren(option("*", "All projects", place.project === null), ...names.map((n) => option(`=${n}`, n || "No project", place.project === n)));
  select.parentElement.hidden = names.length < 2;
}

function drawEventView() {
  const wanted = wordsOf(place.q);
  const found = store.events.filter((e) => wanted.every((w) => `${e.container} ${e.reason} ${e.message}`.toLowerCase().includes(w))).slice(0, drawnEvents);
  drawEvents($("event-list"), found, linkTo);
  $("no-events").hidden = found.length > 0;
  setText($("no-events"), found.length ? "" : place.q ? "No event matches." : "Nothing has happened yet.");
}

function drawDetail() {
  if (place.c) detail.show(find(place.c), place.c);
  else detail.hide();
  document.body.classList.toggle("beside", Boolean(place.c));
  document.querySelector("main").inert = Boolean(place.c) && narrow.matches;
}

function drawConnection() {
  const lost = store.connection === "lost";
  const element = $("connection");
  element.className = store.connection;
  setText(element, { connecting: "Connecting", live: "Live", lost: "Connection lost" }[store.connection]);
  document.body.classList.toggle("stale", lost && store.loaded);
  const notice = $("lost");
  notice.hidden = !lost;
  if (!lost) return;
  const asOf = store.loaded ? `Shown is how it was at ${clock(store.asOf)}.` : "Nothing is known yet.";
  setText(notice, `The connection to healthd is lost. ${asOf} This page tries again by itself.`);
}

// What people do.

document.addEventListener("click", (e) => {
  const a = e.target.closest("a[data-link]");
  if (!a || e.defaultPrevented || e.button !== 0 || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey) return;
  e.preventDefault();
  const search = a.closest("#services, #counts") !== null;
  go(a.getAttribute("href"));
  if (search && !place.c) $("containers").scrollIntoView({ block: "nearest" });
});

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const typing = e.target.matches?.("input, select, textarea");
  if (e.key === "/" && !typing) {
    e.preventDefault();
    $("q").focus();
    $("q").select();
  } else if (e.key === "Escape" && typing && $("q").value) {
    $("q").value = "";
    go(link({ q: "", c: place.c }), true);
  } else if (e.key === "Escape" && place.c) {
    close();
  } else if (e.key === "ArrowDown" && e.target === $("q")) {
    e.preventDefault();
    $("rows").querySelector('a[tabindex="0"]')?.focus();
  }
});

$("q").addEventListener("input", () => go(link({ q: $("q").value.trim(), c: place.c }), true));
$("project").addEventListener("change", () => {
  const value = $("project").value;
  go(link({ project: value === "*" ? null : value.slice(1) }));
});
addEventListener("popstate", arrive);
narrow.addEventListener("change", drawSoon);

$("filters").append(...Object.entries(filters).map(([key, name]) => h("a", { "data-link": true, "data-show": key }, name, " ", h("span"))));
$("q").value = place.q;
store.addEventListener("containers", drawSoon);
store.addEventListener("events", drawSoon);
store.addEventListener("fleet", drawSoon);
store.addEventListener("heard", (e) => {
  if (place.view === "events") drawSoon();
  const c = place.c && find(place.c);
  if (c && e.detail.container === c.name) detail.refresh();
});
store.addEventListener("connection", drawConnection);
setInterval(() => {
  if (document.hidden) return;
  tick();
  if ([...store.containers.values()].some((c) => c.until)) drawSoon(); // it says when the next start is
}, 1000);
draw();
store.start();
