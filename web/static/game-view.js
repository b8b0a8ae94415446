import { count, el, icon, setText } from './dom.js';
import { left } from './clock.js';

const STATUS = { gathering: 'Gathering', open: 'Open', revealing: 'Revealing', settled: 'Settled', voided: 'Voided' };
const MODE = { classic: 'Classic', golden: 'Golden room', blind: 'Blind' };

const statusName = (game) => STATUS[game.status] ?? game.status;
export const modeName = (game) => MODE[game.mode] ?? 'Mode not known';
export const isFinal = (game) => game?.status === 'settled' || game?.status === 'voided';

/** The facts of a game, in the order of the header: [name, icon, text, note]; those with nothing to say are left out. */
export function facts(game, watchers, now) {
  const time = isFinal(game) || !game.ends_at ? null : (left(game.ends_at, now) ?? 'over');
  return [
    ['status', 'flag', statusName(game), 'Status'],
    ['pool', 'coins', game.pool, 'Pool'],
    ['left', 'clock', time, 'Time left'],
    ['players', 'users', game.counts && count(game.counts.players), 'Players'],
    ['lines', 'lines', game.counts && count(game.counts.lines), 'Lines'],
    ['watchers', 'eye', watchers !== null && `≈ ${count(watchers)}`, 'Watching'],
  ].filter(([, , text]) => text);
}

/** The header of a feed page: title, mode, facts, and how much of the time has passed. */
export class GameView {
  #title;
  #mode;
  #facts;
  #elapsed;
  #shown = new Map();

  constructor(root) {
    this.#title = root.querySelector('#title');
    this.#mode = root.querySelector('#mode');
    this.#facts = root.querySelector('#facts');
    this.#elapsed = root.querySelector('#elapsed');
  }

  update(game, watchers, now) {
    const title = game.title || game.game;
    setText(this.#title, title);
    setText(this.#mode, modeName(game));
    this.#mode.hidden = false;
    this.#mode.dataset.mode = game.mode ?? '';
    const list = facts(game, watchers, now);
    for (const [name, symbol, text, label] of list) {
      const node = this.#shown.get(name) ?? fact(name, symbol, label);
      this.#shown.set(name, node);
      setText(node.querySelector('dd'), text);
    }
    const nodes = list.map(([name]) => this.#shown.get(name));
    if (nodes.length !== this.#facts.children.length || nodes.some((node, i) => node !== this.#facts.children[i])) this.#facts.replaceChildren(...nodes);
    this.#elapse(game, now);
  }

  #elapse(game, now) {
    const [start, end] = [Date.parse(game.started_at), Date.parse(game.ends_at)];
    const running = !isFinal(game) && end > start;
    this.#elapsed.hidden = !running;
    if (running) this.#elapsed.firstElementChild.style.setProperty('inline-size', `${Math.min(100, Math.max(0, (100 * (now - start)) / (end - start)))}%`);
  }
}

function fact(name, symbol, label) {
  return el('div', { 'data-fact': name }, el('dt', {}, icon(symbol), el('span', {}, label)), el('dd', { dir: 'auto' }));
}

/**
 * What stands above the lines: why there are none, what is hidden, how it ended. Null where the lines speak for themselves.
 * @param {import('./feed-state.js').FeedState} state
 * @returns {{name: string, icon: string, title: string, text: string}|null}
 */
export function notice({ header: game, refusal, entries, epoch }) {
  if (refusal) return refused(refusal, epoch !== null);
  if (!game) return null;
  if (game.status === 'voided') return { name: 'voided', icon: 'ban', title: 'This game was voided', text: 'Nothing more is expected. What happened stays below.' };
  if (game.status === 'settled') return { name: 'ended', icon: 'trophy', title: 'This game is over', text: ending(game) };
  if (game.status === 'revealing') return { name: 'revealing', icon: 'key', title: 'The reveal is on', text: game.released ? 'The scores have come out.' : 'The scores come out in a moment.' };
  if (!game.released && game.mode === 'blind') return { name: 'blind', icon: 'lock', title: 'A blind game', text: 'Scores stay hidden from everybody until the reveal. Then they appear here in their places.' };
  if (game.status === 'gathering') return { name: 'gathering', icon: 'users', title: 'Gathering players', text: 'The game opens when enough of them are in.' };
  if (entries.length === 0) return { name: 'empty', icon: 'clock', title: 'Nothing has happened yet', text: 'Lines appear here the moment they do.' };
  if (!game.released) return { name: 'hidden', icon: 'lock', title: 'Scores are hidden', text: 'They appear as soon as it is known how this game is played.' };
  return null;
}

const AGAIN = 'This page tries again by itself.';
const LAST = 'What stands below is what was here last.';

// Whatever the reason that a game is not to be had: unknown, foreign and forbidden ones read the same.
function refused({ code, msg }, held) {
  const texts = {
    not_found: held
      ? { name: 'gone', icon: 'door', title: 'This feed is not here any more', text: `It was closed, or it may not be watched now. ${LAST}` }
      : { name: 'unknown', icon: 'question', title: 'No such game, or not yet', text: 'If it is about to start, leave this page open: it looks again every 10 seconds.' },
    suspended: { name: 'suspended', icon: 'lock', title: 'These feeds are switched off for now', text: `Their operator has suspended them. ${AGAIN}${held ? ` ${LAST}` : ''}` },
    busy: { name: 'full', icon: 'users', title: 'Too many are watching', text: `There is no place left at the moment. ${AGAIN}${held ? ` ${LAST}` : ''}` },
  };
  return texts[code] ?? { name: 'refused', icon: 'ban', title: 'This feed cannot be shown now', text: `${msg || code}. ${AGAIN}` };
}

function ending({ board = [], counts, pool }) {
  const parts = [];
  if (board.length > 0) parts.push(`${board.filter(({ score }) => score === board[0].score).map(({ player }) => player).join(', ')} came first`);
  if (pool) parts.push(`pool ${pool}`);
  if (counts) parts.push(`${count(counts.players)} players, ${count(counts.lines)} lines`);
  return `${parts.join(' · ')}.`;
}

/** Writes a notice into its place, only where it differs from what stands there. */
export function showNotice(root, it) {
  const key = it ? `${it.name} ${it.title} ${it.text}` : '';
  if (root.dataset.key === key) return;
  root.dataset.key = key;
  root.dataset.notice = it?.name ?? '';
  root.hidden = !it;
  root.replaceChildren(...(it ? [icon(it.icon), el('div', {}, el('h2', {}, it.title), el('p', { dir: 'auto' }, it.text))] : []));
}
