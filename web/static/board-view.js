import { el, icon, setText } from './dom.js';

const points = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 }).format;

/** The board: best score of each player, best first. Rows are kept by player, so that a climb is seen as one. */
export class BoardView {
  #root;
  #list;
  #leader;
  #note;
  #rows = new Map();

  /** @param {HTMLElement} root `aside.board` with `.board-toggle`, `.board-leader`, `.board-note` and `ol` in it */
  constructor(root) {
    this.#root = root;
    this.#list = root.querySelector('ol');
    this.#leader = root.querySelector('.board-leader');
    this.#note = root.querySelector('.board-note');
    const toggle = root.querySelector('.board-toggle');
    toggle.addEventListener('click', () => {
      const open = root.toggleAttribute('data-open');
      toggle.setAttribute('aria-expanded', String(open));
    });
  }

  /** @param {object} game the header @param {string} note what to say where the board is empty */
  update({ board = [], counts }, note) {
    const best = Math.max(1, ...board.map(({ score }) => score));
    const tops = this.#tops();
    const ranks = new Map();
    board.forEach(({ score }, i) => ranks.has(score) || ranks.set(score, i + 1)); // ties share a rank
    const rows = board.map(({ player, score }) => {
      const row = this.#rows.get(player) ?? boardRow(player);
      setText(row.querySelector('.rank'), String(ranks.get(score)));
      setText(row.querySelector('.score'), points(score));
      row.toggleAttribute('data-first', ranks.get(score) === 1);
      row.querySelector('.bar').style.setProperty('inline-size', `${Math.max(0, (100 * score) / best)}%`);
      return [player, row];
    });
    this.#rows = new Map(rows);
    const nodes = rows.map(([, row]) => row);
    if (nodes.length !== this.#list.children.length || nodes.some((node, i) => node !== this.#list.children[i])) {
      this.#list.replaceChildren(...nodes);
      this.#climb(tops);
    }
    this.#lead(board[0], note);
    setText(this.#note, board.length === 0 ? note : counts?.players > board.length ? `The best ${board.length} of ${counts.players} players` : '');
    this.#root.toggleAttribute('data-empty', board.length === 0);
  }

  // The name stands isolated, so that a right-to-left one does not turn the score to its other side.
  #lead(first, note) {
    const text = first ? `${first.player} · ${points(first.score)}` : note;
    if (this.#leader.textContent === text) return;
    this.#leader.replaceChildren(...(first ? [el('bdi', {}, first.player), ` · ${points(first.score)}`] : [note]));
  }

  #tops() {
    return new Map([...this.#rows].map(([player, row]) => [player, row.offsetTop]));
  }

  #climb(tops) {
    if (matchMedia('(prefers-reduced-motion: reduce)').matches) return;
    for (const [player, row] of this.#rows) {
      const moved = (tops.get(player) ?? row.offsetTop) - row.offsetTop;
      if (moved) row.animate([{ transform: `translateY(${moved}px)` }, { transform: 'none' }], { duration: 320, easing: 'ease-out' });
    }
  }
}

function boardRow(player) {
  return el('li', {}, el('span', { class: 'rank' }), el('bdi', { class: 'player', title: player }, player), icon('crown'), el('span', { class: 'score' }),
    el('span', { class: 'bar', 'aria-hidden': 'true' }));
}
