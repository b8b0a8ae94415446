/**
 * What a reader looks for in a game: lines of a kind, of a player, with a text in them. The law is the server's own (`timeline?kind=&actor=&q=`),
 * so that what is loaded and what is not answer alike: kind and player are matched whole, the text is found, whatever its case, in the values of
 * a line's fields or in the words of a correction. A removed line says nothing, so it matches nothing.
 */
import { FeedState } from './feed-state.js';

const FIELDS = ['kind', 'actor', 'q'];
const LONGEST = 50; // characters of a text: the server takes 200 bytes

export class Filter {
  #text;

  /** @param {{kind?: string, actor?: string, q?: string}} [wanted] */
  constructor({ kind = '', actor = '', q = '' } = {}) {
    Object.assign(this, { kind, actor, q: q.trim().slice(0, LONGEST) });
    this.#text = this.q.toLowerCase();
  }

  /** Reads the filter out of an address. @param {string} search */
  static from(search) {
    return new Filter(Object.fromEntries([...new URLSearchParams(search)].filter(([name]) => FIELDS.includes(name))));
  }

  /** The filter as a query, '' where it lets everything through. */
  get query() {
    return new URLSearchParams(FIELDS.filter((name) => this[name]).map((name) => [name, this[name]])).toString();
  }

  get on() {
    return this.query !== '';
  }

  /** @param {import('./feed-state.js').Line} line */
  matches(line) {
    if (!this.on) return true;
    if (line.state === 'retracted' || (this.kind && line.kind !== this.kind) || (this.actor && line.actor !== this.actor)) return false;
    return !this.#text || this.#says(line);
  }

  #says({ fields = {}, state, text }) {
    const words = state === 'corrected' ? [text, ...Object.values(fields)] : Object.values(fields);
    return words.some((word) => word.toLowerCase().includes(this.#text));
  }
}

/**
 * The matches in a game, as a FeedState of them alone: first those among the lines that `source` holds, then, page by page, the server's. It is
 * to be given every frame after the source was. A line that is shown stays, whatever is amended on it.
 */
export class Found extends FeedState {
  /** How many lines came in since the search began that do not match. */
  passed = 0;

  #source;
  #filter;
  #floor; // where no match is held the search goes on below it
  #changed = new Map(); // lines below what is held that match no more: a page on its way may still have them as they were

  /** @param {FeedState} source of which a snapshot came @param {Filter} filter */
  constructor(source, filter) {
    super(source.game);
    this.#source = source;
    this.#filter = filter;
    this.#begin({ t: 'snap', epoch: source.epoch, to: source.ver, game: source.header, lines: source.entries.map(({ line }) => line), older: source.older });
  }

  /** @param {object} frame @param {import('./feed-state.js').Entry[]} [placed] what the source placed of it */
  apply(frame, placed = []) {
    if (frame.t === 'snap') return this.#begin(frame);
    if (!frame.lines) return super.apply(frame);
    this.passed += placed.filter(({ line }) => !this.#filter.matches(line)).length;
    const lines = frame.lines.filter((line) => this.entry(line.evt) || this.#filter.matches(line));
    const edge = this.edge('older');
    for (const line of frame.lines) if (line.evt < edge && !lines.includes(line)) this.#changed.set(line.evt, line);
    return this.#marked(super.apply({ ...frame, lines }), lines);
  }

  edge(part) {
    return super.edge(part) ?? this.#floor;
  }

  add(ticket, page) {
    return super.add(ticket, { ...page, lines: page.lines.filter(({ evt, ver }) => !(this.#changed.get(evt)?.ver > ver)) });
  }

  #begin(frame) {
    this.#floor = frame.lines.at(-1)?.evt;
    this.#changed.clear();
    const lines = frame.lines.filter((line) => this.#filter.matches(line));
    return this.#marked(super.apply({ ...frame, lines }), lines);
  }

  // The source knows more of a line than that it matches: that it was late or hidden, or what it said before.
  #marked(change, lines) {
    for (const { evt } of lines) {
      const known = this.#source.entry(evt);
      if (known && this.entry(evt)) this.entries[this.place(evt)] = known;
    }
    change.placed = change.placed.map((entry) => this.entry(entry.line.evt) ?? entry);
    change.revealed = change.placed.filter(({ revealed }) => revealed);
    return change;
  }
}
