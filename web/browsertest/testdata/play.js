// Plays a plan against a FeedState and gives back what it holds in the end. The plan is a log of changes, as the server committed them, and
// what befell the frames on their way; the harness is the server's other half: it answers subscriptions and pages as of a position in the log.
async (plan) => {
  const { FeedState } = await import('/static/feed-state.js');
  const { Filter, Found } = await import('/static/find.js');
  const state = new FeedState('g1', { keep: 1e6 });
  let found = null; // a search beside it, for the lines of every other id
  const odd = new Filter({ kind: 'odd' });
  for (const change of plan.log) for (const line of change.lines) line.kind = Number(line.evt.at(-1)) % 2 ? 'odd' : 'even';
  const apply = (frame) => {
    const change = state.apply(frame);
    if (found) found.apply(frame, change.placed);
    else found = new Found(state, odd);
    return change;
  };
  let epoch = 'e1';
  let asked = false;
  let ticket = null;
  let asks = 0;

  // The table after the first `pos` changes: evt -> line, newest first.
  const table = (pos) => {
    const lines = new Map();
    for (const change of plan.log.slice(0, pos)) for (const line of change.lines) lines.set(line.evt, line);
    return [...lines.values()].sort((a, b) => (a.evt < b.evt ? 1 : -1));
  };
  const version = (pos) => (pos === 0 ? 0 : plan.log[pos - 1].to);
  const snap = (pos) => {
    const lines = table(pos);
    return { t: 'snap', g: 'g1', epoch, to: version(pos), lines: lines.slice(0, plan.limit), older: lines.length > plan.limit };
  };
  const answer = (pos) => {
    asked = false;
    if (state.epoch !== epoch) return apply(snap(pos));
    const lines = table(pos).filter((line) => line.ver > state.ver).sort((a, b) => a.ver - b.ver);
    return apply({ t: 'delta', g: 'g1', epoch, from: state.ver, to: Math.max(state.ver, version(pos)), lines });
  };
  const take = (change) => {
    if (!change.ask) return;
    asked = true;
    asks++;
  };
  // A page holds what was there when it was asked for, and comes later.
  const page = () => {
    const { pos } = ticket;
    const below = table(pos).filter((line) => line.evt < ticket.edge);
    state.add(ticket, { lines: below.slice(0, plan.limit), older: below.length > plan.limit });
    ticket = null;
  };
  let search = null;
  const more = () => {
    const { pos, from } = search;
    const below = table(pos).filter((line) => line.evt < from && odd.matches(line));
    found.add(search, { lines: below.slice(0, plan.limit), older: below.length > plan.limit });
    search = null;
  };

  const steps = {
    start: ({ pos }) => apply(snap(pos)),
    frame: ({ from, to }) => take(apply({ t: 'lines', g: 'g1', epoch, from: version(from), to: version(to), lines: plan.log.slice(from, to).flatMap((change) => change.lines) })),
    answer: ({ pos }) => asked && take(answer(pos)),
    session: ({ pos }) => take(answer(pos)),
    game: ({ pos }) => apply({ t: 'game', g: 'g1', game: { cursor: `${epoch}:${version(pos)}` } }),
    reset: ({ pos }) => {
      epoch = `e${Number(epoch.slice(1)) + 1}`;
      asked = false;
      apply(snap(pos));
    },
    expect: ({ pos }) => {
      if (!ticket && state.older && state.entries.length > 0) ticket = Object.assign(state.expect('older'), { pos });
      if (!search && found.older && found.edge('older')) search = Object.assign(found.expect('older'), { pos, from: found.edge('older') });
    },
    page: () => {
      if (ticket) page();
      if (search) more();
    },
  };
  let before = new Map();
  let regressed = 0;
  let ahead = 0;
  let headers = 0;
  for (const step of plan.steps) {
    const { ver: cursor } = state;
    steps[step.op](step);
    if (state.ver < cursor) regressed++;
    const told = state.header ? Number(state.header.cursor.split(':')[1]) : 0;
    if (told > state.ver) ahead++;
    headers += told > 0;
    const now = new Map(state.entries.map(({ line }) => [line.evt, line.ver]));
    if (step.op !== 'reset') for (const [evt, ver] of now) if (ver < before.get(evt)) regressed++;
    before = now;
  }

  const end = plan.log.length;
  steps.page();
  apply({ t: 'tick', games: [{ g: 'g1', to: version(end) }] });
  if (state.announced > state.ver || asked) take(answer(end));
  const held = ({ entries }) => entries.map(({ line }) => ({ evt: line.evt, ver: line.ver, text: line.text }));
  return { ver: state.ver, older: state.older, asks, regressed, ahead, headers, lines: held(state), found: held(found), foundOlder: found.older };
}
