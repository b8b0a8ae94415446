/** The page of one game: `/{tenant}/{game}`. Frames change the state at once; the page is drawn once per animation frame. */
import { FeedClient } from './feed-client.js';
import { FeedList } from './feed-list.js';
import { Timeline } from './timeline.js';
import { BoardView } from './board-view.js';
import { GameView, isFinal, notice, showNotice } from './game-view.js';
import { StatusView } from './status-view.js';
import { Announcer } from './announcer.js';
import { perFrame, setText } from './dom.js';
import { liveURL, measureTop, remembered, wakeWithPage } from './page.js';

const { tenant, game } = document.body.dataset;
const $ = (id) => document.getElementById(id);

const client = new FeedClient(liveURL(tenant), { onstatus: beat });
const { state } = client.watch(game, { onchange: changed });
const clock = () => client.now();
const list = new FeedList($('feed'), state, clock);
const timeline = new Timeline(`/v1/tenants/${tenant}/games/${game}`, state);
const board = new BoardView($('board'));
const header = new GameView(document);
const status = new StatusView($('status'), $('banner'), () => client.retry());
const announcer = new Announcer($('digest'));
const draw = perFrame(drawNow);

let linked = /^#EVT[0-9A-Za-z]{11}$/.test(location.hash);

function changed(_, change) {
  if (change.t === 'snap' && linked) openLink();
  announcer.note(change);
  draw();
}

function drawNow() {
  if (state.epoch === null) drawAround();
  else list.render(drawAround);
  drawPill();
}

// Everything but the rows.
function drawAround() {
  if (state.header) {
    header.update(state.header, state.watchers, clock());
    $('board').hidden = false;
    board.update(state.header, state.header.released ? 'No scores yet' : 'Hidden for now');
  }
  showNotice($('notice'), notice(state));
  document.body.toggleAttribute('data-unreleased', state.header !== null && !state.header.released);
  $('waiting').hidden = state.epoch !== null || state.refusal !== null || $('feed').childElementCount > 0;
  $('older').hidden = state.epoch === null || list.below === '' || timeline.busy;
  $('loading').hidden = !timeline.busy;
  $('trouble').hidden = timeline.trouble === '';
  setText($('trouble'), timeline.trouble && `Older lines did not come: ${timeline.trouble}.`);
  $('end').hidden = state.epoch === null || state.entries.length === 0 || list.below !== '';
  $('feed').setAttribute('aria-busy', String(timeline.busy));
}

function drawPill() {
  const { unseen, paused } = list;
  const away = state.newer && !list.following;
  const text = unseen > 0 ? `${unseen} new` : away ? 'To the newest' : '';
  $('pill').hidden = text === '' && !paused;
  $('pill').dataset.count = unseen;
  setText($('pill-text'), paused ? ['Paused', text].filter(Boolean).join(' · ') : text);
}

let phase = '';

function beat(now) {
  const next = status.update(now, isFinal(state.header));
  if (phase && next !== phase && now.silent) announcer.say($('status').textContent);
  phase = next;
  const missed = document.hidden ? state.countAbove(lastSeen) : 0;
  const title = state.header?.title || game;
  document.title = `${missed > 0 ? `(${missed}) ` : ''}${title} · live`;
  draw();
}

// Reading on: older and newer lines join as their end of the page comes near.

const scrolled = perFrame(() => {
  const following = list.following;
  const wanted = list.scrolled();
  if (wanted && timeline.trouble === '') more(wanted);
  if (wanted || following !== list.following) draw();
  drawPill();
});

async function more(part) {
  if (timeline.busy) return;
  const joining = timeline.more(part);
  draw();
  if (await joining) scrolled();
  draw();
}

addEventListener('scroll', scrolled, { passive: true });
addEventListener('resize', scrolled, { passive: true });
$('older').addEventListener('click', () => {
  timeline.trouble = '';
  if (list.below === 'page') more('older');
  scrolled();
});

// The edge: pill, pause, and what came while nobody looked.

function toEdge() {
  setPaused(false);
  if (state.newer) client.refresh(game);
  list.toEdge();
  draw();
}

function setPaused(paused) {
  list.paused = paused;
  $('pause').setAttribute('aria-pressed', String(paused));
  draw();
}

let lastSeen = '';

document.addEventListener('visibilitychange', () => {
  if (document.hidden) {
    lastSeen = state.top;
    list.leave();
  } else {
    list.return();
    draw();
  }
});
$('pill').addEventListener('click', toEdge);
$('pause').addEventListener('click', () => setPaused(!list.paused));
setInterval(() => list.refreshTimes(), 60_000);

// A line's own address.

async function openLink() {
  linked = false;
  const evt = location.hash.slice(1);
  if (!list.show(evt)) {
    if (await timeline.around(evt)) list.show(evt);
    else announcer.say('The line of this link is not here');
  }
  draw();
}

addEventListener('hashchange', openLink);
$('feed').addEventListener('click', (event) => {
  const link = event.target.closest('a.when');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault(); // stays where it is: the address changes, the page does not move
  history.replaceState(null, '', link.hash);
  list.mark(link.hash.slice(1));
  navigator.clipboard?.writeText(link.href).then(() => announcer.say('Link copied'), () => {});
});

// Keys, where nobody types.

const keys = {
  j: () => list.move(1),
  k: () => list.move(-1),
  p: () => setPaused(!list.paused),
  Home: toEdge,
  Escape: () => {
    list.mark('');
    document.activeElement?.blur();
    if (location.hash) history.replaceState(null, '', location.pathname + location.search);
  },
};

addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.('input, textarea, select, [contenteditable]')) return;
  if (!Object.hasOwn(keys, event.key)) return;
  event.preventDefault();
  keys[event.key]();
});

function setAnnouncing(on) {
  announcer.on = on;
  $('announce').setAttribute('aria-pressed', String(on));
  remembered.write('feed.announce', on ? 'on' : 'off');
}

$('announce').addEventListener('click', () => setAnnouncing(!announcer.on));
setAnnouncing(remembered.read('feed.announce', 'on') === 'on');
wakeWithPage(client);
measureTop(document.querySelector('.top'));
for (const control of document.querySelectorAll('[data-live]')) control.hidden = false; // what works only with this script
