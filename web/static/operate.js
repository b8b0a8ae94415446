/**
 * The operators' page: `/{tenant}/-/operate`. A key is pasted in, kept for this tab alone, and shown to the socket and to REST; the page's own
 * address never has it. Figures come over the socket where they change; dead letters, their retry and their end go by REST.
 */
import { FeedClient } from './feed-client.js';
import { StatusView } from './status-view.js';
import { showNotice } from './game-view.js';
import { perFrame } from './dom.js';
import { liveURL, tab, wakeWithPage } from './page.js';
import { GROUP, groupSocket } from './operate-socket.js';
import { GroupView } from './operate-view.js';
import { LettersView } from './operate-letters.js';
import { History } from './operate-plot.js';

const tenant = location.pathname.split('/')[1];
const STORED = `operate:${tenant}`;
const $ = (id) => document.getElementById(id);

let client = null;
let key = '';
let frame = null; // the newest of the group
let troubled = false; // the server cannot look at the group now

const status = new StatusView($('status'), $('banner'), () => client?.retry());
const view = new GroupView($);
const plots = new History($);
const letters = new LettersView($('letters'), $('letters-said'), (path, options) => ask(path, options));
const draw = perFrame(drawNow);

function enter(given) {
  client?.close();
  key = given;
  frame = null;
  troubled = false;
  plots.clear();
  letters.clear();
  $('gate').hidden = true;
  $('controls').hidden = false;
  client = new FeedClient(liveURL(tenant), { token: key, transports: [groupSocket], onstatus: beat });
  client.watch(GROUP, { limit: 1, keep: 1, onchange: (_state, _change, said) => take(said) });
}

function leave(why) {
  client?.close();
  client = null;
  key = '';
  tab.write(STORED, '');
  $('figures').hidden = $('controls').hidden = $('banner').hidden = true;
  showNotice($('notice'), null);
  $('gate').hidden = false;
  $('gate-said').textContent = why;
  $('key').value = '';
  $('key').focus();
}

function take(said) {
  if (said.t === 'err' && said.code === 'not_found') {
    leave('This key does not operate this tenant.');
  } else if (said.t === 'err') {
    troubled = true;
    draw();
  } else if (said.streams) {
    tab.write(STORED, key);
    frame = said.streams;
    troubled = false;
    plots.add(frame.samples);
    letters.update(frame.group.streams);
    draw();
  }
}

// Without a frame for a while ages go on by themselves.
function beat(now) {
  if (!client) return;
  if (now.phase === 'refused') leave(now.code === 4504 ? 'The key is malformed, expired or revoked.' : 'This key does not operate this tenant.');
  else status.update(now);
  draw();
}

function drawNow() {
  if (!client) return;
  const empty = frame && frame.group.totals.streams === 0;
  if (troubled) showNotice($('notice'), { name: 'refused', icon: 'ban', title: 'The server of the streams does not answer', text: 'What stands below is what was seen last. It is looked at again and again.' });
  else if (empty) showNotice($('notice'), { name: 'empty', icon: 'clock', title: 'No streams yet', text: 'A stream appears here as soon as an event is appended to a game.' });
  else showNotice($('notice'), null);
  $('figures').hidden = !frame || empty;
  if (!frame || empty) return;
  const { phase } = client.status();
  $('figures').dataset.stale = troubled || phase !== 'live' ? 'true' : 'false';
  view.update(frame, client.now());
  plots.draw();
}

async function ask(path, options = {}) {
  const answer = await fetch(`/v1/tenants/${tenant}/streams/${path}`, { ...options, cache: 'no-store', headers: { Accept: 'application/json', Authorization: `Bearer ${key}` } });
  if (!answer.ok && answer.status !== 404) throw new Error(`the server answered ${answer.status}`);
  return answer;
}

$('tenant').textContent = tenant;
document.title = `${tenant} · operations`;
$('gate').addEventListener('submit', (event) => {
  event.preventDefault();
  $('gate-said').textContent = '';
  enter($('key').value.trim());
});
$('forget').addEventListener('click', () => leave(''));
wakeWithPage({ retry: () => client?.retry(), wake: () => client?.wake() });
const kept = tab.read(STORED, '');
if (kept) enter(kept);
else leave('');
