/**
 * The watch protocol as a module for any page: one connection, any number of games, resumed by cursor for ever. It touches no DOM.
 *
 *     import { FeedClient } from 'https://feeds.example/static/feed-client.js';
 *
 *     const client = new FeedClient('wss://feeds.example/v1/tenants/acme/live');
 *     client.watch('g1', { onchange: (state, change) => console.log(state.entries.map((entry) => entry.line.text)) });
 *     for (const event of ['online', 'pageshow', 'focus']) addEventListener(event, () => client.wake());
 *
 * `state` is a FeedState: `entries` (newest first), `header` (the game and its board), `watchers`, `refusal`. After a lost connection, a sleep
 * or a restart of the server it holds what it held, and `onchange` brings what was missed.
 *
 * `client.status()` speaks from the age of the last frame, never from the socket's own opinion; `onstatus` is called once a second while it
 * may change. The server sends a tick every 10 s, so silence for 3 s beyond that is worth a word to the reader.
 *
 * Close codes below 4500 and everything else that ends a connection mean "come back": at a random moment of a window that doubles from 1 s
 * to 30 s (full jitter), or of the window that the server's `bye` announced. Codes from 4500 on are final.
 */
import { FeedState } from './feed-state.js';

export { FeedState };

const FINAL_CODE = 4500;

const TIMES = {
  tick: 10_000, // the server's: some frame comes at least this often
  grace: 3_000, // silence beyond the tick before it is called silence, and a ping is sent
  dead: 6_000, // silence beyond the tick before the connection is given up
  tail: 1_000, // how long a tick may speak of a version we do not have
  answer: 8_000, // how long a `sub` may stay unanswered
  refused: 10_000, // from a refusal of a game to the next try
  backoff: 1_000, // the first window of reconnecting
  backoffMax: 30_000,
};

/**
 * @typedef {'live'|'catching-up'|'connecting'|'waiting'|'refused'|'closed'} Phase
 *   live: connected and every game answered. catching-up: an answer is due. connecting: no connection, one is being made. waiting: no
 *   connection, the next try is at `retryAt`. refused: the server said never (`code`, `reason`). closed: by `close()`.
 * @typedef {{phase: Phase, silence: number, silent: boolean, retryAt: number, code: number, reason: string}} Status
 *   silence: ms since the last frame (before the first: since the start). silent: it is longer than it should be. retryAt: ms of Date.now.
 */
export class FeedClient {
  #url;
  #token;
  #transport;
  #random;
  #onstatus;
  #times;
  #watches = new Map();
  #link = null;
  #open = false;
  #phase = 'connecting';
  #attempts = 0;
  #retryAt = 0;
  #comeback = null; // the timer of the next try
  #heard = Date.now(); // the last frame
  #since = 0; // the begin of the present connection
  #pinged = false;
  #ending = { code: 0, reason: '' };
  #beat = null;
  #skew = 0;

  /**
   * @param {string} url of the tenant's `live` endpoint
   * @param {object} [options]
   * @param {string} [options.token] a watch token, where the tenant's games are not public
   * @param {(status: Status) => void} [options.onstatus]
   * @param {Transport} [options.transport] how frames travel, a WebSocket by default
   * @param {Partial<typeof TIMES>} [options.times] in ms
   * @param {() => number} [options.random] in [0, 1)
   */
  constructor(url, { token = '', onstatus = () => {}, transport = webSocket, times = {}, random = Math.random } = {}) {
    this.#url = url;
    this.#token = token;
    this.#onstatus = onstatus;
    this.#transport = transport;
    this.#times = { ...TIMES, ...times };
    this.#random = random;
  }

