/**
 * The page of a tenant's games: `/{tenant}/`. The list comes by REST, page by page; the games whose cards are near the screen are followed live,
 * all over one socket, so that their number does not matter.
 */
import { Door } from './door.js';
import { FeedClient } from './feed-client.js';
import { parseCursor } from './feed-state.js';
import { GameCard } from './game-card.js';
import { isFinal, showNotice } from './game-view.js';
import { StatusView } from './status-view.js';
import { perFrame, setText } from './dom.js';
import { liveURL, reader, wakeWithPage } from './page.js';

const $ = (id) => document.getElementById(id);
const door = new Door($('door'));
await door.pass();

const { tenant } = door;
const read = reader(tenant, () => door.token);
const PAGE = 100; // games a page of the list
const LOOK = 10_000; // ms from one look at the list to the next
const RUNNING = ['gathering', 'open', 'revealing'];

const client = new FeedClient(liveURL(tenant), { token: door.token, onstatus: beat });
const status = new StatusView($('status'), $('banner'), () => client.retry());
const draw = perFrame(drawNow);

// A game: `header` is the newest known, of list or socket; `state` what is followed live, or was last; `stop` ends that, null while it is not.
const games = new Map();
const touched = new Set(); // games whose cards are to be brought up to date
const near = new Set(); // games whose cards are near the screen

const starts = ['']; // the id after which each known page of the list begins
let wanted = 1; // pages
let turn = 0; // the page to be read next
let known = false; // whether the list came once
let moved = false; // whether games may have to be put in another order

const screen = new IntersectionObserver((seen) => {
  for (const { target, isIntersecting } of seen) (isIntersecting ? follow : leave)(games.get(target.dataset.game));
}, { rootMargin: '50% 0%' });

const list = (query) => read(`/games?limit=${PAGE}${query}`);

// One page of the list each time, in turn; where there are more, also the games that go on, wherever they stand in it.
async function look() {
  const page = turn;
  turn = (turn + 1) % wanted;
  const { games: listed, more } = await list(starts[page] && `&after=${starts[page]}`);
  listed.forEach(take);
  if (more) starts[page + 1] ??= listed.at(-1).game;
  known = true;
  door.shut();
  draw();
  if (starts.length === 1) return;
  for (const { games: running } of await Promise.all(RUNNING.map((name) => list(`&status=${name}`)))) running.forEach(take);
  draw();
}

function take(header) {
  const id = header.game;
  let each = games.get(id);
  if (!each) {
    each = { id, header, card: new GameCard(tenant, id), state: null, stop: null };
    games.set(id, each);
    screen.observe(each.card.node);
  }
  const old = each.header;
  const [held, fresh] = [parseCursor(old.cursor), parseCursor(header.cursor)];
  if (held && fresh && held.epoch === fresh.epoch && fresh.ver < held.ver) return;
  each.header = header;
  touched.add(each);
  moved ||= !each.card.node.isConnected || isFinal(header) !== isFinal(old) || header.started_at !== old.started_at;
}

function follow(each) {
  near.add(each);
  each.stop ??= client.watch(each.id, {
    limit: 1,
    keep: 1,
    onchange: (state, change) => {
      if (state.epoch !== null) each.state = state; // until then what it showed last
      touched.add(each);
      if (change.header && state.header) take(state.header);
      draw();
    },
  }).stop;
}

function leave(each) {
  near.delete(each);
  each.stop?.();
  each.stop = null;
}

function drawNow() {
  if (!known) return;
  const now = client.now();
  for (const each of touched) each.card.update(each.header, each.state, now);
  touched.clear();
  if (moved) order();
  moved = false;
  showNotice($('notice'), games.size > 0 ? null : { name: 'empty', icon: 'clock', title: 'No games yet', text: 'A game appears here as soon as something happens in it.' });
  $('plain')?.remove();
  $('status').hidden = games.size === 0; // nothing is listened to yet
  $('more').hidden = starts.length <= wanted;
}

const begun = ({ header }) => Date.parse(header.started_at) || 0;

function order() {
  const all = [...games.values()].sort((a, b) => begun(b) - begun(a) || (a.id < b.id ? -1 : 1));
  group('running', all.filter(({ header }) => !isFinal(header)));
  group('over', all.filter(({ header }) => isFinal(header)));
}

// Cards move only where their order changed: a reader's focus and pointer stay on what they are on.
function group(name, members) {
  const root = $(name);
  root.hidden = members.length === 0;
  setText(root.querySelector('h2 span'), String(members.length));
  const cards = root.querySelector('.cards');
  const nodes = new Set(members.map(({ card }) => card.node));
  for (const node of [...cards.children]) if (!nodes.has(node)) node.remove();
  let next = cards.firstElementChild;
  for (const node of nodes) {
    if (node === next) next = next.nextElementSibling;
    else cards.insertBefore(node, next);
  }
}

function beat(now) {
  status.update(now);
  for (const each of near) touched.add(each); // their clocks go on
  draw();
}

// The list that is there stays where a look fails; the chip tells whether the server is there.
const tryLook = () => look().catch((err) => {
  if (door.ask(err.status === 401 ? 4504 : door.closed && err.status)) showNotice($('notice'), null);
  else if (!known) showNotice($('notice'), { name: 'refused', icon: 'ban', title: 'The games did not come', text: `${err.message}. This page tries again every 10 seconds.` });
});

$('more').addEventListener('click', () => {
  turn = wanted++;
  tryLook();
});
door.onenter((token) => {
  client.authorize(token);
  tryLook();
});
setInterval(() => document.hidden || tryLook(), LOOK);
document.addEventListener('visibilitychange', () => document.hidden || tryLook());
wakeWithPage(client);
tryLook();
for (const control of document.querySelectorAll('[data-live]')) control.hidden = false;
