import { lineView, refreshTime } from './line-view.js';

const MOST_ROWS = 500; // in the document
const ROWS_AT_EDGE = 150; // while following: enough for any screen, and cheap to push down
const STEP = 100; // rows by which the window grows
const NEAR = 1200; // px from an end of the window at which it grows
const EDGE = 8; // px from the top of the page that still count as "at the edge"
const GENTLE = 6; // rows that light up at a time: in a rush there is no point in it, and it costs frames

/**
 * The rows of a feed: a window onto the entries of a FeedState. While the reader is at the top of the page it follows the newest line;
 * elsewhere, or paused, the window stays where it is and the first visible row keeps its pixel position, whatever happens above, in or
 * below it. The page itself scrolls.
 */
export class FeedList {
  paused = false;

  #root;
  #state;
  #now;
  #rows = new Map(); // evt -> {entry, node}
  #hi = ''; // the window: the EVT ids of its first and last row
  #lo = '';
  #atEdge = true;
  #returning = false; // to the edge, as soon as its lines are here
  #seen = ''; // the newest line the reader had on screen
  #shown = ''; // the newest line of the last frame
  #lit; // the rows that light up, as the browser counts them
  #mark = ''; // the row above which everything is new since the reader looked last
  #target = ''; // the line that the address names
  #left = ''; // the newest line when the reader left a page that followed

  /**
   * @param {HTMLElement} root the `role=feed` element, a direct part of the page's flow
   * @param {import('./feed-state.js').FeedState} state
   * @param {() => number} now the server's clock
   */
  constructor(root, state, now) {
    this.#root = root;
    this.#state = state;
    this.#now = now;
    this.#lit = root.getElementsByClassName('arrived');
    root.addEventListener('animationend', ({ target }) => target.classList.remove('arrived', 'changed'));
  }

  /** Shows the entries of another state of the same game, from the newest on. */
  use(state) {
    this.#state = state;
    this.#divide('');
    this.#atEdge = true;
    this.#returning = false;
    this.#hi = this.#lo = '';
    window.scrollTo({ top: 0, behavior: 'instant' });
  }

  /** Whether new lines are shown as they come. */
  get following() {
    return !this.paused && this.#atEdge && !this.#state.newer;
  }

  /** How many lines came that the reader has not had on screen. */
  get unseen() {
    return this.following || this.#seen === '' ? 0 : this.#state.countAbove(this.#seen);
  }

