import { count, el, setText } from './dom.js';

/** A time in seconds by its two largest units: `21 d 0 h`, `2 min 5 s`, `< 1 s`; `-` where there is none. */
export function span(seconds) {
  if (!(seconds > 0)) return '-';
  const s = Math.floor(seconds);
  if (s < 1) return '< 1 s';
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

const SAID = 8; // reasons at most

/** The figures, replicas and streams of one frame. Ages go on between frames while the server is heard. */
export class GroupView {
  #$;

  /** @param {(id: string) => HTMLElement} find */
  constructor(find) {
    this.#$ = find;
  }

  /** @param {object} frame a streams frame @param {number} now the server's clock in ms */
  update({ at, group }, now) {
    const later = Math.max(0, (now - Date.parse(at)) / 1000);
    const age = (seconds) => (seconds > 0 ? seconds + later : 0);
    const { totals } = group;
    const [state, words] = stateOf(totals);
    const hero = this.#$('hero');
    hero.dataset.state = state;
    setText(this.#$('oldest'), totals.oldest_pending_seconds > 0 ? span(age(totals.oldest_pending_seconds)) : '0 s');
    setText(this.#$('state'), words);
    this.#reasons(group);
    this.#tiles(totals, age);
    this.#replicas(group.replicas, age);
    this.#streams(group.streams, age);
    setText(this.#$('more'), group.more > 0 ? `${count(group.more)} more streams, none in more need than these.` : '');
  }

  #reasons({ streams, eviction, replicas }) {
    const said = [];
    if (eviction) said.push(`The server may evict streams: its maxmemory-policy is ${eviction}.`);
    for (const each of replicas) if (each.store_away_since) said.push(`${each.name} cannot write lines, its store is away.`);
    for (const row of streams) for (const reason of row.reasons) said.push(`${nameOf(row)}: ${reason}`);
    const list = this.#$('reasons');
    const shown = said.slice(0, SAID);
    if (said.length > SAID) shown.push(`and ${said.length - SAID} more`);
    fill(list, shown.map((text) => [text, () => el('li', { dir: 'auto' }, text)]));
  }

  #tiles(totals, age) {
    const { lag_unknown: unknown } = totals;
    const tiles = [
      ['Pending', count(totals.pending), totals.pending > 0 ? 'read, and not settled' : 'nothing was read and not settled'],
      ['Unread', unknown === totals.streams && unknown > 0 ? '?' : count(totals.lag), unknown > 0 ? `not known of ${count(unknown)}` : totals.oldest_unread_seconds > 0 ? `the oldest ${span(age(totals.oldest_unread_seconds))}` : totals.lag > 0 ? 'not read yet' : 'nothing waits to be read'],
      ['Dead letters', count(totals.dead_letters), totals.dead_letters > 0 ? 'given up on' : 'none was given up on'],
      ['Lost', count(totals.lost), totals.lost > 0 ? 'trimmed away unread' : 'nothing was trimmed away unread'],
      ['Replicas', count(totals.alive), `alive; ${count(totals.dead)} dead`],
      ['Streams', count(totals.streams), totals.degraded + totals.faults > 0 ? `${count(totals.degraded)} degraded, ${count(totals.faults)} not readable` : 'all well'],
    ];
    const bad = { 'Dead letters': totals.dead_letters > 0, Lost: totals.lost > 0, Replicas: totals.alive === 0, Streams: totals.degraded + totals.faults > 0 };
    fill(this.#$('tiles'), tiles.map(([name, value, words]) => [[name, value, words].join('\n'), () =>
      el('div', { class: 'tile', 'data-name': name, 'data-bad': Boolean(bad[name]) }, el('dt', {}, name), el('dd', { class: 'tile-figure' }, value), el('dd', {}, words))]));
  }

  #replicas(replicas, age) {
    const rows = replicas.map((each) => [
      each.name, each.store_away_since ? 'store away' : each.alive ? 'alive' : 'dead', count(each.streams), count(each.pending), span(age(each.idle_seconds)),
    ]);
    table(this.#$('replicas'), ['Name', 'State', 'Streams', 'Pending', 'Silent for'], rows, (row) => (row[1] === 'alive' ? 'ok' : 'bad'), 'No renderer has read anything yet.');
  }

  #streams(streams, age) {
    const rows = streams.map((row) => [
      nameOf(row),
      row.degraded ? 'degraded' : row.fault ? 'fault' : 'ok',
      count(row.pending),
      span(age(row.oldest_pending_seconds)),
      row.lag === undefined ? '?' : count(row.lag),
      span(age(row.oldest_unread_seconds)),
      row.oldest_deliveries > 1 ? `delivery ${count(row.oldest_deliveries)}` : '-',
      row.lost === undefined ? '?' : count(row.lost),
      count(row.dead_letters),
      `${row.alive} / ${row.dead}`,
    ]);
    table(this.#$('streams'), ['Stream', 'State', 'Pending', 'Oldest', 'Unread', 'Oldest unread', 'Retries', 'Lost', 'Dead letters', 'Alive / dead'], rows,
      (row) => (row[1] === 'ok' ? 'ok' : 'bad'), 'No stream needs to be shown.');
  }
}

/** How it is in one word for the style, and in one sentence for people. */
function stateOf(totals) {
  if (totals.alive === 0 && totals.pending + totals.lag + totals.lag_unknown > 0) return ['bad', 'No renderer runs, and events wait.'];
  if (totals.degraded > 0) return ['bad', totals.degraded === 1 ? 'One stream is degraded.' : `${count(totals.degraded)} streams are degraded.`];
  if (totals.faults > 0) return ['bad', 'A stream cannot be read.'];
  if (totals.alive === 0) return ['loud', 'No renderer runs.'];
  if (totals.pending > 0) return ['good', 'Events are being settled.'];
  return ['good', 'Nothing waits.'];
}

const nameOf = ({ game }) => game || '(retries)';

/** Makes the children of a node those of a list of [what it says, how it is made]; those that say the same are left as they are. */
function fill(root, list) {
  list.forEach(([says, make], i) => {
    const old = root.children[i];
    if (old?.says === says) return;
    const node = make();
    node.says = says;
    if (old) old.replaceWith(node);
    else root.append(node);
  });
  while (root.children.length > list.length) root.lastElementChild.remove();
}

function table(root, heads, rows, tone, nothing) {
  if (!root.tHead) root.append(el('thead', {}, el('tr', {}, ...heads.map((head) => el('th', { scope: 'col' }, head)))), el('tbody'));
  const body = root.tBodies[0];
  const list = rows.map((row) => [row.join('\n'), () => el('tr', { 'data-tone': tone(row) },
    ...row.map((cell, i) => (i === 0 ? el('th', { scope: 'row', dir: 'auto', 'data-head': heads[i] }, cell) : el('td', { 'data-head': heads[i] }, cell))))]);
  if (rows.length === 0) list.push([nothing, () => el('tr', {}, el('td', { colspan: heads.length }, nothing))]);
  fill(body, list);
}
