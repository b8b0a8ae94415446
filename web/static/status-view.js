import { setText } from './dom.js';

/**
 * The chip and the banner: how far what is on the screen can be trusted. `data-status` of the chip: live, catching-up, reconnecting, offline,
 * ended, waiting (the server has nothing to show yet, or not any more), refused. `data-by` is how the frames travel.
 */
export class StatusView {
  #chip;
  #banner;
  #text;

  constructor(chip, banner, retry) {
    this.#chip = chip;
    this.#banner = banner;
    this.#text = banner.querySelector('p');
    banner.querySelector('button').addEventListener('click', retry);
  }

  /**
   * @param {import('./feed-client.js').Status} status
   * @param {{over?: boolean, refused?: boolean, asked?: boolean}} [game] over: nothing more is expected of it. refused: the server does not
   *   show it. asked: the page asks for a token, which says it all
   */
  update(status, game = {}) {
    const [name, text] = chip(status, game);
    this.#chip.dataset.status = name;
    this.#chip.dataset.by = status.by;
    this.#chip.title = WAYS[status.by] ?? '';
    setText(this.#chip.querySelector('.chip-text'), text);
    this.#banner.hidden = game.asked || !(status.silent || name === 'refused');
    setText(this.#text, banner(status, name));
    return name;
  }
}

const WAYS = {
  eventStream: 'A socket does not get through here: lines come by an event stream.',
  longPoll: 'Neither a socket nor a stream gets through here: lines are asked for every few seconds.',
};

function chip({ phase, retryAt }, { over, refused }) {
  if (phase === 'refused') return ['refused', 'Closed'];
  if (phase === 'resting') return ['ended', 'Ended'];
  if (phase === 'live') return refused ? ['waiting', 'Waiting'] : over ? ['ended', 'Ended'] : ['live', 'Live'];
  if (!navigator.onLine) return ['offline', 'Offline'];
  if (phase === 'catching-up' || phase === 'connecting' && retryAt === 0) return ['catching-up', 'Catching up']; // nothing was lost yet
  const seconds = Math.ceil((retryAt - Date.now()) / 1000);
  return ['reconnecting', phase === 'waiting' && seconds > 0 ? `Reconnecting in ${seconds} s` : 'Reconnecting'];
}

function banner({ silence, reason }, name) {
  if (name === 'refused') return `The server closed this feed${reason ? `: ${reason}` : ''}.`;
  const seconds = Math.round(silence / 1000);
  const quiet = `Nothing heard for ${seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`}`;
  return name === 'offline' ? `You are offline. ${quiet}.` : `${quiet}. What you see may be out of date.`;
}
