// The data. The event stream says that something changed; what changed is asked for. Many changes at once become
// one request, and one request is under way at a time.

import { noteClock } from "./dom.js";

/**
 * @typedef {Object} Glance one container, see /v1/openapi.json
 * @property {string} id
 * @property {string} name
 * @property {string} project
 * @property {string} service
 * @property {string} image
 * @property {string} look
 * @property {boolean} ready
 * @property {string} [reason]
 * @property {string} [message]
 * @property {string} [why]
 * @property {string} [since]
 * @property {string} [until]
 * @property {number} restarts
 * @property {string} [lastRestart]
 * @property {{exitCode: number, reason: string, signal?: number}} [ended]
 * @property {boolean} [held]
 * @property {boolean} [observe]
 * @property {number} [warnings]
 * @property {{probe: string, run: number, threshold: number, output: string, unknown?: boolean}[]} [failing]
 * @property {string} minutes
 */

/**
 * @typedef {Object} Fleet the hosts that share their containers, see /v1/fleet; without the members
 * @property {string} host this one
 * @property {boolean} connected to etcd
 * @property {string} since
 * @property {string} [error]
 * @property {{name: string, state: string, since: string, ready: number, draining: number, down: number}[]} hosts
 * @property {{service: string, by: string, since: string, for?: string}[]} holds
 * @property {number} wrongKeys
 * @property {string[]} problems
 */

const manyNames = 8; // more changes at once are one list
const keptEvents = 1000;
const relistEvery = 60_000; // strips move on, and warnings come without an event
const fleetEvery = 5000; // other hosts make no events here
const firstRetry = 500;
const lastRetry = 5000;
const requestTimeout = 10_000;
// A browser keeps six connections to a host, and a stream is one of them: tabs that nobody sees must not use them up.
const hiddenAfter = 15_000;

export class Store extends EventTarget {
  /** @type {Map<string, Glance>} */
  containers = new Map();
  /** @type {{time: string, container: string, reason: string, message: string, count?: number, first?: string}[]} newest first */
  events = [];
  /** @type {"connecting"|"live"|"lost"} */
  connection = "connecting";
  loaded = false;
  /** @type {Fleet|null} null: there is none, or nothing is known of it yet */
  fleet = null;
  /** @type {string[]} about the host and the outlets */
  warnings = [];
  /** when the data was last right */
  asOf = 0;
  retryAt = 0;

  #stream = null;
  #last = null; // number of the newest event
  #delay = firstRetry;
  #retry = 0;
  #hiding = 0;
  #dirty = new Set(); // names of containers
  #all = false;
  #busy = false;
  #cost = 0;
  #inFleet = false;
  #fleetBusy = false;

