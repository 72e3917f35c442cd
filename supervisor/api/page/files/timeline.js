// The last hour, drawn: a strip of minutes for each row, and the timeline of one container.
//
// What is well is low and what is not is high, so that trouble shows without its color.

import { clock, duration, latency, setText, shortClock, svg } from "./dom.js";
import { cause, ending, stripWords, words } from "./words.js";

const looks = { r: "Ready", s: "Starting", n: "NotReady", d: "Draining", p: "Paused", w: "Waiting", x: "Stopped", u: "Unknown", i: "Invalid" };
const tones = { Ready: "good", Starting: "busy", NotReady: "bad", Draining: "busy", Paused: "off", Waiting: "bad", Stopped: "off", Unknown: "warn", Invalid: "bad", None: "none" };

/** An empty strip of 60 minutes. */
export function strip() {
  return svg("svg", { class: "hour", viewBox: "0 0 60 14", preserveAspectRatio: "none", role: "img", "aria-label": "Last hour" });
}

/** Draws minutes into a strip. @param {SVGElement & {minutes?: string}} element @param {string} minutes */
export function updateStrip(element, minutes) {
  if (element.minutes === minutes) return;
  element.minutes = minutes;
  element.setAttribute("aria-label", stripWords(minutes));
  const paths = new Map();
  const add = (name, d) => paths.set(name, (paths.get(name) ?? "") + d);
  // Minutes that are alike are one shape: most strips have one or two.
  for (let i = 0; i < minutes.length; ) {
    const look = looks[minutes[i].toLowerCase()];
    let n = 1;
    while (i + n < minutes.length && minutes[i + n] === minutes[i]) n++;
    if (minutes[i] !== minutes[i].toLowerCase()) for (let k = 0; k < n; k++) add("restart", `M${i + k} 0h1v3h-1z`);
    if (!look) add("none", `M${i} 12h${n}v2h-${n}z`);
    else if (look === "Ready") add("good", `M${i} 8h${n}v6h-${n}z`);
    else add(tones[look], `M${i} 4h${n}v10h-${n}z`);
    i += n;
  }
  element.replaceChildren(...[...paths].map(([name, d]) => svg("path", { class: name, d })));
}

const minute = 60_000;
const gap = 20; // between two lanes
const stateHeight = 22;
const outcomeHeight = 12;
const latencyHeight = 30;

/**
 * Draws the timeline of a container, so many pixels wide.
 * @param {object} t an answer of /v1/containers/NAME/timeline
 * @param {number} width
 */
export function drawTimeline(t, width) {
  const start = Date.parse(t.start);
  const end = Date.parse(t.now);
  const x = (time) => Math.round((Math.max(0, Math.min(1, (time - start) / (end - start))) * width) * 10) / 10;
  const parts = [];
  let y = 0;
  const restarts = t.changes.filter((c) => c.restart && Date.parse(c.at) >= start);
  parts.push(label("Runs and readiness", 0, y + 11), label(readyShare(t.minutes), width, y + 11, "end"));
  y += 18 + (restarts.length ? 14 : 0);
  parts.push(...states(t, start, x, y));
  const top = y;
  y += stateHeight + gap;
  for (const name of ["startup", "liveness", "readiness"]) {
    if (!t.probes[name]) continue;
    parts.push(...probeLane(name, t.probes[name], start, x, y, width));
    y += 16 + outcomeHeight + 4 + latencyHeight + gap;
  }
  const bottom = y - gap + 4;
  parts.push(...restartMarks(t.changes, restarts, x, top, bottom), ...axis(start, end, x, bottom, width));
  return svg("svg", { class: "timeline", width, height: bottom + 18, viewBox: `0 0 ${width} ${bottom + 18}`, role: "img", "aria-label": summary(t, restarts) },
    ...parts.filter((p) => p.localName !== "text"), ...parts.filter((p) => p.localName === "text")); // no line goes through a text
}

function label(text, x, y, anchor = "start", name = "lane") {
  const element = svg("text", { x, y, class: name, "text-anchor": anchor });
  setText(element, text);
  return element;
}

function titled(element, text) {
  const title = svg("title");
  setText(title, text);
  element.append(title);
  return element;
}

