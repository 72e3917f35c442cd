// From the API's terms to plain words. Nothing here touches the document.

import { duration, now } from "./dom.js";

/** @typedef {import("./store.js").Glance} Glance */

/** The word for each look. */
export const words = {
  Ready: "Ready", Starting: "Starting", NotReady: "Not ready", Draining: "Draining", Paused: "Paused",
  Waiting: "Restarting", Stopped: "Stopped", Unknown: "Unknown", Invalid: "Invalid",
};

/** The word for the state of one container. @param {Glance} c */
export function word(c) {
  switch (c.reason) {
    case "GaveUp": return "Gave up";
    case "CrashLoopBackOff": return "Crash loop";
    case "NetworkUnavailable": return "No network";
    case "RunContainerError": return "Start failed";
  }
  if (c.look === "Waiting" && c.reason === "Held") return "Held";
  if (c.look === "Waiting" && c.reason === "RuntimeUnknown") return "Unknown";
  if (c.look === "Stopped" && !c.ended) return "Created";
  return words[c.look] ?? c.look;
}

// Somebody wanted these ends.
const wanted = new Set(["Completed", "StoppedByOperator", "ManagedElsewhere"]);

/**
 * How bad it is: 3 it does not work, 2 it may soon not, or nobody knows, 1 it changes by itself, 0 as it should be.
 * @param {Glance} c
 */
export function severity(c) {
  switch (c.look) {
    case "NotReady": case "Invalid": return 3;
    case "Waiting": return c.reason === "Held" ? 2 : 3;
    case "Stopped": return c.reason === "GaveUp" || c.reason === "RunContainerError" || (c.ended && !wanted.has(c.ended.reason)) ? 3 : 0;
    case "Unknown": return 2;
    case "Starting": return c.failing?.some((f) => f.unknown || c.lastRestart) ? 2 : 1;
    case "Draining": return 1;
    case "Ready": return c.failing?.some((f) => f.unknown || f.probe !== "readiness") || c.reason ? 2 : 0;
  }
  return 0;
}

/** Whether it counts as a problem. @param {Glance} c */
export const isProblem = (c) => severity(c) >= 2;

/** How a run ended. */
export function ending(e) {
  if (!e) return "";
  const code = e.signal ? `signal ${e.signal}` : `exit code ${e.exitCode}`;
  switch (e.reason) {
    case "Completed": return "completed, exit code 0";
    case "OOMKilled": return "killed for want of memory";
    case "StoppedByOperator": return "stopped by an operator";
    case "LivenessFailed": return "stopped by healthd: liveness probe failed";
    case "StartupFailed": return "stopped by healthd: startup probe failed";
    case "ManagedElsewhere": return `ended with ${code}; its orchestrator decides what follows`;
  }
  return `ended with ${code}`;
}

/** Why healthd or the engine began a new run. */
export function cause(restart, ended) {
  switch (restart) {
    case "liveness": return "liveness probe failed";
    case "startup": return "startup probe failed";
    case "operator": return "an operator asked";
    case "post_start": return "post_start hook failed";
    case "network": return "the network it shares was renewed";
    case "exit": return ended ? ending(ended) : "it ended";
  }
  return restart;
}

/** Why a flight record was made. */
export function recordCause(name) {
  switch (name) {
    case "crash": return "crashed";
    case "oom": return "out of memory";
  }
  return cause(name, null);
}

/**
 * Why a container is as it is, in sentences; empty if there is nothing to say.
 * @param {Glance} c
 */
export function why(c) {
  const text = c.why ?? "";
  if (c.look !== "Waiting" || c.reason !== "CrashLoopBackOff") return text;
  const left = c.until ? Date.parse(c.until) - now() : 0;
  return `${text} ${left > 500 ? `Next start in ${duration(left)}.` : "Starts now."}`.trim();
}

/** "1 container", "3 containers" */
export const count = (n, noun) => `${n.toLocaleString("en")}\u00a0${noun}${n === 1 ? "" : noun.endsWith("s") ? "es" : "s"}`;

/**
 * The one line that answers whether anything is wrong.
 * @param {Glance[]} all
 * @param {{name: string, members: Glance[]}[]} services
 * @param {number} warnings
 * @returns {{text: string, tone: string}}
 */
export function headline(all, services, warnings) {
  const but = warnings ? `, ${count(warnings, "warning")}` : "";
  if (all.length === 0) return { text: "healthd supervises no container" + but, tone: but ? "warn" : "off" };
  const problems = all.filter(isProblem);
  if (problems.length === 0) {
    const ready = all.filter((c) => c.ready).length;
    const tone = but ? "warn" : "good";
    if (ready === all.length) return { text: (all.length === 1 ? "The container is ready" : `All ${count(all.length, "container")} are ready`) + but, tone };
    return { text: `${but ? "" : "Nothing is wrong: "}${ready.toLocaleString("en")} of ${count(all.length, "container")} ready${but}`, tone };
  }
  const down = services.filter((s) => isDown(s.members)).length;
  const parts = down ? [`${count(down, "service")} down`] : [];
  const kinds = new Map();
  for (const c of problems) {
    const kind = kindOf(c);
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  }
  let first = true;
  for (const kind of ["in a crash loop", "given up", "restarting", "stopped with an error", "not ready", "with invalid labels", "unknown: engine away", "failing a probe", "with an Unknown probe", "held"]) {
    const n = kinds.get(kind);
    if (!n) continue;
    parts.push(first ? `${count(n, "container")} ${kind}` : `${n.toLocaleString("en")}\u00a0${kind}`);
    first = false;
  }
  const worst = Math.max(...problems.map(severity));
  return { text: parts.join(", "), tone: worst === 3 ? "bad" : "warn" };
}

/** No member takes traffic, and somebody wants one to. */
export function isDown(members) {
  return members.length > 0 && !members.some((c) => c.ready) && members.some((c) => severity(c) === 3);
}

function kindOf(c) {
  if (c.reason === "GaveUp") return "given up";
  if (c.reason === "CrashLoopBackOff") return "in a crash loop";
  switch (c.look) {
    case "Waiting": return c.reason === "Held" ? "held" : "restarting";
    case "Stopped": return "stopped with an error";
    case "NotReady": return "not ready";
    case "Invalid": return "with invalid labels";
    case "Unknown": return "unknown: engine away";
  }
  return c.failing?.every((f) => f.unknown) ? "with an Unknown probe" : "failing a probe";
}

/** What the last hour's strip says, for those who do not see it. @param {string} minutes */
export function stripWords(minutes) {
  const known = [...minutes].filter((m) => m !== "-");
  if (known.length === 0) return "Last hour: not watched";
  const ready = known.filter((m) => m.toLowerCase() === "r").length;
  const restarts = known.filter((m) => m !== m.toLowerCase()).length;
  return `Ready in ${ready} of the last ${known.length} minutes${restarts ? `, restarted in ${restarts}` : ""}`;
}