  start() {
    this.#open();
    setInterval(() => this.refresh(), relistEvery); // also in the background: the tab's title says how things are
    setInterval(() => !document.hidden && this.connection === "live" && this.#loadFleet(), fleetEvery);
    addEventListener("online", () => this.retryNow());
    document.addEventListener("visibilitychange", () => {
      clearTimeout(this.#hiding);
      if (document.hidden) this.#hiding = setTimeout(() => this.#pause(), hiddenAfter);
      else if (this.connection !== "live") this.#open();
    });
    addEventListener("pagehide", () => this.#stream?.close());
    addEventListener("pageshow", (e) => e.persisted && this.#open());
  }

  /** Tries again at once if the connection is lost. */
  retryNow() {
    if (this.connection === "lost") this.#open();
  }

  /** Asks for all containers. */
  refresh() {
    this.#all = true;
    this.#ask();
  }

  #open() {
    clearTimeout(this.#retry);
    this.#stream?.close();
    const url = this.#last === null ? "/v1/events?members" : `/v1/events?members&after=${this.#last}`;
    const stream = new EventSource(url);
    this.#stream = stream;
    stream.onopen = () => {
      this.#delay = firstRetry;
      this.#set("live");
      this.refresh(); // after the stream has begun, so that no change falls between
      if (this.#last === null) this.#loadEvents();
    };
    stream.onmessage = (m) => this.#heard(m);
    stream.addEventListener("members", () => this.refresh());
    stream.onerror = () => this.#lose();
  }

  #pause() {
    clearTimeout(this.#retry);
    this.#stream?.close();
    this.#stream = null;
    this.#set("connecting"); // when somebody looks again
  }

  // The browser would try again by itself, but not after each kind of failure, and does not say when.
  #lose() {
    this.#stream?.close();
    this.#stream = null;
    this.retryAt = Date.now() + this.#delay;
    this.#set("lost");
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => this.#open(), this.#delay);
    this.#delay = Math.min(2 * this.#delay, lastRetry);
    if (!this.loaded) this.refresh(); // there may be too many streams
  }

  #set(connection) {
    this.connection = connection;
    this.dispatchEvent(new Event("connection"));
  }

  #heard(message) {
    const number = Number(message.lastEventId);
    const event = JSON.parse(message.data);
    const missed = this.#last !== null && number !== this.#last + 1;
    this.#last = number;
    if (missed) { // events fell out of the history meanwhile, or it began anew
      this.refresh();
      this.#loadEvents();
    }
    this.events.unshift(event);
    this.events.length = Math.min(this.events.length, keptEvents);
    this.dispatchEvent(new CustomEvent("heard", { detail: event }));
    if (event.container) this.#dirty.add(event.container);
    else this.#all = true; // of the host, or of an engine
    this.#ask();
  }

  async #loadEvents() {
    try {
      const list = await get(`/v1/events?n=${keptEvents / 2}`);
      const known = new Set(list.map(keyOf));
      const newer = this.events.filter((e) => !known.has(keyOf(e)));
      this.events = [...newer, ...list.reverse()].slice(0, keptEvents);
      this.dispatchEvent(new Event("events"));
    } catch {
      // The list comes with the next connection; new events come anyway.
    }
  }

  async #ask() {
    if (this.#busy || (!this.#all && this.#dirty.size === 0)) return;
    this.#busy = true;
    const began = performance.now();
    try {
      const names = [...this.#dirty];
      const all = this.#all || names.length > manyNames;
      this.#dirty.clear();
      this.#all = false;
      if (all) await this.#loadAll();
      else await Promise.all(names.map((n) => this.#loadOne(n)));
    } catch {
      this.#all = true; // again with the next change, or when the stream is back
      if (this.connection === "live") this.#lose();
    }
    // While much changes, the page leaves healthd and the browser as much time as it takes.
    this.#cost = performance.now() - began;
    setTimeout(() => {
      this.#busy = false;
      if (this.connection !== "lost") this.#ask();
    }, Math.min(this.#cost, 1000));
  }

  async #loadAll() {
    const [{ list, inFleet }, daemon] = await Promise.all([overview(), get("/v1/daemon").catch(() => null)]);
    this.#inFleet = inFleet;
    if (daemon) this.warnings = daemon.warnings;
    this.#loadFleet(); // which the containers do not wait for
    this.containers = new Map(list.map((c) => [c.id, c]));
    this.loaded = true;
    this.#changed();
  }

  async #loadFleet() {
    if (this.#fleetBusy || (!this.#inFleet && !this.fleet)) return;
    this.#fleetBusy = true;
    try {
      this.fleet = this.#inFleet ? await get("/v1/fleet?members=false") : null;
      this.dispatchEvent(new Event("fleet"));
    } catch {
      // What was known stays until the next time.
    }
    this.#fleetBusy = false;
  }

  async #loadOne(name) {
    const response = await ask(`/v1/overview?container=${encodeURIComponent(name)}`);
    if (response.status === 404 || response.status === 409) {
      this.#all = true; // it is gone, or has got a longer name
      return;
    }
    if (!response.ok) throw new Error(`healthd answered ${response.status}`);
    for (const c of await response.json()) this.containers.set(c.id, c);
    this.#changed();
  }

  #changed() {
    this.asOf = Date.now();
    this.dispatchEvent(new Event("containers"));
  }
}

const keyOf = (e) => `${e.time}\n${e.container}\n${e.reason}\n${e.message}`;

function ask(url) {
  return fetch(url, { signal: AbortSignal.timeout(requestTimeout), cache: "no-store" });
}

/** Asks for all containers, and whether this host is in a fleet. */
async function overview() {
  const response = await succeed("/v1/overview");
  return { list: await response.json(), inFleet: response.headers.get("Healthd-Fleet") === "true" };
}

async function succeed(url) {
  const response = await ask(url);
  if (!response.ok) throw new Error(`healthd answered ${response.status}`);
  noteClock(response.headers.get("Date"));
  return response;
}

/** Asks healthd for JSON. */
export async function get(url) {
  return (await succeed(url)).json();
}
