// The other hosts: those that share their containers over etcd, as this one knows them.

import { ago, arrange, clock, h, icon, setAgo, setText } from "./dom.js";

const shownHosts = 20;
const shownNotes = 12;
const $ = (id) => document.getElementById(id);

// The shapes of containers' states, so that no color alone says how a host is.
const looks = { live: "Ready", lost: "NotReady", left: "Stopped" };

const number = (n) => n.toLocaleString("en");
const total = (host) => host.ready + host.draining + host.down;
const known = (time) => (time && !time.startsWith("0001-") ? time : "");

/** Draws the fleet, or nothing where there is none. @param {import("./store.js").Fleet|null} fleet */
export function drawFleet(fleet) {
  $("fleet").hidden = !fleet;
  if (!fleet) return;
  const live = fleet.hosts.filter((x) => x.state === "live").length;
  const ready = fleet.hosts.reduce((n, x) => n + x.ready, 0);
  const all = fleet.hosts.reduce((n, x) => n + total(x), 0);
  setText($("fleet-summary"), `${number(live)} of ${number(fleet.hosts.length)} hosts live, ${number(ready)} of ${number(all)} members ready`);
  drawAway(fleet);
  drawHosts(fleet);
  drawNotes(fleet);
}

const away = ago("");

function drawAway(fleet) {
  $("fleet-away").hidden = fleet.connected;
  // The time stands beside the text: a screen reader would read it again each second.
  if (!away.isConnected) $("fleet-away").append(" ", away);
  setText($("fleet-away-text"), fleet.connected ? "" : `etcd cannot be reached${fleet.error ? `: ${fleet.error}` : ""}. Members of other hosts are shown as last known.`);
  setAgo(away, fleet.connected ? "" : known(fleet.since), "For ");
}

const hostElements = new Map(); // by name

function drawHosts(fleet) {
  const crowded = fleet.hosts.length > shownHosts; // what is well may be left out then
  const rank = (x) => (x.state === "lost" ? 0 : x.state === "left" ? 3 : crowded && x.ready < total(x) ? 1 : 2);
  const hosts = [...fleet.hosts].sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
  const shown = hosts.slice(0, shownHosts);
  const names = new Set(shown.map((x) => x.name));
  for (const name of hostElements.keys()) if (!names.has(name)) hostElements.delete(name);
  arrange($("fleet-hosts"), shown.map((x) => hostOf(x, x.name === fleet.host)));
  const more = hosts.length - shown.length;
  $("fleet-more").hidden = more === 0;
  setText($("fleet-more"), more ? `And ${number(more)} more: healthd status --fleet` : "");
}

function hostOf(host, own) {
  let e = hostElements.get(host.name);
  if (!e) {
    const parts = { mark: h("span", { class: "mark" }), state: h("span", { class: "state" }), since: ago(""), ratio: h("span", { class: "ratio" }) };
    const element = h("li", {}, parts.mark, h("span", { class: "who" }, host.name, own ? h("span", { class: "of" }, " this host") : null),
      h("span", { class: "rest" }, h("span", {}, parts.state, " ", parts.since), parts.ratio));
    e = { element, ...parts, shape: "" };
    hostElements.set(host.name, e);
  }
  const short = host.ready < total(host);
  e.element.className = ["live", "lost", "left"].includes(host.state) ? host.state : "left";
  e.ratio.className = short && host.ready === 0 ? "ratio bad" : short ? "ratio part" : "ratio";
  if (e.shape !== host.state) e.mark.replaceChildren(icon(looks[host.state] ?? "Unknown"));
  e.shape = host.state;
  setText(e.state, host.state);
  setAgo(e.since, known(host.since), "for ");
  setText(e.ratio, total(host) === 0 ? "no members" : `${number(host.ready)}/${number(total(host))} ready${host.draining ? `, ${number(host.draining)} draining` : ""}`);
  return e.element;
}

let notesDrawn = "";

function drawNotes(fleet) {
  const notes = fleet.problems.map((text) => ["warn", text]);
  if (fleet.wrongKeys) notes.push(["warn", `${number(fleet.wrongKeys)} ${fleet.wrongKeys === 1 ? "key" : "keys"} in etcd cannot be read: healthd leaves them alone.`]);
  for (const x of fleet.holds) {
    const since = known(x.since) ? ` since ${clock(x.since)}` : "";
    notes.push(["", `${x.service} is held on all hosts, by ${x.by}${since}${x.for ? ` for ${x.for}` : ", until a resume"}.`]);
  }
  const more = notes.length - shownNotes;
  if (more > 0) notes.splice(shownNotes, more, ["", `And ${number(more)} more: healthd status --fleet`]);
  const key = JSON.stringify(notes);
  if (key === notesDrawn) return;
  notesDrawn = key;
  $("fleet-notes").replaceChildren(...notes.map(([look, text]) => h("li", { class: look || null }, text)));
}
