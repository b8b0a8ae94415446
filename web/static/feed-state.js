const PIECE = 500; // lines from which on a frame may be a part of what the server has to say, and go on in the next

/**
 * What one watcher knows of one game: frames in, changes out. Pure: no socket, no clock, no DOM, so any sequence of frames can be played
 * into it and its end state compared.
 *
 * The laws it keeps, whatever is lost, repeated or reordered on the way:
 *  - a line enters iff its `ver` is above the one held, and stands at the place of its EVT id (the byte order of the id's text);
 *  - a frame with `to` at or below the cursor is old news, one with `from` above it leaves a gap: it is not applied, and the change says `ask`;
 *  - a frame of another epoch is never believed: the change says `ask`, and the server answers with `reset` and a fresh `snap`;
 *  - a header enters iff its cursor is newer, and not before the lines of its version did: a board is never ahead of the lines beside it.
 *
 * What is held is one unbroken stretch of the game's lines, newest first. `older` says that more exist below it, `newer` that more exist
 * above it (the reader is somewhere in the past); a change outside the stretch moves the cursor and nothing else.
 *
 * @typedef {{evt: string, ver: number, kind: string, at: string, actor?: string, text: string, fields?: Object<string, string>, icon: string,
 *   tone: string, score?: boolean, state: 'live'|'corrected'|'retracted', reason?: string, amended_at?: string}} Line
 *
 * An Entry is a line and what this watcher saw of it. Entries are never changed, only replaced, so `===` tells whether a row is up to date.
 * `late`: it came live, below a line already held. `revealed`: it was hidden until the game was released. `before`: what it said earlier
 * while this watcher looked, newest last; empty once it is retracted.
 * @typedef {{line: Line, late: boolean, revealed: boolean, before: string[]}} Entry
 *
 * What one frame did. `ask`: the cursor cannot be trusted to catch up by itself, subscribe again with `since`.
 * @typedef {{t: string, placed: Entry[], changed: Entry[], revealed: Entry[], header: boolean, ask: boolean}} Change
 */
export class FeedState {
  /** @type {string|null} */ epoch = null;
  ver = 0;
  /** @type {Entry[]} newest first */ entries = [];
  older = false;
  newer = false;
  /** How many lines came in above the stretch while `newer`. */
  above = 0;
  /** @type {object|null} the game object: title, status, mode, counts, board ... */ header = null;
  /** @type {number|null} watchers by the last tick, approximate */ watchers = null;
  /** @type {{code: string, msg: string}|null} the server's refusal of this game, until it answers otherwise */ refusal = null;
  /** The version that the last tick spoke of: above `ver` it betrays a lost tail. */
  announced = 0;
  /** Whether the reader is at the newest line: then the oldest are let go of beyond `keep`, otherwise the newest beyond ten times that. */
  following = true;

  #keep;
  #top = '';
  #hidden = false; // whether lines of this game are hidden that a release would show
  #ahead = null; // a header of which the lines are yet to come
  #tickets = new Set(); // pages on their way
  #aside = new Map(); // what changed since the first of them was asked for

  /** @param {string} game @param {{keep?: number}} [options] keep: lines held while following, 500 by default */
  constructor(game, { keep = 500 } = {}) {
    this.game = game;
    this.#keep = keep;
  }

  /** What to resume from, `<epoch>:<ver>`, or null before the first snapshot. */
  get cursor() {
    return this.epoch === null ? null : `${this.epoch}:${this.ver}`;
  }

  /** The newest EVT id this watcher ever saw of the game, '' before any. */
  get top() {
    return this.#top;
  }

  /** @param {object} frame a frame of this game (of a tick: its whole) @returns {Change} */
  apply(frame) {
    const change = { t: frame.t, placed: [], changed: [], revealed: [], header: false, ask: false };
    switch (frame.t) {
      case 'snap': this.#snap(frame, change); break;
      case 'delta':
      case 'lines': this.#follow(frame, change); break;
      case 'game': this.#head(frame.game, change); break;
      case 'tick': this.#tick(frame, change); break;
      case 'err': this.refusal = { code: frame.code, msg: frame.msg }; break;
    }
    return change;
  }