function readyShare(minutes) {
  const known = [...minutes].filter((m) => m !== "-").length;
  const ready = [...minutes].filter((m) => m === "r" || m === "R").length;
  return known ? `ready in ${ready} of ${known} min` : "";
}

// The changes are exact. Where there were more than healthd keeps, the minutes before are as good as it gets.
function states(t, start, x, y) {
  const spans = [];
  const since = Date.parse(t.since);
  const first = t.changes.length ? Date.parse(t.changes[0].at) : Infinity;
  for (let i = 0; i < t.minutes.length; i++) {
    const from = start + i * minute;
    if (from >= first) break;
    if (t.minutes[i] !== "-" && from + minute > since) spans.push([Math.max(from, since), Math.min(from + minute, first), looks[t.minutes[i].toLowerCase()]]);
  }
  t.changes.forEach((c, i) => {
    const to = i + 1 < t.changes.length ? Date.parse(t.changes[i + 1].at) : Date.parse(t.now);
    if (to > start) spans.push([Date.parse(c.at), to, c.look]);
  });
  const shapes = [svg("rect", { class: "none", x: 0, y: y + stateHeight - 2, width: x(Infinity), height: 2 })];
  for (const [from, to, look] of spans) {
    const height = look === "Ready" ? 14 : stateHeight;
    const width = Math.max(1.5, x(to) - x(from));
    const text = `${words[look] ?? look} from ${clock(Math.max(from, start))} to ${clock(to)} (${duration(to - from)})`;
    shapes.push(titled(svg("rect", { class: tones[look], x: x(from), y: y + stateHeight - height, width, height }), text));
  }
  return shapes;
}

// A line through all lanes, so that one sees what the probes found before.
function restartMarks(changes, restarts, x, top, bottom) {
  let free = -Infinity; // where the next label may begin
  const marks = [];
  for (const c of restarts) {
    const at = x(Date.parse(c.at));
    const before = changes.slice(0, changes.indexOf(c) + 1).findLast((e) => e.ended);
    const text = c.restart === "exit" && before ? shortEnding(before.ended) : c.restart;
    const mark = svg("g", { class: "restart" }, svg("path", { class: "line", d: `M${at} ${top - 3}V${bottom}` }), svg("path", { class: "mark", d: `M${at - 4} ${top - 10}h8l-4 8z` }));
    marks.push(titled(mark, `${clock(c.at)} restarted: ${cause(c.restart, before?.ended)}`));
    const width = 6.2 * text.length + 12;
    const left = Math.min(at + 7, x(Infinity) - width + 12);
    if (left > free && left > at) {
      marks.push(label(text, at + 7, top - 3, "start", "cause"));
      free = left + width;
    } else if (at - width > free) {
      marks.push(label(text, at - 7, top - 3, "end", "cause"));
      free = at + 8;
    }
  }
  return marks;
}

const shortEnding = (e) => (e.reason === "OOMKilled" ? "out of memory" : e.signal ? `signal ${e.signal}` : `exit ${e.exitCode}`);

