/** The page of a tenant's games: `/{tenant}/`. The list comes by REST; each game's newest line and header live, all over one socket. */
import { FeedClient } from './feed-client.js';
import { GameCard } from './game-card.js';
import { isFinal, showNotice } from './game-view.js';
import { StatusView } from './status-view.js';
import { perFrame, setText } from './dom.js';
import { liveURL, wakeWithPage } from './page.js';

const { tenant } = document.body.dataset;
const $ = (id) => document.getElementById(id);
const PAGE = 100; // games a page of the list
const PAGES = 4; // at most: a socket takes 500 games
const LOOK = 10_000; // ms from one look for new games to the next

const client = new FeedClient(liveURL(tenant), { onstatus: beat });
const status = new StatusView($('status'), $('banner'), () => client.retry());
const games = new Map(); // id -> {listed, state, card}: the header as the list had it, until the socket knows better
const draw = perFrame(drawNow);

let pages = 1; // of the list that are wanted
let more = false; // whether the list goes on behind them
let known = false; // whether the list came once

const header = ({ listed, state }) => state.header ?? listed;

async function look() {
  let after = '';
  for (let i = 0; i < pages; i++) {
    const page = await read(after);
    for (const listed of page.games) keep(listed);
    more = page.more;
    if (!more) break;
    after = page.games.at(-1).game;
  }
  known = true;
  draw();
}

async function read(after) {
  const answer = await fetch(`/v1/tenants/${tenant}/games?limit=${PAGE}${after && `&after=${after}`}`, { headers: { Accept: 'application/json' }, cache: 'no-cache' });
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  return answer.json();
}

function keep(listed) {
  const each = games.get(listed.game);
  if (each) each.listed = listed;
  else games.set(listed.game, { listed, card: new GameCard(tenant, listed.game), state: client.watch(listed.game, { limit: 1, keep: 1, onchange: draw }).state });
}

function drawNow() {
  if (!known) return;
  const now = client.now();
  const all = [...games.values()].sort((a, b) => begun(header(b)) - begun(header(a)) || (header(a).game < header(b).game ? -1 : 1));
  for (const each of all) each.card.update(header(each), each.state, now);
  group('running', all.filter((each) => !isFinal(header(each))));
  group('over', all.filter((each) => isFinal(header(each))));
  showNotice($('notice'), all.length > 0 ? null : { name: 'empty', icon: 'clock', title: 'No games yet', text: 'A game appears here as soon as something happens in it.' });
  $('plain')?.remove();
  $('status').hidden = all.length === 0; // nothing is listened to yet
  $('more').hidden = !more || pages === PAGES;
}

const begun = (game) => Date.parse(game.started_at) || 0;

// Cards move only where their order changed: a reader's focus and pointer stay on what they are on.
function group(name, members) {
  const root = $(name);
  root.hidden = members.length === 0;
  setText(root.querySelector('h2 span'), String(members.length));
  const cards = root.querySelector('.cards');
  const nodes = members.map(({ card }) => card.node);
  for (const node of [...cards.children]) if (!nodes.includes(node)) node.remove();
  nodes.forEach((node, i) => cards.children[i] === node || cards.insertBefore(node, cards.children[i] ?? null));
}

function beat(now) {
  status.update(now);
  draw();
}

// The list that is there stays where a look fails; the chip tells whether the server is there.
const tryLook = () => look().catch((err) => {
  if (!known) showNotice($('notice'), { name: 'refused', icon: 'ban', title: 'The games did not come', text: `${err.message}. This page tries again every 10 seconds.` });
});

$('more').addEventListener('click', () => {
  pages++;
  tryLook();
});
setInterval(() => document.hidden || tryLook(), LOOK);
document.addEventListener('visibilitychange', () => document.hidden || tryLook());
wakeWithPage(client);
tryLook();
for (const control of document.querySelectorAll('[data-live]')) control.hidden = false;
