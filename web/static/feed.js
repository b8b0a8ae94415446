/** The page of one game: `/{tenant}/{game}`. Frames change the state at once; the page is drawn once per animation frame. */
import { Door } from './door.js';
import { FeedClient } from './feed-client.js';
import { FeedList } from './feed-list.js';
import { Timeline } from './timeline.js';
import { BoardView } from './board-view.js';
import { GameView, isFinal, notice, showNotice } from './game-view.js';
import { StatusView } from './status-view.js';
import { FindView } from './find-view.js';
import { Found } from './find.js';
import { Announcer } from './announcer.js';
import { count, perFrame, setText } from './dom.js';
import { liveURL, measureTop, reader, remembered, wakeWithPage } from './page.js';

const $ = (id) => document.getElementById(id);
const door = new Door($('door'));
await door.pass();

const { tenant, game } = door;
const read = reader(tenant, () => door.token);
const client = new FeedClient(liveURL(tenant), { token: door.token, onstatus: beat });
const { state } = client.watch(game, { onchange: changed });
const clock = () => client.now();
const list = new FeedList($('feed'), state, clock);
const finder = new FindView($('find'), look);
const board = new BoardView($('board'));
const header = new GameView(document);
const status = new StatusView($('status'), $('banner'), () => client.retry());
const announcer = new Announcer($('digest'));
const draw = perFrame(drawNow);

let shown = state; // the game, or what is found in it
let timeline = pages('');
const LINE = /^#EVT[0-9A-Za-z]{11}$/;
let linked = LINE.test(location.hash);
let moved = Date.now(); // when something came

function pages(filter) {
  return new Timeline((path) => read(`/games/${game}${path}`), shown, { filter });
}

function changed(_, change, frame) {
  if (frame.t !== 'tick') moved = Date.now();
  finder.learn(change.placed, frame.game?.board);
  if (shown !== state) change = shown.apply(frame, change.placed);
  else if (frame.t === 'snap' && finder.filter.on) look(finder.filter);
  if (frame.t === 'snap' && linked) openLink();
  announcer.note(change);
  draw();
  if (frame.t === 'snap' && shown !== state) scrolled(); // the search begins anew
}

// Shows what a filter lets through: at once of what is here, then of what the server has.
function look(filter) {
  if (state.epoch === null) return;
  if (filter.on && state.newer) client.refresh(game);
  shown = filter.on ? new Found(state, filter) : state;
  timeline = pages(filter.query);
  list.use(shown);
  draw();
  scrolled();
}

function drawNow() {
  if (state.epoch === null) drawAround();
  else list.render(drawAround);
  drawPill();
}

function drawFound() {
  if (!finder.open) return;
  const { entries, older, passed = 0 } = shown;
  const parts = [`${count(entries.length)} ${older ? 'found so far' : 'found in all'}`];
  if (passed > 0) parts.push(`${count(passed)} new ${passed === 1 ? 'line does' : 'lines do'} not match`);
  finder.report(finder.filter.on && state.epoch !== null ? parts.join(' · ') : '');
}

// Everything but the rows.
function drawAround() {
  if (state.header) {
    header.update(state.header, state.watchers, clock());
    $('board').hidden = false;
    board.update(state.header, isFinal(state.header) ? 'No scores' : state.header.released ? 'No scores yet' : 'Hidden for now');
  }
  drawFound();
  showNotice($('notice'), doorCode(client.status()) === 404 ? null : notice(state));
  $('waiting').hidden = state.epoch !== null || state.refusal !== null || $('feed').childElementCount > 0;
  $('older').hidden = state.epoch === null || list.below === '' || timeline.busy;
  $('loading').hidden = !timeline.busy;
  $('trouble').hidden = timeline.trouble === '';
  setText($('trouble'), timeline.trouble && `Older lines did not come: ${timeline.trouble}.`);
  $('end').hidden = state.epoch === null || (shown.entries.length === 0 && !finder.filter.on) || list.below !== '';
  setText($('end'), !finder.filter.on ? 'This is where it began' : shown.entries.length > 0 ? 'No more lines match' : 'No line matches');
  $('feed').setAttribute('aria-busy', String(timeline.busy));
}

function drawPill() {
  const { unseen, paused } = list;
  const away = shown.newer && !list.following;
  const text = unseen > 0 ? `${unseen} new` : away ? 'To the newest' : '';
  $('pill').hidden = text === '' && !paused;
  $('pill').dataset.count = unseen;
  setText($('pill-text'), paused ? ['Paused', text].filter(Boolean).join(' · ') : text);
}

const QUIET = 15_000; // ms without anything new after which the connection of a game that is over is let go

let phase = '';

function beat(now) {
  const over = isFinal(state.header);
  const asked = door.ask(doorCode(now));
  if (!asked && now.phase === 'live') door.shut();
  const next = status.update(now, { over, refused: state.refusal !== null, asked });
  if (over && now.phase === 'live' && Date.now() - moved > QUIET) client.rest();
  if (phase && next !== phase && now.silent) announcer.say($('status').textContent);
  phase = next;
  const missed = document.hidden ? shown.countAbove(lastSeen) : 0;
  const title = state.header?.title || game;
  document.title = `${missed > 0 ? `(${missed}) ` : ''}${title} · ${over ? 'ended' : 'live'}`;
  draw();
}

// Why another token is asked for, 0 where none is.
function doorCode({ phase, code }) {
  if (phase === 'refused') return code;
  return door.closed && state.epoch === null && state.refusal?.code === 'not_found' ? 404 : 0;
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
  else if (timeline.trouble) announcer.say('Older lines did not come');
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
    lastSeen = shown.top;
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
  if (shown !== state && !shown.entry(evt)) finder.clear(); // the link is wanted more
  if (!list.show(evt)) {
    if (await timeline.around(evt)) list.show(evt);
    else announcer.say('The line of this link is not here');
  }
  draw();
}

addEventListener('hashchange', () => LINE.test(location.hash) && openLink());
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
  '/': () => finder.enter(),
  Escape: () => {
    if (document.activeElement === document.body && !location.hash) finder.clear();
    list.mark('');
    document.activeElement.blur();
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

$('search').addEventListener('click', () => (finder.open ? finder.leave() : finder.enter()));
$('announce').addEventListener('click', () => setAnnouncing(!announcer.on));
setAnnouncing(remembered.read('feed.announce', 'on') === 'on');
door.onenter((token) => client.authorize(token));
wakeWithPage(client);
measureTop(document.querySelector('.top'));
for (const control of document.querySelectorAll('[data-live]')) control.hidden = false; // what works only with this script
