// Lists of events.

import { arrange, clock, h } from "./dom.js";

const elements = new WeakMap(); // of events

const tones = {
  Unhealthy: "bad", Killing: "bad", BackOff: "bad", Exited: "bad", OOMKilled: "bad", Invalid: "bad", RuntimeLost: "bad", GaveUp: "bad",
  NotReady: "bad", JournalFailed: "bad", JournalDamaged: "bad", ReloadFailed: "bad", HAProxyError: "bad", HAProxyLost: "bad", DNSError: "bad",
  FleetLost: "bad", FleetHostLost: "bad", FleetError: "bad", FleetBack: "good", FleetHostBack: "good",
  ProbeWarning: "warn", Held: "warn", GroupLimit: "warn", RestartBudget: "warn", HostSuspect: "bad", WouldRestart: "warn", NetworkLost: "bad",
  Ready: "good", Started: "busy", RuntimeBack: "good", Resumed: "good", JournalBack: "good",
};

/**
 * Draws events, newest first.
 * @param {Element} list
 * @param {object[]} events
 * @param {((container: string) => string)|null} linkTo the URL of a container; null: do not name it
 */
export function drawEvents(list, events, linkTo) {
  arrange(list, events.map((e) => elementOf(e, linkTo)));
}

function elementOf(e, linkTo) {
  let element = elements.get(e);
  if (!element) {
    const who = linkTo ? (e.container ? h("a", { class: "who", href: linkTo(e.container), "data-link": true }, e.container) : h("span", { class: "who" }, "healthd")) : null;
    const times = e.count ? h("span", { class: "times", title: `since ${clock(e.first)}` }, `${e.count.toLocaleString("en")} times`) : null;
    element = h("li", {}, h("time", { datetime: e.time }, clock(e.time)), h("span", { class: `reason ${tones[e.reason] ?? "off"}` }, e.reason), who, h("span", { class: "message" }, e.message, times && " ", times));
    elements.set(e, element);
  }
  return element;
}
