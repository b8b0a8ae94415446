import { el, icon, ICONS } from './dom.js';
import { ago, exact } from './clock.js';

/**
 * The row of one line: `article#EVT...` with `data-state` (live, corrected, retracted), `data-tone`, `data-kind` and, where it applies,
 * `data-late` or `data-revealed`. Everything that a colour says is also said by a word or an icon.
 * @param {import('./feed-state.js').Entry} entry
 * @param {number} now the server's clock
 */
export function lineView(entry, now) {
  const { line, late, revealed, before } = entry;
  const removed = line.state === 'retracted';
  return el('article', {
    id: line.evt, class: 'line', tabindex: '0', 'aria-labelledby': `${line.evt}-text`, 'data-state': line.state, 'data-tone': line.tone || 'plain',
    'data-kind': line.kind, 'data-late': late, 'data-revealed': revealed,
  },
  el('span', { class: 'dot' }, icon(removed ? 'eraser' : ICONS.has(line.icon) ? line.icon : 'question')),
  el('div', { class: 'body' },
    el('p', { class: 'text', id: `${line.evt}-text`, dir: 'auto' }, ...sayings(line)),
    marks(line, late, revealed, before)),
  el('a', { class: 'when', href: `#${line.evt}`, title: exact(line.at), 'aria-label': `${exact(line.at)}, link to this line` },
    el('time', { datetime: line.at }, ago(line.at, now)),
    el('span', { class: 'exact', 'aria-hidden': 'true' }, exact(line.at))));
}

/** Brings the relative time of a row up to date. */
export function refreshTime(row, now) {
  const time = row.querySelector('time');
  const text = ago(time.dateTime, now);
  if (time.textContent !== text) time.textContent = text;
}

/** What a line says, as nodes and text, cut where it is very long: of a removed one that it was, and why. */
export function sayings(line) {
  if (line.state !== 'retracted') return sentence(line);
  return line.reason ? [el('b', {}, 'removed'), ' · ', el('bdi', {}, cut(line.reason))] : [el('b', {}, 'removed')];
}

const MOST = 1000; // UTF-16 units of a text that a row shows at once

function cut(text) {
  return text.length > MOST ? `${text.slice(0, MOST).replace(/[\uD800-\uDBFF]$/, '')}…` : text;
}

// The actor's name stands isolated, so that a right-to-left name does not turn the sentence around; numbers stand out.
function sentence({ text: whole, actor }) {
  const text = cut(whole);
  const at = actor ? text.indexOf(actor) : -1;
  if (at < 0) return figures(text);
  return [...figures(text.slice(0, at)), el('bdi', { class: 'actor' }, actor), ...figures(text.slice(at + actor.length))];
}

function figures(text) {
  return text.split(/(?<![\p{L}\p{N}_-])((?:\d[\d.,:]{0,20}\d|\d)(?![\p{L}\p{N}_-])(?: ?%)?)/u).map((part, i) => (i % 2 ? el('b', { class: 'figure' }, part) : part));
}

function marks(line, late, revealed, before) {
  const list = [];
  if (late) list.push(el('span', { class: 'mark late', title: 'It came in after newer lines and stands in its place.' }, 'late'));
  if (revealed) list.push(el('span', { class: 'mark', title: 'It was hidden until the game was revealed.' }, 'revealed'));
  if (line.state === 'corrected') list.push(correction(line, before));
  if (line.text.length > MOST) list.push(el('details', { class: 'whole' }, el('summary', { class: 'mark' }, 'in full'), el('p', { dir: 'auto' }, line.text)));
  return list.length > 0 && el('div', { class: 'marks' }, ...list);
}

function correction(line, before) {
  const title = line.amended_at && `Edited ${exact(line.amended_at)}`;
  const why = line.reason && el('p', { dir: 'auto' }, line.reason);
  if (before.length === 0 && !why) return el('span', { class: 'mark edited', title }, 'edited');
  return el('details', { class: 'edited' },
    el('summary', { class: 'mark', title }, 'edited'),
    ...before.toReversed().map((text) => el('p', { dir: 'auto' }, el('span', { class: 'was' }, 'It said '), el('q', {}, text))),
    why);
}
