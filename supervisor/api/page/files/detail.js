// One container beside the list: why it is as it is, its last hour, what happens next, its probes and events.

import { ago, clock, h, icon, latency, now, duration, setAgo, setText } from "./dom.js";
import { drawEvents } from "./events.js";
import { get } from "./store.js";
import { changeWords, drawTimeline } from "./timeline.js";
import { count, isProblem, recordCause, severity, why, word } from "./words.js";

const refreshEvery = 5000; // of latencies and last outputs, which no event tells
const shownEvents = 50;
const shownChanges = 12;
const shownRecords = 5;

export class Detail {
  #aside = document.getElementById("detail");
  #container = null; // the glance
  #parts = null;
  #timeline = null;
  #records = "";
  #busy = false;
  #again = false;
  #onclose;

  /** @param {() => void} onclose called when somebody closes it */
  constructor(onclose) {
    this.#onclose = onclose;
    setInterval(() => document.hidden || this.refresh(), refreshEvery);
    new ResizeObserver(() => this.#draw()).observe(this.#aside);
  }

  /** Shows a container, as the list has it; again, when the list has something new of it. */
  show(c, wanted) {
    this.#aside.hidden = false;
    if (!c) return this.#missing(wanted);
    const other = this.#container?.id !== c.id;
    const changed = this.#container !== c;
    this.#container = c;
    if (other) this.#begin();
    this.#head();
    if (changed) this.refresh();
    return undefined;
  }

  hide() {
    this.#aside.hidden = true;
    this.#container = this.#parts = this.#timeline = null;
    this.#aside.replaceChildren();
  }

  focus() {
    this.#aside.focus({ preventScroll: false });
    this.#aside.scrollTop = 0;
  }

  #missing(name) {
    this.#container = this.#parts = null;
    this.#aside.className = "off";
    this.#aside.replaceChildren(this.#close(), h("h2", { id: "detail-name" }, name), h("p", { class: "why" }, "healthd supervises no container of this name. It may be gone, or never have been there."));
  }

  #close() {
    return h("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => this.#onclose() }, "✕");
  }

