import { count, el, setText } from './dom.js';
import { ago, exact } from './clock.js';

const PAGE = 20;
const AGAIN = [1_500, 5_000, 15_000]; // ms after a retry at which letters that failed again are looked for

/** The dead letters of the games that have some, game by game. What is open or has the focus stays as it is when they are read anew. */
export class LettersView {
  #root;
  #said;
  #ask;
  #games = new Map();

  /**
   * @param {HTMLElement} root
   * @param {HTMLElement} said where what was done is said
   * @param {(path: string, options?: object) => Promise<Response>} ask below .../streams/; throws but for 404
   */
  constructor(root, said, ask) {
    this.#root = root;
    this.#said = said;
    this.#ask = ask;
  }

  clear() {
    this.#games.clear();
    this.#root.replaceChildren();
    setText(this.#said, '');
  }

  /** @param {object[]} streams the rows of a streams frame */
  update(streams) {
    const having = new Map(streams.filter(({ game, dead_letters: n }) => game && n > 0).map((row) => [row.game, row.dead_letters]));
    for (const id of this.#games.keys()) if (!having.has(id)) this.#show(id, [], 0);
    for (const [id, n] of having) if (this.#games.get(id)?.count !== n) this.#read(id, n);
    if (having.size === 0 && this.#games.size === 0) setText(this.#said, this.#said.textContent || 'None.');
  }

  async #read(id, n) {
    const game = this.#games.get(id) ?? this.#add(id);
    game.count = n;
    const turn = ++game.turn;
    try {
      const answer = await this.#ask(`${id}/dead-letters?limit=${game.wanted}`);
      const { dead_letters: letters, next } = await answer.json();
      if (turn !== game.turn) return;
      setText(game.trouble, '');
      if (letters) this.#show(id, letters, next ? Math.max(n, letters.length + 1) : letters.length);
    } catch (err) {
      if (turn !== game.turn) return;
      game.count = -1; // and so it is read again with the next frame
      setText(game.trouble, `Its dead letters did not come: ${err.message}.`); // beside what was done, which is said until something else is
    }
  }

  #add(id) {
    const list = el('ol', { class: 'letters' });
    const total = el('span', { class: 'letters-count' });
    const more = el('button', { type: 'button', class: 'act', hidden: true, onclick: () => {
      game.wanted += PAGE;
      this.#read(id, game.count);
    } }, 'More');
    const all = twice('Retry all', (n) => `Retry all ${count(n())}?`, () => game.count, () => this.#every(id));
    const trouble = el('p', { class: 'letters-trouble plain-note', role: 'status' });
    const node = el('section', { class: 'letters-game', 'data-game': id }, el('header', {}, el('h3', { dir: 'auto' }, id), total, all), trouble, list, more);
    const game = { node, list, total, more, trouble, count: 0, wanted: PAGE, turn: 0, rows: new Map() };
    this.#games.set(id, game);
    this.#root.append(node);
    setText(this.#said, '');
    return game;
  }

  #show(id, letters, total) {
    const game = this.#games.get(id);
    if (letters.length === 0 && total === 0) {
      game.node.remove();
      this.#games.delete(id);
      if (this.#games.size === 0 && !this.#said.textContent) setText(this.#said, 'None.');
      return;
    }
    setText(game.total, total === 1 ? 'one' : count(total));
    game.more.hidden = letters.length >= total;
    const present = new Set(letters.map((letter) => letter.id));
    for (const [letter, row] of game.rows) {
      if (present.has(letter)) continue;
      row.remove();
      game.rows.delete(letter);
    }
    for (const letter of letters) {
      if (game.rows.has(letter.id)) continue;
      const row = this.#row(id, letter);
      game.rows.set(letter.id, row);
      game.list.append(row);
    }
  }

  #row(id, letter) {
    const { fields, past, kind, reason, attempts } = letter;
    const first = past[0]?.at ?? letter.at;
    const facts = [
      attempts === 1 ? 'one attempt' : `${count(attempts)} attempts`,
      past.length > 0 && (past.length === 1 ? 'retried once' : `retried ${count(past.length)} times`),
    ].filter(Boolean).join(', ');
    const when = el('time', { datetime: letter.at, title: exact(letter.at) }, ago(letter.at, Date.now()));
    const more = el('details', {}, el('summary', {}, 'Fields and history'), el('dl', { class: 'fields' },
      ...fields.flatMap(({ name, value, bytes }) => [el('dt', { dir: 'auto' }, name), el('dd', { dir: 'auto' }, value, bytes > new TextEncoder().encode(value).length && el('i', {}, ` … ${count(bytes)} bytes`))]),
      letter.more_fields && el('dt', {}, '…')),
    el('p', {}, `Entry ${letter.entry}${letter.evt ? `, event ${letter.evt}` : ''}. Delivered last ${exact(letter.delivered_at)}, to ${letter.consumer}. First given up on ${exact(first)}.`),
    ...past.map((each) => el('p', { dir: 'auto' }, `Retried after ${exact(each.at)}: ${count(each.attempts)} attempts, ${each.reason}`)));
    return el('li', { class: 'letter', id: `letter-${id}-${letter.id}` },
      el('div', { class: 'letter-head' }, el('b', { dir: 'auto' }, kind), when, el('span', {}, facts)),
      el('p', { class: 'letter-reason', dir: 'auto' }, reason),
      more,
      el('div', { class: 'acts' },
        el('button', { type: 'button', class: 'act strong', 'data-act': 'retry', onclick: (event) => this.#do(event.currentTarget, id, letter, 'retry') }, 'Retry', el('span', { class: 'sr' }, ` ${kind}`)),
        twice('Drop', () => 'Drop for good?', null, (button) => this.#do(button, id, letter, 'drop'))));
  }

  async #do(button, id, letter, act) {
    const held = button.contains(document.activeElement); // and loses the focus by being disabled
    button.disabled = true;
    const path = `${id}/dead-letters/${letter.id}`;
    try {
      const answer = await (act === 'retry' ? this.#ask(`${path}/retry`, { method: 'POST' }) : this.#ask(path, { method: 'DELETE' }));
      if (answer.status === 404) this.#say('It was retried or dropped meanwhile.');
      else this.#say(act === 'retry' ? `${letter.kind} is rendered once more: it becomes a line in its place, or comes back here.` : `${letter.kind} was dropped.`);
      this.#moveOn(id, letter.id, held);
      this.#readAgain(id);
    } catch (err) {
      button.disabled = false;
      if (held) button.focus();
      this.#say(`Nothing was done: ${err.message}.`);
    }
  }

  async #every(id) {
    try {
      const answer = await this.#ask(`${id}/dead-letters/retry?all=true`, { method: 'POST' });
      if (!answer.ok) throw new Error('it is not there');
      const { done, more } = await answer.json();
      this.#say(`${count(done)} of ${id} are rendered once more${more ? '; there are others' : ''}. Those that fail again come back here.`);
      this.#readAgain(id);
    } catch (err) {
      this.#say(`Not all was done: ${err.message}.`);
    }
  }

  // The letter goes, and the focus, where it was on it, to what stands in its place.
  #moveOn(id, letter, held) {
    const game = this.#games.get(id);
    const row = game?.rows.get(letter);
    if (!row) return;
    const near = row.nextElementSibling ?? row.previousElementSibling;
    row.remove();
    game.rows.delete(letter);
    if (held) (near?.querySelector('button') ?? document.getElementById('operations')).focus();
  }

  #readAgain(id) {
    for (const pause of [0, ...AGAIN]) setTimeout(() => this.#games.has(id) && this.#read(id, this.#games.get(id).count), pause);
  }

  #say(text) {
    setText(this.#said, text);
  }
}

/** A button that asks before it does: the first press changes what it says, the second within 5 s does it. */
function twice(label, question, value, act) {
  let sure = null;
  const rest = () => {
    clearTimeout(sure);
    sure = null;
    button.textContent = label;
    delete button.dataset.sure;
  };
  const button = el('button', { type: 'button', class: 'act', 'data-act': label.toLowerCase().replace(' ', '-'), onblur: rest, onclick: () => {
    if (sure === null) {
      button.textContent = question(value);
      button.dataset.sure = 'true';
      sure = setTimeout(rest, 5_000);
      return;
    }
    rest();
    act(button);
  } }, label);
  return button;
}
