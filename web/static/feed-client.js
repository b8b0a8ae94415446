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
 * or a restart of the server it holds what it held, and `onchange` brings what was missed. A whole page of it is /static/example.html. A site
 * on another origin must be among the server's allowed origins.
 *
 * `client.status()` speaks from the age of the last frame, never from the socket's own opinion; `onstatus` is called once a second while it
 * may change. The server sends a tick every 10 s, so silence for 3 s beyond that is worth a word to the reader.
 *
 * Where the games are not public give `token`, and `client.authorize(token)` before it runs out; it travels in the first frame or a header.
 *
 * Close codes below 4500 and everything else that ends a connection mean "come back": at a random moment of a window that doubles from 1 s
 * to 30 s (full jitter), or of the window that the server's `bye` announced. Codes from 4500 on are final.
 *
 * Where sockets do not get through - three in a row carried no frame - the frames come by server-sent events, and where those do not either,
 * by asking again and again. The socket is tried beside them, after 5 s and then ever more rarely, and takes over as soon as it opens. All of
 * it resumes by cursor, so nothing is missed or shown twice.
 */
import { FeedState } from './feed-state.js';
import { eventStream, longPoll, webSocket } from './transports.js';

export { FeedState, eventStream, longPoll, webSocket };

const FINAL_CODE = 4500;

// Closes that are about the tenant: the server refuses each of its games until it is asked again.
const REFUSALS = { 4005: 'busy', 4006: 'suspended' };

const TIMES = {
  tick: 10_000, // the server's: some frame comes at least this often
  grace: 3_000, // silence beyond the tick before it is called silence, and a ping is sent
  dead: 6_000, // silence beyond the tick before the connection is given up
  tail: 1_000, // how long a tick may speak of a version we do not have
  answer: 8_000, // how long a `sub` may stay unanswered
  refused: 10_000, // from a refusal of a game to the next try
  backoff: 1_000, // the first window of reconnecting
  backoffMax: 30_000,
  tries: 3, // connections of the first transport in a row that carry nothing before the next one is used; of the others one is enough
  probe: 5_000, // from then on to the next try of the first; it doubles
  probeMax: 600_000,
};

/**
 * @typedef {'live'|'catching-up'|'connecting'|'waiting'|'resting'|'refused'|'closed'} Phase
 *   live: connected and every game answered. catching-up: an answer is due. connecting: no connection, one is being made. waiting: no
 *   connection, the next try is at `retryAt`. resting: by `rest()`. refused: the server said never (`code`, `reason`). closed: by `close()`.
 * @typedef {{phase: Phase, silence: number, silent: boolean, retryAt: number, code: number, reason: string, by: string}} Status
 *   silence: ms since the last frame (before the first: since the start). silent: it is longer than it should be. retryAt: ms of Date.now.
 *   by: the name of the transport in use.
 */
export class FeedClient {
  #url;
  #token;
  #transports;
  #random;
  #onstatus;
  #times;
  #watches = new Map();
  #link = null;
  #open = false;
  #carried = false; // whether a frame came over the present connection
  #rank = 0; // of the transport in use
  #strikes = 0; // its connections in a row that carried nothing
  #probe = null; // a connection of the first transport, made beside that of another
  #probes = 0; // in vain since the first transport carried a frame
  #probeAt = 0;
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
   * @param {import('./transports.js').Transport[]} [options.transports] how frames travel, the best way first
   * @param {Partial<typeof TIMES>} [options.times] in ms
   * @param {() => number} [options.random] in [0, 1)
   */
  constructor(url, { token = '', onstatus = () => {}, transports = [webSocket, eventStream, longPoll], times = {}, random = Math.random } = {}) {
    this.#url = url;
    this.#token = token;
    this.#onstatus = onstatus;
    this.#transports = transports;
    this.#times = { ...TIMES, ...times };
    this.#random = random;
  }