  #begin() {
    const p = {
      mark: h("span", { class: "mark" }), name: h("h2", { id: "detail-name" }), state: h("span", { class: "state" }), since: ago(""), facts: h("p", { class: "facts" }),
      why: h("p", { class: "why" }), chart: h("div", { class: "chart" }), next: h("ul", { class: "next" }), notes: h("ul", { class: "notes" }),
      probes: h("div", { class: "probes" }), changes: h("ol", { class: "changes" }), events: h("ol", { class: "events" }), none: h("p", { class: "muted" }), gates: h("ul", { class: "notes" }),
      records: h("ol", { class: "records" }), moreRecords: h("p", { class: "legend" }),
    };
    this.#parts = p;
    this.#timeline = null;
    this.#records = "";
    p.recorded = h("section", { hidden: true }, h("h3", {}, "Flight records"), h("p", { class: "legend" }, "What it was doing when it failed. They may hold secrets, so they are seen on the host only:"), p.records, p.moreRecords);
    const section = (title, ...content) => h("section", {}, h("h3", {}, title), ...content);
    this.#aside.replaceChildren(
      h("header", {}, this.#close(), p.mark, h("div", {}, p.name, h("p", {}, p.state, " ", p.since))), p.why, p.facts, p.gates,
      section("Last hour", p.chart, h("p", { class: "legend" }, "Each bar is a minute: results above, the longest answer below. ▼ is a restart.")), section("What happens next", p.next, p.notes), section("Probes", p.probes), section("Restarts and changes", p.changes), p.recorded, section("Events", p.events, p.none));
  }

  #head() {
    const [c, p] = [this.#container, this.#parts];
    this.#aside.className = ["good", "busy", "warn", "bad"][severity(c)];
    p.mark.replaceChildren(icon(c.look));
    setText(p.name, c.name);
    setText(p.state, word(c) + (c.held && c.reason !== "Held" ? ", held" : ""));
    setAgo(p.since, c.since, "for ");
    setText(p.why, why(c));
    p.why.hidden = !p.why.textContent;
    p.why.classList.toggle("problem", isProblem(c));
  }

  /** Asks for the rest. What is asked for meanwhile is asked for once, afterwards. */
  async refresh() {
    const c = this.#container;
    if (!c) return;
    if (this.#busy) {
      this.#again = true;
      return;
    }
    this.#busy = true;
    try {
      const name = encodeURIComponent(`id:${c.id}`);
      const [timeline, events] = await Promise.all([get(`/v1/containers/${name}/timeline`), get(`/v1/events?container=${name}&n=${shownEvents}`)]);
      if (this.#container?.id === c.id) this.#update(timeline, events);
    } catch {
      // The container has gone, or healthd: the list says so.
    }
    this.#busy = false;
    if (this.#again || (this.#container && this.#container.id !== c.id)) {
      this.#again = false;
      this.refresh();
    }
  }

  #update(t, events) {
    const selection = getSelection();
    if (selection && !selection.isCollapsed && this.#aside.contains(selection.anchorNode)) return; // somebody copies something
    const p = this.#parts;
    this.#timeline = t;
    this.#draw();
    const s = t.status;
    p.facts.replaceChildren(...facts(s));
    p.gates.replaceChildren(...s.warnings.map((w) => h("li", { class: "warn" }, w)));
    p.next.replaceChildren(...t.next.map((n) => h("li", {}, n.at ? h("b", {}, nextTime(n.at)) : null, n.at ? " " : null, n.what)));
    p.notes.replaceChildren(...t.notes.map((n) => h("li", {}, n)));
    const probes = Object.entries(s.probes);
    if (!p.probes.contains(document.activeElement)) p.probes.replaceChildren(...(probes.length ? probes.map(([name, probe]) => probeOf(name, probe, t.probes[name])) : [h("p", { class: "muted" }, "It has no probes.")]));
    const changes = changeWords(t.changes).slice(0, shownChanges);
    p.changes.replaceChildren(...changes.map((c) => h("li", { class: c.restart ? "restart" : null }, h("time", { datetime: c.at }, clock(c.at)), icon(c.look), h("span", {}, c.text))));
    this.#drawRecords(t.records);
    drawEvents(p.events, events.reverse(), null);
    setText(p.none, events.length ? "" : "No events are kept of it.");
  }

  /** Draws them only if they are others: who is about to copy a command keeps the button. */
  #drawRecords(records) {
    const key = JSON.stringify(records);
    if (key === this.#records) return;
    this.#records = key;
    const p = this.#parts;
    p.recorded.hidden = records.length === 0;
    p.records.replaceChildren(...records.slice(0, shownRecords).map(recordOf));
    const more = records.length - shownRecords;
    setText(p.moreRecords, more > 0 ? `${count(more, "older one")}: each of these commands lists them.` : "");
  }

  #draw() {
    if (!this.#timeline || !this.#parts) return;
    const width = Math.floor(this.#parts.chart.clientWidth);
    if (width > 0) this.#parts.chart.replaceChildren(drawTimeline(this.#timeline, width));
  }
}

function nextTime(at) {
  const left = Date.parse(at) - now();
  return left > 500 ? `in ${duration(left)}:` : "now:";
}

/** What somebody needs to know to go on: names, places, policies. */
function facts(s) {
  const pairs = [
    ["service", s.service], ["image", s.image], ["address", s.address], ["spec", s.spec],
    ["restarts", s.restartCount ? `${s.restartCount}, policy ${s.restartPolicy}` : s.restartPolicy ? `none, policy ${s.restartPolicy}` : ""],
    ["engine", s.namespace ? `${s.runtime}, ${s.namespace}` : s.runtime], ["id", s.id.slice(0, 12)],
    ["held", s.held ? (s.heldUntil ? `until ${clock(s.heldUntil)}` : "until somebody resumes it") : ""],
    ...s.conditions.slice(3).map((c) => [`gate ${c.type}`, c.status === "True" ? "True" : c.message || c.status]),
  ];
  return pairs.filter(([, value]) => value).map(([key, value]) => h("span", {}, h("b", {}, key), ` ${value}`));
}

function probeOf(name, s, t) {
  const asked = Boolean(s.lastProbeTime);
  const failed = s.outcome === "Failure";
  const noun = failed ? "failure" : "success";
  const parts = [
    !asked ? "not asked yet in this run" : s.outcome === "Unknown" ? `Unknown${s.run > 1 ? ` ${s.run} times in a row` : ""}${s.since ? `, since ${clock(s.since)}` : ""}` : `${count(s.run, noun)} in a row`,
    failed && s.run < s.threshold ? `${s.threshold} make it fail` : "",
    s.onHold ? "done for this run" : "",
    asked ? `last at ${clock(s.lastProbeTime)}${s.latencySeconds ? ` in ${latency(s.latencySeconds)}` : ""}` : "",
    t && !failed ? `fails\u00a0after\u00a0${t.failureThreshold}` : "",
  ];
  const text = parts.filter(Boolean).join(" · ");
  return h("div", { class: "probe" }, h("p", {}, icon(!asked ? "Starting" : s.outcome === "Unknown" ? "Unknown" : failed ? "NotReady" : "Ready"), h("b", {}, name), h("span", {}, text)),
    s.output ? h("pre", { tabindex: "0", role: "group", "aria-label": `Output of the ${name} probe` }, s.output) : null);
}

/** A flight record, by the command that shows it. */
function recordOf(r) {
  return h("li", {}, h("time", { datetime: r.time }, clock(r.time)), h("span", {}, `run ${r.run}: ${recordCause(r.cause)}`), h("code", {}, r.command), copier(r.command));
}

/** A button that copies a text; none where the browser lets no page do that. */
function copier(text) {
  if (!navigator.clipboard) return null;
  const button = h("button", { type: "button", "aria-label": `Copy ${text}`, onclick: () => navigator.clipboard.writeText(text).then(() => said("Copied"), () => said("Not copied")) }, "Copy");
  const said = (word) => {
    setText(button, word);
    setTimeout(() => setText(button, "Copy"), 2000);
  };
  return button;
}
