import { el, icon, ICONS, setText } from './dom.js';
import { ago } from './clock.js';
import { facts, isFinal, modeName } from './game-view.js';
import { sayings } from './line-view.js';

const points = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 }).format;

/** The card of one game in the lobby: a link to its feed with its newest line on it. */
export class GameCard {
  #tenant;
  #title = el('h3', { class: 'card-title', dir: 'auto' });
  #mode = el('span', { class: 'badge' });
  #line = el('div', { class: 'card-line' });
  #facts = el('div', { class: 'card-facts' });
  #entry = null;

  constructor(tenant, game) {
    this.#tenant = tenant;
    this.node = el('a', { class: 'card', href: `/${tenant}/${game}`, 'data-game': game },
      el('div', { class: 'card-head' }, this.#title, this.#mode), this.#line, this.#facts);
  }

  /** @param {object} game the header @param {import('./feed-state.js').FeedState|null} state what is followed of it, if it is yet */
  update(game, state, now) {
    setText(this.#title, game.title || game.game);
    setText(this.#mode, modeName(game));
    this.#mode.dataset.mode = game.mode ?? '';
    this.node.toggleAttribute('data-final', isFinal(game));
    this.#newest(state?.entries[0] ?? null, game, now);
    const list = facts(game, state?.watchers ?? null, now).filter(([name]) => name !== 'lines');
    const key = JSON.stringify([list, game.board?.[0]]);
    if (this.#facts.dataset.key === key) return;
    this.#facts.dataset.key = key;
    const leader = game.board?.[0];
    this.#facts.replaceChildren(...list.map(([, symbol, text, label]) => el('span', { title: label }, icon(symbol), el('span', { class: 'sr' }, `${label}: `), text)),
      ...(leader ? [el('span', { title: 'Leader' }, icon('crown'), el('span', { class: 'sr' }, 'Leader: '), el('bdi', {}, leader.player), el('b', {}, points(leader.score)))] : []));
  }

  #newest(entry, { counts }, now) {
    const time = this.#line.querySelector('time');
    if (entry === this.#entry && this.#line.childElementCount > 0) {
      if (time) setText(time, ago(time.dateTime, now));
      return;
    }
    const arrived = this.#entry !== null;
    this.#entry = entry;
    if (!entry) {
      this.#line.replaceChildren(el('span', { class: 'dot' }, icon('clock')), el('p', {}, counts?.lines > 0 ? '' : 'Nothing has happened yet'));
      return;
    }
    const { line } = entry;
    const removed = line.state === 'retracted';
    this.#line.dataset.state = line.state;
    this.#line.dataset.tone = line.tone || 'plain';
    this.#line.replaceChildren(el('span', { class: 'dot' }, icon(removed ? 'eraser' : ICONS.has(line.icon) ? line.icon : 'question')),
      el('p', { dir: 'auto' }, ...sayings(line)), el('time', { datetime: line.at }, ago(line.at, now)));
    if (!arrived) return;
    this.node.classList.remove('fresh');
    requestAnimationFrame(() => this.node.classList.add('fresh'));
  }
}