function probeLane(name, p, start, x, y, width) {
  const worst = Math.max(...p.worstSeconds);
  const how = { http: "HTTP", grpc: "gRPC", tcp: "TCP", exec: "command", engine: "engine" }[p.handler] ?? p.handler;
  const parts = [
    label(`${name[0].toUpperCase() + name.slice(1)}: ${how} every ${seconds(p.periodSeconds)}`, 0, y + 9),
    label(worst ? `worst ${latency(worst)} of ${seconds(p.timeoutSeconds)}` : "not asked in this hour", width, y + 9, "end"),
  ];
  y += 16;
  const base = y + outcomeHeight + 4 + latencyHeight;
  parts.push(svg("path", { class: "base", d: `M0 ${base + 0.5}H${width}` }));
  const scale = scaleOf(worst, p.timeoutSeconds);
  if (worst >= p.timeoutSeconds / 2) {
    const at = base - (p.timeoutSeconds / scale) * latencyHeight;
    parts.push(svg("path", { class: "limit", d: `M0 ${at}H${width}` }));
  }
  for (let i = 0; i < p.successes.length; i++) {
    const left = x(start + i * minute);
    const wide = Math.max(1, x(start + (i + 1) * minute) - left - 1);
    const [ok, failed, unknown] = [p.successes[i], p.failures[i], p.unknown[i]];
    const all = ok + failed + unknown;
    if (all === 0) {
      parts.push(svg("rect", { class: "none", x: left, y: y + outcomeHeight - 2, width: wide, height: 2 }));
      continue;
    }
    const bars = [svg("rect", { class: failed || unknown ? "none" : "good", x: left, y: failed || unknown ? y : y + 4, width: wide, height: failed || unknown ? outcomeHeight : outcomeHeight - 4 })];
    if (failed) bars.push(svg("rect", { class: "bad", x: left, y, width: wide, height: Math.max(3, (failed / all) * outcomeHeight) }));
    if (ok && (failed || unknown)) bars.push(svg("rect", { class: "good", x: left, y: y + outcomeHeight - (ok / all) * (outcomeHeight - 3), width: wide, height: (ok / all) * (outcomeHeight - 3) }));
    if (unknown && !failed) bars.push(svg("rect", { class: "warn", x: left, y, width: wide, height: Math.max(3, (unknown / all) * outcomeHeight) }));
    const tall = Math.max(1, (p.worstSeconds[i] / scale) * latencyHeight);
    if (p.worstSeconds[i]) bars.push(svg("rect", { class: failed ? "slow bad" : "slow", x: left, y: base - tall, width: wide, height: tall }));
    bars.push(svg("rect", { class: "touch", x: left, y, width: wide + 1, height: base - y }));
    const text = [`${shortClock(start + i * minute)}: ${many(ok)} succeeded`, failed ? `${many(failed)} failed` : "", unknown ? `${many(unknown)} could not be asked` : "", p.worstSeconds[i] ? `worst ${latency(p.worstSeconds[i])}` : ""];
    parts.push(titled(svg("g", {}, ...bars), text.filter(Boolean).join(", ")));
  }
  return parts;
}

const many = (n) => (n === 255 ? "255 or more" : n);

/** A probe that comes near its timeout shows how near. One that is far from it has low bars. */
function scaleOf(worst, timeout) {
  return worst >= timeout / 2 ? Math.max(timeout, worst) : Math.max(worst, timeout / 8);
}

const seconds = (s) => (s < 1 ? `${Math.round(s * 1000)} ms` : duration(s * 1000));

function axis(start, end, x, y, width) {
  const parts = [svg("path", { class: "base", d: `M0 ${y}H${width}` })];
  const step = width < 420 ? 20 : 10;
  const first = Math.ceil(start / (step * minute)) * step * minute;
  for (let at = first; at < end; at += step * minute) {
    parts.push(svg("path", { class: "base", d: `M${x(at)} ${y}v4` }));
    if (x(at) > 14 && x(at) < width - 48) parts.push(label(shortClock(at), x(at), y + 15, "middle", "axis"));
  }
  parts.push(label("now", width, y + 15, "end", "axis"));
  return parts;
}

function summary(t, restarts) {
  const probes = Object.entries(t.probes).map(([name, p]) => {
    const sum = (list) => list.reduce((a, b) => a + b, 0);
    const worst = Math.max(...p.worstSeconds);
    return `${name} probe: ${sum(p.successes)} succeeded, ${sum(p.failures)} failed${worst ? `, worst latency ${latency(worst)}` : ""}`;
  });
  const causes = restarts.map((c) => `${clock(c.at)} by ${c.restart}`);
  return [stripWords(t.minutes), causes.length ? `Restarted ${causes.join(", ")}` : "", ...probes].filter(Boolean).join(". ");
}

/** The newest changes in words, newest first. */
export function changeWords(changes) {
  return changes.map((c, i) => {
    const before = changes.slice(0, i + 1).findLast((e) => e.ended);
    const parts = [];
    if (c.ended) parts.push(ending(c.ended));
    if (c.restart) parts.push(`restarted: ${cause(c.restart, before?.ended)}`);
    parts.push((words[c.look] ?? c.look).toLowerCase());
    return { at: c.at, look: c.look, restart: c.restart, text: parts.join("; ") };
  }).reverse();
}