  /**
   * Follows a game until the returned `stop` is called.
   * @param {string} game
   * @param {object} [options]
   * @param {number} [options.limit] lines of a snapshot, 100 by default
   * @param {number} [options.keep] lines held while following, 500 by default
   * @param {(state: FeedState, change: import('./feed-state.js').Change) => void} [options.onchange] after each frame of the game, in order
   * @returns {{state: FeedState, stop: () => void}}
   */
  watch(game, { limit = 100, keep = 500, onchange = () => {} } = {}) {
    this.#watches.get(game)?.stop();
    const state = new FeedState(game, { keep });
    const stop = () => {
      if (this.#watches.get(game) !== watch) return;
      this.#watches.delete(game);
      if (this.#open) this.#link.send({ t: 'unsub', g: game });
    };
    const watch = { state, limit, onchange, stop, asked: 0, again: 0, behind: 0 };
    this.#watches.set(game, watch);
    if (this.#open) this.#ask(watch);
    else this.#beat ??= this.#start();
    return { state, stop };
  }

  /** The page is looked at, or the network is back: a connection that is gone or silent is replaced at once. */
  wake() {
    const silent = this.#link && this.#quiet() > this.#times.tick + this.#times.grace;
    if (this.#phase === 'waiting' || silent) this.retry();
  }

  /** Connects now, whatever was planned. Not after `close`. */
  retry() {
    if (this.#phase === 'closed' || this.#watches.size === 0) return;
    this.#abandon();
    this.#connect();
  }

  /** Asks for a fresh snapshot of a game, for a reader who returns from far in the past. */
  refresh(game) {
    const watch = this.#watches.get(game);
    if (watch && this.#open) this.#ask(watch, { fresh: true });
  }

  close() {
    this.#abandon();
    this.#phase = 'closed';
    clearInterval(this.#beat);
    this.#onstatus(this.status());
  }

  /** The server's clock in ms, by its last tick. */
  now() {
    return Date.now() + this.#skew;
  }

  /** @returns {Status} */
  status() {
    const silence = Math.max(0, Date.now() - this.#heard);
    const silent = silence > this.#times.tick + this.#times.grace;
    let phase = this.#phase;
    if (this.#open && phase !== 'closed') phase = silent || this.#unanswered() ? 'catching-up' : 'live';
    return { phase, silence, silent, retryAt: this.#retryAt, ...this.#ending };
  }

  #quiet() {
    return Date.now() - Math.max(this.#heard, this.#since);
  }

  #unanswered() {
    for (const watch of this.#watches.values()) if (watch.asked && !watch.state.refusal) return true;
    return false;
  }

  // The first connection is made after the present task: its author may go on watching, and is called back when it is set up.
  #start() {
    this.#heard = Date.now();
    setTimeout(() => this.#phase === 'connecting' && !this.#link && this.#connect());
    return setInterval(() => this.#step(), 1000);
  }

  #connect() {
    this.#phase = 'connecting';
    this.#attempts++;
    this.#pinged = false;
    const link = this.#transport(this.#url, {
      onopen: () => link === this.#link && this.#opened(),
      onframe: (frame) => link === this.#link && this.#receive(frame),
      onclose: (code, reason) => link === this.#link && this.#lost(code, reason),
    });
    this.#link = link;
    this.#since = Date.now();
    this.#onstatus(this.status());
  }

  #opened() {
    this.#open = true;
    if (this.#token) this.#link.send({ t: 'auth', token: this.#token });
    for (const watch of this.#watches.values()) this.#ask(watch);
    this.#onstatus(this.status());
  }

  #ask(watch, { fresh = false } = {}) {
    watch.asked = Date.now();
    watch.again = watch.behind = 0;
    const since = fresh ? null : watch.state.cursor;
    this.#link.send({ t: 'sub', g: watch.state.game, limit: watch.limit, ...(since && { since }) });
  }

  #receive(frame) {
    this.#heard = Date.now();
    this.#pinged = false;
    this.#attempts = 0;
    if (frame.t === 'bye') this.#leave(frame);
    else if (frame.t === 'tick') this.#tick(frame);
    else if (frame.g !== undefined) this.#dispatch(frame);
    if (frame.t !== 'lines') this.#onstatus(this.status());
  }

  #dispatch(frame) {
    const watch = this.#watches.get(frame.g);
    if (!watch) return;
    const change = watch.state.apply(frame);
    if (frame.t === 'snap' || (frame.t === 'delta' && !change.ask)) watch.asked = 0;
    if (frame.t === 'err') {
      watch.asked = 0;
      watch.again = Date.now() + this.#times.refused;
    }
    if (change.ask && !watch.asked) this.#ask(watch);
    watch.onchange(watch.state, change);
  }

  #tick(frame) {
    const now = Date.parse(frame.now);
    if (!Number.isNaN(now)) this.#skew = now - Date.now();
    for (const watch of this.#watches.values()) {
      const change = watch.state.apply(frame);
      watch.behind = watch.state.announced > watch.state.ver && !watch.asked ? Date.now() + this.#times.tail : 0;
      watch.onchange(watch.state, change);
    }
  }

  // The server is going: stay for what it still sends, and come back inside the window it gave.
  #leave({ after_ms: after = 0, spread_ms: spread = 0 }) {
    this.#retryAt = Date.now() + after + this.#random() * spread;
    this.#comeback = setTimeout(() => this.retry(), this.#retryAt - Date.now());
  }

  #lost(code, reason) {
    const planned = this.#comeback !== null;
    this.#link = null;
    this.#open = false;
    this.#ending = { code, reason };
    if (code >= FINAL_CODE) {
      this.#abandon();
      this.#phase = 'refused';
    } else {
      this.#phase = 'waiting';
      if (!planned) this.#plan();
    }
    this.#onstatus(this.status());
  }

  #plan() {
    const { backoff, backoffMax } = this.#times;
    const wait = this.#random() * Math.min(backoffMax, backoff * 2 ** Math.min(this.#attempts, 16));
    this.#retryAt = Date.now() + wait;
    this.#comeback = setTimeout(() => this.retry(), wait);
  }

  // A socket that is silent may take minutes to admit that it is dead: let go of it and listen no more.
  #abandon() {
    clearTimeout(this.#comeback);
    this.#comeback = null;
    const link = this.#link;
    this.#link = null;
    this.#open = false;
    link?.close();
  }

  #step() {
    const now = Date.now();
    const { tick, grace, dead, answer } = this.#times;
    const quiet = this.#quiet();
    if (this.#link && quiet > tick + dead) {
      this.retry();
    } else if (this.#open) {
      if (quiet > tick + grace && !this.#pinged) {
        this.#pinged = true;
        this.#link.send({ t: 'ping' });
      }
      for (const watch of this.#watches.values()) {
        const lost = watch.behind && now > watch.behind && watch.state.announced > watch.state.ver;
        if (lost || (watch.again && now > watch.again) || (watch.asked && now - watch.asked > answer)) this.#ask(watch);
      }
    }
    this.#onstatus(this.status());
  }
}

/**
 * How frames travel. It calls `onopen` once, `onframe` with each frame, `onclose` once at the end unless it was closed from here; `send` takes
 * a frame and is called only in between.
 * @typedef {(url: string, on: {onopen: () => void, onframe: (frame: object) => void, onclose: (code: number, reason: string) => void}) =>
 *   {send: (frame: object) => void, close: () => void}} Transport
 */

/** @type {Transport} */
export function webSocket(url, { onopen, onframe, onclose }) {
  const socket = new WebSocket(url);
  const deaf = new AbortController();
  const on = (type, listener) => socket.addEventListener(type, listener, { signal: deaf.signal });
  on('open', onopen);
  on('message', (event) => {
    const frame = parse(event.data);
    if (frame) onframe(frame);
  });
  on('close', (event) => onclose(event.code, event.reason));
  return {
    send: (frame) => socket.readyState === WebSocket.OPEN && socket.send(JSON.stringify(frame)),
    close: () => {
      deaf.abort();
      socket.close();
    },
  };
}

// A frame that cannot be read is a lost frame: the next one shows the gap.
function parse(text) {
  try {
    const frame = JSON.parse(text);
    return typeof frame === 'object' ? frame : null;
  } catch {
    return null;
  }
}