  /**
   * Follows a game until the returned `stop` is called.
   * @param {string} game
   * @param {object} [options]
   * @param {number} [options.limit] lines of a snapshot, 100 by default
   * @param {number} [options.keep] lines held while following, 500 by default
   * @param {(state: FeedState, change: import('./feed-state.js').Change, frame: object) => void} [options.onchange] after each frame of the
   *   game, in order
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
    const watch = { state, limit, onchange, stop, asked: 0, again: 0, behind: 0, fresh: false };
    this.#watches.set(game, watch);
    this.#beat ??= this.#start();
    if (this.#fits(this.#rank)) {
      if (this.#open) this.#ask(watch);
    } else {
      this.#rank = this.#next();
      this.retry();
    }
    return { state, stop };
  }

  /** Shows the server another token from now on: one that is renewed, or the first. Connects where that was refused. */
  authorize(token) {
    this.#token = token;
    if (!this.#open) return this.retry();
    this.#link.send({ t: 'auth', token });
    for (const watch of this.#watches.values()) if (watch.state.refusal) this.#ask(watch);
  }

  /** The page is looked at, or the network is back: a connection that is gone or silent is replaced at once. */
  wake() {
    const silent = this.#link && this.#quiet() > this.#times.tick + this.#times.grace;
    if (this.#phase === 'waiting' || this.#phase === 'resting' || silent) this.retry();
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
    if (!watch) return;
    watch.fresh = true;
    if (this.#open) this.#ask(watch);
    else if (this.#phase === 'resting') this.retry();
  }

  /** Lets the connection go and keeps what is held, until the next `wake` or `retry`: for games in which nothing more is expected. */
  rest() {
    this.#abandon();
    this.#phase = 'resting';
    this.#onstatus(this.status());
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
    const silent = silence > this.#times.tick + this.#times.grace && this.#phase !== 'resting';
    let phase = this.#phase;
    if (this.#open && phase !== 'closed') phase = silent || this.#unanswered() ? 'catching-up' : 'live';
    return { phase, silence, silent, retryAt: this.#retryAt, ...this.#ending, by: this.#transports[this.#rank].name };
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
    this.#pinged = this.#carried = false;
    this.#since = Date.now();
    this.#link = this.#dial(this.#rank, () => this.#opened());
    this.#onstatus(this.status());
  }

  // What comes over a connection counts while it is the present one.
  #dial(rank, onopen) {
    const link = this.#transports[rank](this.#url, {
      onopen: () => (link === this.#link || link === this.#probe) && onopen(),
      onframe: (frame) => link === this.#link && this.#receive(frame),
      onclose: (code, reason) => {
        if (link === this.#link) this.#lost(code, reason);
        else if (link === this.#probe) this.#planProbe();
      },
    });
    return link;
  }

  #opened() {
    this.#open = true;
    if (this.#token) this.#link.send({ t: 'auth', token: this.#token });
    for (const watch of this.#watches.values()) this.#ask(watch);
    this.#onstatus(this.status());
  }

  // A transport that carries nothing is blocked on its way, or the server is away: the others will tell. They are used in turn.
  #strike() {
    if (this.#carried || ++this.#strikes < (this.#rank === 0 ? this.#times.tries : 1)) return;
    this.#strikes = 0;
    this.#rank = this.#next();
  }

  #fits(rank) {
    return this.#watches.size <= (this.#transports[rank].most ?? Infinity);
  }

  #next() {
    let rank = this.#rank;
    do rank = (rank + 1) % this.#transports.length; while (rank !== 0 && !this.#fits(rank));
    return rank;
  }

  #planProbe() {
    this.#probe?.close();
    this.#probe = null;
    const { probe, probeMax } = this.#times;
    this.#probeAt = Date.now() + (1 + this.#random()) / 2 * Math.min(probeMax, probe * 2 ** Math.min(this.#probes++, 16));
  }

  // The first transport opened: it takes over, and has one try to show that it carries frames, too.
  #adopt() {
    this.#link.close();
    this.#link = this.#probe;
    this.#probe = null;
    this.#rank = 0;
    this.#strikes = this.#times.tries - 1;
    this.#carried = this.#pinged = false;
    this.#since = Date.now();
    this.#opened();
  }

  #ask(watch) {
    const since = watch.fresh ? null : watch.state.cursor;
    watch.asked = Date.now();
    watch.again = watch.behind = 0;
    watch.fresh = false;
    this.#link.send({ t: 'sub', g: watch.state.game, limit: watch.limit, ...(since && { since }) });
  }

  #receive(frame) {
    this.#heard = Date.now();
    this.#pinged = false;
    this.#attempts = 0;
    if (!this.#carried) this.#works();
    if (frame.t === 'bye') this.#leave(frame);
    else if (frame.t === 'tick') this.#tick(frame);
    else if (frame.g !== undefined) this.#dispatch(frame);
    if (frame.t !== 'lines') this.#onstatus(this.status());
  }

  #works() {
    this.#carried = true;
    this.#strikes = 0;
    if (this.#rank === 0) this.#probes = this.#probeAt = 0;
    else if (Date.now() > this.#probeAt) this.#planProbe();
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
    watch.onchange(watch.state, change, frame);
  }

  #tick(frame) {
    const now = Date.parse(frame.now);
    if (!Number.isNaN(now)) this.#skew = now - Date.now();
    for (const watch of this.#watches.values()) {
      const change = watch.state.apply(frame);
      watch.behind = watch.state.announced > watch.state.ver && !watch.asked ? Date.now() + this.#times.tail : 0;
      watch.onchange(watch.state, change, frame);
    }
  }

  // The server is going: stay for what it still sends, and come back inside the window it gave.
  #leave({ after_ms: after = 0, spread_ms: spread = 0 }) {
    this.#retryAt = Date.now() + after + this.#random() * spread;
    this.#comeback = setTimeout(() => this.retry(), this.#retryAt - Date.now());
  }

  #lost(code, reason) {
    const planned = this.#comeback !== null;
    this.#strike();
    this.#link = null;
    this.#open = false;
    this.#ending = { code, reason };
    if (Object.hasOwn(REFUSALS, code)) for (const g of [...this.#watches.keys()]) this.#dispatch({ t: 'err', g, code: REFUSALS[code], msg: reason });
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
    this.#probe?.close();
    this.#probe = null;
  }

  #step() {
    const now = Date.now();
    const { tick, grace, dead, answer } = this.#times;
    const quiet = this.#quiet();
    if (this.#link && quiet > tick + dead) {
      this.#strike();
      this.retry();
    } else if (this.#open) {
      if (this.#rank > 0 && this.#carried && !this.#probe && now > this.#probeAt) this.#probe = this.#dial(0, () => this.#adopt());
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
