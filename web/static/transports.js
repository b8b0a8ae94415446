/**
 * How frames travel between a FeedClient and the server. Three ways that carry the same frames: a WebSocket, server-sent events, and asking
 * again and again; the client goes from one to the next where a proxy blocks the first.
 *
 * A transport calls `onopen` once, `onframe` with each frame, and `onclose` once at the end unless it was closed from here; none of them before
 * it has returned. `send` takes a frame of the client and is called only after `onopen`.
 * @typedef {(url: string, on: {onopen: () => void, onframe: (frame: object) => void, onclose: (code: number, reason: string) => void}) =>
 *   {send: (frame: object) => void, close: () => void}} Transport
 */
import { parseCursor } from './feed-state.js';

/** @type {Transport} All games over one connection. */
export function webSocket(url, { onopen, onframe, onclose }) {
  const socket = new WebSocket(url);
  const deaf = new AbortController();
  const on = (type, listener) => socket.addEventListener(type, listener, { signal: deaf.signal });
  on('open', onopen);
  on('message', (event) => {
    const frame = parse(event.data);
    if (frame) onframe(frame);
  });
  on('close', (event) => onclose(event.code, event.reason));
  return {
    send: (frame) => socket.readyState === WebSocket.OPEN && socket.send(JSON.stringify(frame)),
    close: () => {
      deaf.abort();
      socket.close();
    },
  };
}

/**
 * @type {Transport} A stream of server-sent events for each game, read through fetch, since an EventSource can send no token. A browser has six
 * connections to a host at most, hence `most`.
 */
export function eventStream(url, on) {
  return overHTTP(url, on, async ({ g, since, limit }, { get, onframe }) => {
    const answer = await get(`${g}/stream?limit=${limit}`, { Accept: 'text/event-stream', ...(since && { 'Last-Event-ID': since }) });
    for await (const text of events(answer.body)) {
      const frame = parse(text);
      if (frame) onframe(frame);
    }
    throw new Error('the stream ended');
  });
}
eventStream.most = 4;

const WAIT = 8; // s that a poll waits for something new: less than a tick, so that silence means what it means elsewhere
const LEAST = 1_000; // ms from one poll to the next, however much happens
const ROUND = 5_000; // ms from one look at each of many games to the next, at least; more where that would be more than five a second

/** @type {Transport} Asking again and again: of a few games, waiting for the answer; of many, each in its turn. */
export function longPoll(url, on) {
  return overHTTP(url, on, async ({ g, since, limit }, { get, onframe, games, signal }) => {
    const header = async () => (await get(g)).json();
    let cursor = since ?? null;
    let wait = 0; // the first answer comes at once
    while (!signal.aborted) {
      const start = Date.now();
      if (!cursor) {
        const game = await header();
        const { lines, more, cursor: at } = await (await get(`${g}/timeline?limit=${limit}`)).json();
        const { epoch, ver } = parseCursor(at);
        onframe({ t: 'snap', g, epoch, to: ver, game, lines, older: more });
        cursor = at;
      }
      const many = games() > eventStream.most;
      const answer = await get(`${g}/changes?since=${cursor}&limit=500&wait=${many ? 0 : wait}s`, {}, [400, 410]);
      if (!answer.ok) { // a cursor of another time
        onframe({ t: 'reset', g, reason: 'cursor' });
        cursor = null;
        continue;
      }
      const { more, ...delta } = await answer.json();
      cursor = `${delta.epoch}:${delta.to}`;
      onframe(delta);
      if (delta.to > delta.from && !more) onframe({ t: 'game', g, game: await header() });
      onframe({ t: 'tick', now: answer.headers.get('Date') ?? '', games: [{ g, to: delta.to, watchers: null }] });
      wait = WAIT;
      if (!more) await pause(start + (many ? Math.max(ROUND, games() * 200) : LEAST) - Date.now());
    }
  });
}

/** The server's answer to a game of which it says nothing now: an `err` frame, and the client asks again in its time. */
class Refused extends Error {
  constructor(status) {
    super(`the server answered ${status}`);
    this.status = status;
    this.code = { 404: 'not_found', 429: 'busy', 403: 'not_found' }[status];
  }
}

/** What both have in common: one task a game, all of them broken by what breaks one. `follow` ends by throwing, or where it is aborted. */
function overHTTP(url, { onopen, onframe, onclose }, follow) {
  const base = url.replace(/^ws/, 'http').replace(/live$/, 'games/');
  const tasks = new Map(); // game -> AbortController
  let token = '';
  let open = true;
  const close = () => {
    open = false;
    for (const task of tasks.values()) task.abort();
  };
  const start = (sub, task) => {
    const { signal } = task;
    const get = async (path, headers = {}, also = []) => {
      const answer = await fetch(base + path, { signal, cache: 'no-store', headers: { ...headers, ...(token && { Authorization: `Bearer ${token}` }) } });
      if (!answer.ok && !also.includes(answer.status)) throw new Refused(answer.status);
      return answer;
    };
    follow(sub, { get, signal, games: () => tasks.size, onframe: (frame) => signal.aborted || onframe(frame) }).catch((err) => {
      if (signal.aborted) return;
      if (err instanceof Refused && err.code) {
        tasks.delete(sub.g);
        onframe({ t: 'err', g: sub.g, code: err.code, msg: err.message });
      } else {
        close();
        onclose(err.status === 401 ? 4504 : 1006, err.message); // what the socket says to a token that is not good
      }
    });
  };
  setTimeout(() => open && onopen());
  return {
    send(frame) {
      if (frame.t === 'auth') token = frame.token;
      if (frame.t !== 'sub' && frame.t !== 'unsub') return;
      tasks.get(frame.g)?.abort();
      tasks.delete(frame.g);
      if (frame.t === 'unsub') return;
      const task = new AbortController();
      tasks.set(frame.g, task);
      start(frame, task);
    },
    close,
  };
}

// The data of each event of a stream.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (text + value).split(/\r?\n\r?\n/);
    text = blocks.pop();
    for (const block of blocks) yield block.split(/\r?\n/).flatMap((line) => (line.startsWith('data:') ? [line.slice(5)] : [])).join('\n');
  }
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// A frame that cannot be read is a lost frame: the next one shows the gap.
function parse(text) {
  try {
    const frame = JSON.parse(text);
    return typeof frame === 'object' ? frame : null;
  } catch {
    return null;
  }
}
