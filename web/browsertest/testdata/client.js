// Plays ten bad minutes of a network against a FeedClient, in a time of its own: connections that fail, die without a word or are blocked on
// their way, subscriptions that nobody answers, frames that are lost, repeated and overtaken, refusals, games that begin anew. Then the network
// is well, and in the end the client must hold what the server has. Gives back what went wrong.
async (seed) => {
  const { FeedClient } = await import('/static/feed-client.js');
  let state = seed + 1;
  const random = () => { // mulberry32
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const chance = (percent) => random() * 100 < percent;
  const upTo = (n) => Math.floor(random() * n);

  // Time goes on when told to.
  let now = 1.7e12;
  let id = 0;
  const due = new Map();
  const plan = (id, ms, work) => due.set(id, { at: now + Math.max(0, ms || 0), work });
  const real = { now: Date.now, setTimeout, setInterval, clearTimeout, clearInterval };
  Date.now = () => now;
  window.setTimeout = (work, ms) => (plan(++id, ms, work), id);
  window.setInterval = (work, ms) => {
    const mine = ++id;
    const again = () => plan(mine, ms, () => (again(), work()));
    again();
    return mine;
  };
  window.clearTimeout = window.clearInterval = (id) => due.delete(id);
  const pass = (ms) => {
    for (const end = now + ms; ; ) {
      const [next] = [...due].filter(([, { at }]) => at <= end).sort(([a, x], [b, y]) => x.at - y.at || a - b);
      if (!next) return (now = end);
      due.delete(next[0]);
      now = Math.max(now, next[1].at);
      next[1].work();
      check();
    }
  };

  // The server: two games, and the links it holds.
  let bad = true;
  let blocked = false; // the first transport
  const games = Object.fromEntries(['g1', 'g2'].map((g) => [g, { g, epoch: 'e1', ver: 0, lines: new Map(), there: true }]));
  const links = new Set();
  const changed = ({ lines }, since) => [...lines.values()].filter(({ ver }) => ver > since).sort((a, b) => a.ver - b.ver);
  const newest = ({ lines }) => [...lines.values()].sort((a, b) => (a.evt < b.evt ? 1 : -1));
  const snap = (game) => ({ t: 'snap', g: game.g, epoch: game.epoch, to: game.ver, game: { cursor: `${game.epoch}:${game.ver}`, released: true }, lines: newest(game), older: false });
  let heard = now;
  const deliver = (link, frame, delay = 0) => {
    if (bad && chance(15)) return;
    const copy = structuredClone(frame);
    window.setTimeout(() => {
      if (link.mute || link.left) return;
      heard = now;
      link.on.onframe(copy);
    }, delay + (bad ? upTo(2000) : 5));
    if (bad && chance(10)) deliver(link, frame, upTo(3000));
  };
  const answer = (link, { g, since }) => {
    const game = games[g];
    if (!game.there) return deliver(link, { t: 'err', g, code: 'not_found', msg: '' });
    link.games.add(g);
    const [epoch, ver] = since ? since.split(':') : [];
    if (epoch === game.epoch) return deliver(link, { t: 'delta', g, epoch, from: Number(ver), to: game.ver, lines: changed(game, Number(ver)) });
    if (since) deliver(link, { t: 'reset', g, reason: 'epoch' });
    deliver(link, snap(game));
  };
  let made = 0;
  let back = 0; // times that the first transport took over from the second
  let by = 'first';
  const transport = (name, through) => Object.defineProperty((url, on) => {
    const link = { name, on, games: new Set(), open: false, mute: false, left: false };
    links.add(link);
    made++;
    window.setTimeout(() => {
      if (link.left) return;
      if (!through() || (bad && chance(20))) return end(link, 1006);
      link.open = true;
      on.onopen();
    }, 10 + upTo(bad ? 3000 : 50));
    return {
      send: (frame) => !link.mute && frame.t === 'sub' && !(bad && chance(10)) && window.setTimeout(() => link.left || answer(link, frame), 5),
      close: () => { link.left = true; links.delete(link); },
    };
  }, 'name', { value: name });
  const end = (link, code) => {
    if (link.left) return;
    link.left = true;
    links.delete(link);
    link.on.onclose(code, '');
  };
  const tell = (game, frame) => {
    for (const link of links) if (link.open && link.games.has(game.g)) deliver(link, frame);
  };
  const commit = (game) => {
    const from = game.ver;
    const lines = [];
    for (let n = upTo(3); n >= 0; n--) {
      const evts = [...game.lines.keys()];
      const evt = evts.length > 0 && chance(30) ? evts[upTo(evts.length)] : `EVT${String(1e10 + upTo(1e6))}`;
      const line = { evt, ver: ++game.ver, text: `${evt} at ${game.ver}`, state: 'live', at: '' };
      game.lines.set(evt, line);
      lines.push(line);
    }
    tell(game, { t: 'lines', g: game.g, epoch: game.epoch, from, to: game.ver, lines: lines.filter((line) => game.lines.get(line.evt) === line) });
  };
  const renew = (game) => {
    game.epoch = `e${Number(game.epoch.slice(1)) + 1}`;
    game.ver = 0;
    for (const line of game.lines.values()) line.ver = ++game.ver;
    tell(game, { t: 'reset', g: game.g, reason: 'epoch' });
    tell(game, snap(game));
  };
  window.setInterval(() => {
    for (const link of links) if (link.open) deliver(link, { t: 'tick', now: new Date(now).toISOString(), games: [...link.games].map((g) => ({ g, to: games[g].ver, watchers: 1 })) });
  }, 10_000);

  // What must hold at any moment.
  const faults = new Set();
  let client;
  const check = () => {
    if (!client) return;
    const was = by;
    ({ by } = client.status());
    if (was === 'second' && by === 'first') back++;
    if (links.size > 2) faults.add('more than a connection and a try beside it');
    const { phase, silent } = client.status();
    if (silent && phase === 'live') faults.add('silent, and called live');
    if (now - heard > 13_000 && !silent) faults.add('silent, and not said so');
    if (phase === 'live' && ![...links].some(({ open }) => open)) faults.add('live without a connection');
  };

  try {
    heard = now;
    client = new FeedClient('ws://model/live', { random, transports: [transport('first', () => !blocked), transport('second', () => true)] });
    const watched = Object.keys(games).map((g) => client.watch(g, { limit: 500, keep: 1e6 }).state);
    for (let second = 0; second < 600; second++) {
      for (const game of Object.values(games)) {
        if (chance(40)) commit(game);
        if (chance(0.5)) renew(game);
        if (chance(1)) {
          game.there = !game.there;
          if (!game.there) tell(game, { t: 'err', g: game.g, code: 'not_found', msg: '' });
        }
      }
      if (chance(1)) blocked = !blocked;
      for (const link of links) {
        if (chance(2)) end(link, [1006, 4000, 4001, 4005][upTo(4)]);
        else if (chance(1)) link.mute = true;
      }
      if (chance(1)) client.wake();
      pass(1000);
    }
    bad = blocked = false;
    for (const game of Object.values(games)) game.there = true;
    pass(240_000);
    for (const held of watched) {
      const game = games[held.game];
      const want = newest(game).map(({ evt, ver, text }) => `${evt} ${ver} ${text}`);
      const got = held.entries.map(({ line: { evt, ver, text } }) => `${evt} ${ver} ${text}`);
      if (held.cursor !== `${game.epoch}:${game.ver}` || got.join() !== want.join()) faults.add(`${game.g} stands at ${held.cursor} with ${got.length} lines, want ${game.epoch}:${game.ver} with ${want.length}`);
    }
    if (links.size !== 1 || by !== 'first') faults.add(`in the end there are ${links.size} connections, and it lives by the ${by}`);
    if (client.status().phase !== 'live') faults.add(`in the end it is ${client.status().phase}`);
    return { faults: [...faults], connections: made, back, lines: watched.reduce((sum, { entries }) => sum + entries.length, 0) };
  } finally {
    client?.close();
    Date.now = real.now;
    Object.assign(window, { setTimeout: real.setTimeout, setInterval: real.setInterval, clearTimeout: real.clearTimeout, clearInterval: real.clearInterval });
  }
}