  #snap(frame, change) {
    const known = new Map(this.entries.map((entry) => [entry.line.evt, entry]));
    if (frame.epoch !== this.epoch) this.header = null;
    this.epoch = frame.epoch;
    this.ver = this.announced = frame.to;
    this.refusal = null;
    this.newer = false;
    this.above = 0;
    this.older = Boolean(frame.older);
    this.entries = frame.lines.map((line) => {
      const held = known.get(line.evt);
      if (held) return held.line.ver === line.ver && same(held.line, line) ? held : amended(held, line);
      const entry = fresh(line);
      change.placed.push(entry);
      return entry;
    });
    this.#tickets.clear();
    this.#aside.clear();
    this.#ahead = null;
    this.#hidden = frame.game?.released === false && !frame.lines.some(({ score }) => score);
    this.#raise();
    if (frame.game) this.#head(frame.game, change);
    this.#trim();
  }

  #follow(frame, change) {
    if (this.epoch === null) return; // nothing live comes before the snapshot
    this.refusal = null;
    if (frame.epoch !== this.epoch || frame.from > this.ver) {
      change.ask = true;
      return;
    }
    if (frame.to <= this.ver) return;
    const top = this.#top; // late is what lands below what was held before this frame
    const released = this.#hidden ? releasedOf(frame.lines) : [];
    for (const line of frame.lines) this.#put(line, top, change, released.includes(line));
    this.ver = frame.to;
    if (this.#ahead) this.#head(this.#ahead, change);
    if (this.header?.released || (released.length > 0 && frame.lines.length < PIECE && !this.#ahead?.released)) this.#hidden = false;
    for (const entry of change.placed) if (entry.line.evt > this.#top) this.#top = entry.line.evt;
    this.#trim();
  }

  #put(line, top, change, released = false) {
    if (this.#tickets.size > 0) this.#aside.set(line.evt, line);
    const { index, held } = this.#find(line.evt);
    if (held) {
      if (line.ver <= held.line.ver) return;
      this.entries[index] = amended(held, line);
      change.changed.push(this.entries[index]);
      return;
    }
    if ((index === this.entries.length && this.older) || (index === 0 && this.newer)) {
      if (index === 0 && line.evt > this.#top) {
        this.above++;
        this.#top = line.evt;
      }
      return;
    }
    const below = line.evt < top;
    const entry = fresh(line, below && !released, below && released);
    this.entries.splice(index, 0, entry);
    change.placed.push(entry);
    if (entry.revealed) change.revealed.push(entry);
  }

  #head(game, change) {
    const next = parseCursor(game.cursor);
    if (!next || next.epoch !== this.epoch) return;
    const last = this.header && parseCursor(this.header.cursor);
    if (last && next.ver <= last.ver) return;
    if (next.ver > this.ver) {
      if (!this.#ahead || next.ver > parseCursor(this.#ahead.cursor).ver) this.#ahead = game;
      return;
    }
    if (game === this.#ahead) this.#ahead = null;
    this.header = game;
    change.header = true;
    if (game.released) this.#hidden = false;
  }

  #tick(frame, change) {
    const mine = frame.games.find((each) => each.g === this.game);
    if (!mine) return;
    if (mine.watchers !== undefined && mine.watchers !== this.watchers) {
      this.watchers = mine.watchers;
      change.header = true;
    }
    this.announced = mine.to;
  }

  /**
   * To be called when a page of the timeline is asked for; its ticket is handed to `add` with the answer, or to `drop` without one. In
   * between, changes are kept, so that the page joins without a gap, whatever is committed meanwhile. A fresh snapshot voids all tickets.
   * @param {'older'|'newer'|'around'} part
   */
  expect(part) {
    const ticket = { part, edge: this.edge(part) };
    this.#tickets.add(ticket);
    return ticket;
  }

  /**
   * Joins a page to the stretch, or makes it the stretch (`around`). Its `older` and `newer` say whether more exist beyond it.
   * @param {{lines: Line[], older?: boolean, newer?: boolean}} page newest first
   * @returns {boolean} false where the stretch moved since the page was asked for: ask again
   */
  add(ticket, page) {
    const { part, edge } = ticket;
    const welcome = this.#tickets.has(ticket) && (part === 'around' || edge === this.edge(part));
    if (welcome) {
      const entries = page.lines.map((line) => this.entry(line.evt) ?? fresh(line));
      if (part === 'around') this.entries = entries;
      else if (part === 'older') this.entries = this.entries.concat(entries.filter(({ line }) => !edge || line.evt < edge));
      else this.entries = entries.filter(({ line }) => !edge || line.evt > edge).concat(this.entries);
      if (part !== 'newer') this.older = Boolean(page.older);
      if (part !== 'older') this.newer = Boolean(page.newer);
      const change = { placed: [], changed: [], revealed: [] };
      for (const line of [...this.#aside.values()]) this.#put(line, '', change);
      if (!this.newer) this.above = 0;
      this.#raise();
      this.#trim();
    }
    this.drop(ticket);
    return welcome;
  }

  /** Takes an unanswered ticket back. */
  drop(ticket) {
    this.#tickets.delete(ticket);
    if (this.#tickets.size === 0) this.#aside.clear();
  }

  /** The EVT id beyond which a page of that part continues the stretch; undefined while it is empty. */
  edge(part) {
    return (part === 'older' ? this.entries.at(-1) : this.entries[0])?.line.evt;
  }

  /** The index at which `evt` stands in `entries`, or would stand. */
  place(evt) {
    return this.#find(evt).index;
  }

  /** How many of the lines this watcher heard of stand above `evt`. */
  countAbove(evt) {
    return this.place(evt) + this.above;
  }

  /** @returns {Entry|undefined} */
  entry(evt) {
    return this.#find(evt).held;
  }

  #raise() {
    const first = this.entries[0]?.line.evt ?? '';
    if (first > this.#top) this.#top = first;
  }

  // Bounded for a page that is open for days: at the edge the oldest go, in the past the newest (they are a page away).
  #trim() {
    if (this.following && !this.newer) {
      if (this.entries.length <= this.#keep) return;
      this.entries.length = this.#keep;
      this.older = true;
    } else if (this.entries.length > 10 * this.#keep) {
      const excess = this.entries.length - 10 * this.#keep;
      this.entries.splice(0, excess);
      this.above += excess;
      this.newer = true;
    }
  }

  // Where `evt` stands or would stand in the newest-first stretch.
  #find(evt) {
    let low = 0;
    let high = this.entries.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.entries[middle].line.evt > evt) low = middle + 1;
      else high = middle;
    }
    const held = this.entries[low];
    return { index: low, held: held?.line.evt === evt ? held : undefined };
  }
}

/** @returns {{epoch: string, ver: number}|null} */
export function parseCursor(cursor) {
  const colon = typeof cursor === 'string' ? cursor.lastIndexOf(':') : -1;
  const ver = Number(cursor?.slice(colon + 1));
  return colon < 1 || !Number.isInteger(ver) ? null : { epoch: cursor.slice(0, colon), ver };
}

function fresh(line, late = false, revealed = false) {
  return { line, late, revealed, before: [] };
}

// The lines of a frame that the release gave out: it moves all that were hidden to versions of their own, above all others, in one commit.
// What cannot be hidden is not among them, and where such a line follows them the release was over by then. Of a removed line none can tell.
function releasedOf(lines) {
  const first = lines.findIndex(({ score }) => score);
  if (first < 0) return [];
  const rest = lines.slice(first);
  const end = rest.findIndex(({ score, state }) => !score && state !== 'retracted');
  return end < 0 ? rest : rest.slice(0, end);
}

function amended(held, line) {
  let before = held.before;
  if (line.state === 'retracted') before = [];
  else if (held.line.state !== 'retracted' && held.line.text !== line.text) before = [...before, held.line.text].slice(-10);
  return { ...held, line, before };
}

function same(a, b) {
  return a.text === b.text && a.state === b.state && a.reason === b.reason && a.tone === b.tone && a.icon === b.icon;
}
