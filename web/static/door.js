/**
 * The door of a page that is not for everybody. The server answers unknown, foreign and private names by one closed page that says nothing of
 * what was asked for: what it is of stands in its address. A watch token opens it. It comes by hand, or in the fragment of a link,
 * `#token=...`, which no browser sends anywhere and which is taken out of the address at once; it is kept for this tab and shown to the server
 * in the socket's first frame and in a header, nowhere else.
 */
import { setText } from './dom.js';
import { tab } from './page.js';

const FRAGMENT = /^#token=(.+)$/;

// By close code; 404 where the server knows the token and has nothing here for it.
const WHY = {
  404: 'Your token opens nothing here, or not yet. This page looks again every 10 seconds.',
  4503: 'It is watched with a token of its own only.',
  4504: 'The token is not good: it has run out, was revoked, or was not copied whole.',
};

export class Door {
  /** Whether the server gave the page out closed. */
  closed = document.body.dataset.tenant === undefined;
  tenant;
  /** '' on the page of a tenant's games. */
  game;
  /** What the reader has to show, '' nothing. */
  token = '';

  #root;
  #input;
  #enter = () => {};

  /** @param {HTMLElement} root `section.door` with `#door-why`, `#door-form` and `#token` in it */
  constructor(root) {
    const [, tenant, game = ''] = location.pathname.split('/');
    ({ tenant: this.tenant = tenant, game: this.game = game } = document.body.dataset);
    this.#root = root;
    this.#input = root.querySelector('#token');
    const linked = this.#take();
    if (this.closed && linked) this.#use(linked);
    else if (this.closed) this.token = tab.read(this.#key, '');
    root.querySelector('#door-form').hidden = false;
    root.querySelector('#door-form').addEventListener('submit', (event) => {
      event.preventDefault();
      this.#use(this.#input.value.trim());
    });
    addEventListener('hashchange', () => {
      const token = this.#take();
      if (this.closed || !root.hidden) this.#use(token); // what everybody may watch needs none
    });
  }

  /** Waits until the page is for everybody or there is a token to show, and names the page as the server would have. */
  async pass() {
    if (!this.closed) return;
    if (!this.token) await new Promise((done) => this.onenter(done));
    this.shut();
    document.getElementById('title').textContent = this.game || this.tenant;
    document.title = this.game || `${this.tenant} · games`;
    const back = document.getElementById('back');
    if (!back) return;
    back.href = `/${this.tenant}/`;
    back.firstElementChild.textContent = this.tenant;
    back.hidden = false;
  }

  /** Has `enter` called with each token from now on. */
  onenter(enter) {
    this.#enter = enter;
  }

  /** Asks for a token. @param {number} code why, of a close or an answer @returns {boolean} whether another token could help */
  ask(code) {
    if (!Object.hasOwn(WHY, code)) return false;
    if (code === 4504) tab.write(this.#key, '');
    setText(this.#root.querySelector('#door-why'), WHY[code]);
    this.#root.hidden = false;
    return true;
  }

  shut() {
    if (this.#root.hidden) return;
    this.#root.hidden = true;
    this.#input.value = '';
  }

  get #key() {
    return `feed.token.${this.tenant}`;
  }

  // The token of the address, which leaves it.
  #take() {
    const token = FRAGMENT.exec(location.hash)?.[1] ?? '';
    if (token) history.replaceState(null, '', location.pathname + location.search);
    return token;
  }

  #use(token) {
    if (!token) return;
    this.token = token;
    tab.write(this.#key, token);
    this.#enter(token);
  }
}
