import { FeedClient } from './feed-client.js';

const [title, phase, list] = ['h1', '#phase', 'ol'].map((name) => document.querySelector(name));
const { tenant = 'demo', game = 'g1' } = Object.fromEntries(new URLSearchParams(location.search));

const client = new FeedClient(`${location.origin.replace(/^http/, 'ws')}/v1/tenants/${tenant}/live`, {
  onstatus: (status) => { phase.textContent = status.phase; },
});
client.watch(game, {
  onchange(state) {
    title.textContent = state.refusal ? state.refusal.msg : state.header?.title ?? game;
    list.replaceChildren(...state.entries.map(({ line }) => {
      const item = document.createElement('li');
      item.textContent = line.state === 'retracted' ? 'removed' : line.text;
      return item;
    }));
  },
});
for (const event of ['online', 'pageshow', 'focus']) addEventListener(event, () => client.wake());
