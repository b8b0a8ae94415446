const PAUSE = 8_000; // ms between two announcements, at least

/**
 * Tells screen readers what happened, as one short digest at a time: a feed of fifty lines a second must not drown its reader.
 */
export class Announcer {
  #region;
  #lines = 0;
  #newest = null;
  #edits = 0;
  #revealed = 0;
  #words = '';
  #timer = null;
  #last = 0;

  /** @param {HTMLElement} region a polite live region */
  constructor(region) {
    this.#region = region;
  }

  on = true;

  /** @param {import('./feed-state.js').Change} change */
  note({ t, placed, changed, revealed }) {
    if (t !== 'lines' && t !== 'delta') return;
    this.#lines += placed.length - revealed.length;
    this.#edits += changed.length;
    this.#revealed += revealed.length;
    for (const { line, revealed: was } of placed) if (!was && !(this.#newest?.evt > line.evt)) this.#newest = line;
    if (placed.length + changed.length > 0) this.#plan();
  }

  /** Something about the page itself: the connection, a key. The newest of them is said. */
  say(words) {
    this.#words = words;
    this.#plan();
  }

  #plan() {
    if (!this.on) return this.#forget();
    this.#timer ??= setTimeout(() => this.#speak(), Math.max(500, this.#last + PAUSE - Date.now()));
  }

  #speak() {
    const parts = [];
    if (this.#words) parts.push(this.#words);
    if (this.#revealed > 0) parts.push(`Revealed: ${this.#revealed} ${this.#revealed === 1 ? 'line' : 'lines'} that had been hidden`);
    if (this.#lines > 0) parts.push(`${this.#lines} new, ${this.#newest.text || 'removed'}`);
    if (this.#edits > 0) parts.push(`${this.#edits} changed`);
    if (parts.length > 0) this.#region.textContent = `${parts.join('. ')}.`;
    this.#last = Date.now();
    this.#forget();
  }

  #forget() {
    clearTimeout(this.#timer);
    this.#timer = this.#newest = null;
    this.#lines = this.#edits = this.#revealed = 0;
    this.#words = '';
  }
}
