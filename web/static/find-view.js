import { Filter } from './find.js';
import { el, setText } from './dom.js';

const PAUSE = 150; // ms after a key before the text is looked for
const MOST = 500; // names offered

/** The bar in which a reader says what to look for. What it says stands in the address, so that it can be shared. */
export class FindView {
  /** What is looked for now. */
  filter = Filter.from(location.search);

  #root;
  #inputs;
  #report;
  #clear;
  #onfilter;
  #names = { kind: new Set(), actor: new Set() };
  #typing = null;
  #from = null; // where the focus was before

  /** @param {HTMLElement} root with `#q`, `#kind`, `#actor`, `#clear`, `#found` in it @param {(filter: Filter) => void} onfilter */
  constructor(root, onfilter) {
    this.#root = root;
    this.#onfilter = onfilter;
    this.#report = root.querySelector('#found');
    this.#clear = root.querySelector('#clear');
    this.#inputs = { q: root.querySelector('#q'), kind: root.querySelector('#kind'), actor: root.querySelector('#actor') };
    this.#fill();
    root.hidden = !this.filter.on;
    for (const select of [this.#inputs.kind, this.#inputs.actor]) select.addEventListener('change', () => this.#read());
    this.#inputs.q.addEventListener('input', () => {
      clearTimeout(this.#typing);
      this.#typing = setTimeout(() => this.#read(), PAUSE);
    });
    this.#clear.addEventListener('click', () => this.clear());
    root.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') this.#read();
      if (event.key !== 'Escape') return;
      event.preventDefault(); // a browser would empty the field
      event.stopPropagation();
      this.leave();
    });
  }

  get open() {
    return !this.#root.hidden;
  }

  /** To the text, from wherever the reader is. */
  enter() {
    this.#from = document.activeElement;
    this.#root.hidden = false;
    this.#inputs.q.focus({ preventScroll: true });
    this.#inputs.q.select();
  }

  /** Back to where the reader was. What is looked for stays. */
  leave() {
    this.#read();
    document.activeElement.blur();
    if (this.#from?.isConnected) this.#from.focus({ preventScroll: true });
    this.#root.hidden = !this.filter.on;
  }

  /** Looks for nothing any more. */
  clear() {
    this.#set(new Filter());
    this.#fill();
    this.#root.hidden = true;
  }

  /** Offers what lines and board name. */
  learn(entries, board = []) {
    const before = this.#names.kind.size + this.#names.actor.size;
    for (const { line } of entries) {
      this.#name('kind', line.kind);
      this.#name('actor', line.actor);
    }
    for (const { player } of board) this.#name('actor', player);
    if (this.#names.kind.size + this.#names.actor.size > before) this.#offer();
  }

  /** Says how the search stands. */
  report(text) {
    setText(this.#report, text);
  }

  #name(field, name) {
    if (name && this.#names[field].size < MOST) this.#names[field].add(name);
  }

  #offer() {
    for (const field of ['kind', 'actor']) {
      const select = this.#inputs[field];
      const offered = new Set([...select.options].map(({ value }) => value));
      for (const name of this.#names[field]) {
        if (offered.has(name)) continue;
        const label = field === 'kind' ? name.replaceAll('_', ' ') : name;
        const next = [...select.options].find((option) => option.value !== '' && option.label.localeCompare(label) > 0);
        select.insertBefore(el('option', { value: name }, label), next ?? null);
      }
    }
  }

  #fill() {
    this.#clear.hidden = !this.filter.on;
    for (const field of ['kind', 'actor']) this.#name(field, this.filter[field]);
    this.#offer();
    for (const [field, input] of Object.entries(this.#inputs)) input.value = this.filter[field];
  }

  #read() {
    clearTimeout(this.#typing);
    this.#set(new Filter({ q: this.#inputs.q.value, kind: this.#inputs.kind.value, actor: this.#inputs.actor.value }));
  }

  #set(filter) {
    if (filter.query === this.filter.query) return;
    this.filter = filter;
    this.#clear.hidden = !filter.on;
    history.replaceState(null, '', `${location.pathname}${filter.on ? `?${filter.query}` : ''}${location.hash}`);
    this.#onfilter(filter);
  }
}