  /** Whether rows would appear above or below if the reader went on; `held` ones are here, the others a page of the server away. */
  get above() {
    if (this.#state.place(this.#hi) > this.#ceiling()) return 'held';
    return this.#state.newer && !this.paused ? 'page' : '';
  }

  get below() {
    return this.#end() < this.#state.entries.length ? 'held' : this.#state.older ? 'page' : '';
  }

  /**
   * Brings the page up to date. `others` may change anything else of it in the same breath, also above the rows: the reader's place is kept
   * over all of it.
   */
  render(others = () => {}) {
    const following = this.following;
    this.#state.following = following;
    if (following) this.#returning = false;
    const place = following ? null : this.#place();
    const first = this.#root.firstElementChild;
    const top = first?.getBoundingClientRect().top;
    others();
    const arrived = this.#reconcile(following);
    if (place) this.#restore(place);
    else if (arrived > 0 && this.#lit.length < GENTLE && first?.isConnected) this.#slide(first.getBoundingClientRect().top - top);
    this.#look();
  }

  /** To be called when the page was scrolled: says what is wanted next, 'older', 'newer' (pages of the server) or ''. */
  scrolled() {
    this.#returning &&= window.scrollY <= EDGE;
    if (this.#returning) return '';
    if (this.#rows.size === 0) return this.below === 'page' ? 'older' : '';
    this.#atEdge = window.scrollY <= EDGE && this.above === '';
    let wanted = '';
    const near = {
      below: () => this.#root.getBoundingClientRect().bottom - window.innerHeight < NEAR,
      above: () => this.#root.getBoundingClientRect().top > -NEAR,
    };
    while (this.below && near.below() && !wanted) wanted = this.#grow('below') ? '' : 'older';
    while (this.above && near.above() && !wanted) wanted = this.#grow('above') ? '' : 'newer';
    this.#look();
    return wanted;
  }

  /** Goes to the newest line and follows again: at once, or from the fresh snapshot on where the newest is not held. */
  toEdge() {
    this.#divide(this.#seen);
    this.paused = false;
    this.#atEdge = true;
    this.#returning = this.#state.newer;
    this.#hi = this.#lo = '';
    window.scrollTo({ top: 0, behavior: 'instant' });
  }

  /** Marks a line as the one that the address names, '' none. */
  mark(evt) {
    this.#rows.get(this.#target)?.node.removeAttribute('data-target');
    this.#target = evt;
    this.#rows.get(evt)?.node.setAttribute('data-target', '');
  }

  /** Shows a held line in the middle of the screen. @returns {boolean} false where it is not held */
  show(evt) {
    const { entries } = this.#state;
    if (!this.#state.entry(evt)) return false;
    const at = this.#state.place(evt);
    if (!this.#rows.has(evt)) {
      this.#hi = entries[Math.max(0, at - STEP)].line.evt;
      this.#lo = entries[Math.min(entries.length - 1, at + STEP)].line.evt;
    }
    this.#atEdge = this.#returning = false;
    this.#reconcile(false);
    const { node } = this.#rows.get(evt);
    this.mark(evt);
    node.scrollIntoView({ block: 'center', behavior: 'instant' });
    node.focus({ preventScroll: true });
    this.#atEdge = window.scrollY <= EDGE && this.above === '';
    return true;
  }

  /** Moves the focus by `step` rows, from the focused one or else from the first visible one. */
  move(step) {
    const focused = document.activeElement?.closest?.('#feed > .line');
    const from = focused ?? this.#firstVisible();
    const to = focused ? (step > 0 ? from.nextElementSibling : from.previousElementSibling) : from;
    to?.focus({ preventScroll: true });
    to?.scrollIntoView({ block: 'nearest', behavior: 'instant' });
  }

  /** The reader leaves (a hidden tab); what comes from here on is marked off when he returns. */
  leave() {
    this.#divide('');
    this.#left = this.following ? this.#shown : '';
  }

  return() {
    if (this.#left && this.#left !== this.#state.top) this.#divide(this.#left);
    this.#left = '';
  }

  /** Once a minute. */
  refreshTimes() {
    const now = this.#now();
    for (const { node } of this.#rows.values()) refreshTime(node, now);
  }

  // The index of the first entry that may be shown: paused, nothing newer than what was shown before.
  #ceiling() {
    return this.paused ? this.#state.place(this.#shown) : 0;
  }

  #end() {
    return this.#state.place(this.#lo) + (this.#state.entry(this.#lo) ? 1 : 0);
  }

  // The entries that the window shows. Its bounds are ids, so lines that come in above it, within it or below it move nothing else.
  #window(following) {
    const { entries } = this.#state;
    let [start, end] = [0, Math.min(entries.length, ROWS_AT_EDGE)];
    if (!following && this.#hi !== '') [start, end] = [this.#state.place(this.#hi), this.#end()];
    if (start >= end) [start, end] = [Math.max(0, Math.min(start, entries.length) - STEP), Math.min(entries.length, start + STEP)];
    const part = entries.slice(start, Math.min(end, start + MOST_ROWS));
    this.#hi = part[0]?.line.evt ?? '';
    this.#lo = part.at(-1)?.line.evt ?? '';
    return part;
  }

  // @returns how many rows arrived on top
  #reconcile(following) {
    const part = this.#window(following);
    const wanted = new Map(part.map((entry) => [entry.line.evt, entry]));
    if (this.#rows.size === 0) this.#root.replaceChildren(); // the rows that the server rendered
    for (const [evt, { node }] of this.#rows) {
      if (wanted.has(evt)) continue;
      node.remove();
      this.#rows.delete(evt);
    }
    const before = this.#shown;
    const now = this.#now();
    let arrived = 0;
    let next = this.#root.firstElementChild;
    for (const entry of part) {
      const { evt } = entry.line;
      const row = this.#rows.get(evt);
      if (!row) {
        const node = lineView(entry, now);
        if (before && (entry.revealed || ((entry.late || evt > before) && this.#lit.length < GENTLE))) node.classList.add('arrived');
        if (before && evt > before) arrived++;
        this.#root.insertBefore(node, next);
        this.#rows.set(evt, { entry, node });
        continue;
      }
      next = row.node.nextElementSibling;
      if (row.entry !== entry) this.#replace(row, entry, now);
    }
    if (part.length > 0 && part[0].line.evt > this.#shown) this.#shown = part[0].line.evt;
    return arrived;
  }

  #replace(row, entry, now) {
    const node = lineView(entry, now);
    node.classList.add('changed');
    for (const name of ['data-seen', 'data-target']) node.toggleAttribute(name, row.node.hasAttribute(name));
    const details = node.querySelector('details');
    if (details) details.open = row.node.querySelector('details')?.open ?? false;
    const focused = row.node.contains(document.activeElement);
    row.node.replaceWith(node);
    if (focused) node.focus({ preventScroll: true });
    row.entry = entry;
    row.node = node;
  }

  #grow(side) {
    if ((side === 'above' ? this.above : this.below) !== 'held') return false;
    const { entries } = this.#state;
    const [start, end] = [this.#state.place(this.#hi), this.#end()];
    if (side === 'below') {
      const last = Math.min(entries.length, end + STEP) - 1;
      this.#lo = entries[last].line.evt;
      this.#hi = entries[Math.max(start, last - MOST_ROWS + 1)].line.evt;
    } else {
      const first = Math.max(this.#ceiling(), start - STEP);
      this.#hi = entries[first].line.evt;
      this.#lo = entries[Math.min(end, first + MOST_ROWS) - 1].line.evt;
    }
    const place = this.#place();
    this.#reconcile(false);
    if (place) this.#restore(place);
    return true;
  }

  #place() {
    const node = this.#firstVisible();
    return node && { evt: node.id, node, top: node.getBoundingClientRect().top };
  }

  #restore({ evt, top }) {
    const at = Math.min(this.#state.place(evt), this.#state.entries.length - 1);
    const node = (this.#rows.get(evt) ?? this.#rows.get(this.#state.entries[at]?.line.evt))?.node;
    const moved = node ? node.getBoundingClientRect().top - top : 0;
    if (moved !== 0) window.scrollTo({ top: window.scrollY + moved, behavior: 'instant' });
  }

  // The first row that ends below the sticky header.
  #firstVisible() {
    const rows = this.#root.children;
    const edge = document.querySelector('.top')?.getBoundingClientRect().bottom ?? 0;
    let [low, high] = [0, rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (rows[middle].getBoundingClientRect().bottom <= edge) low = middle + 1;
      else high = middle;
    }
    return rows[low] ?? null;
  }

  // Remembers the newest line that was on screen, unless nobody looks.
  #look() {
    if (document.hidden) return;
    const first = this.following ? this.#hi : (this.#firstVisible()?.id ?? '');
    if (first > this.#seen) this.#seen = first;
  }

  #divide(evt) {
    this.#rows.get(this.#mark)?.node.removeAttribute('data-seen');
    this.#mark = evt;
    this.#rows.get(evt)?.node.setAttribute('data-seen', '');
  }

  #slide(distance) {
    if (!(distance > 0) || document.hidden || matchMedia('(prefers-reduced-motion: reduce)').matches) return;
    this.#root.animate([{ transform: `translateY(${-distance}px)` }, { transform: 'none' }], {
      duration: 260, easing: 'cubic-bezier(.2, .8, .2, 1)', composite: 'add',
    });
  }
}
