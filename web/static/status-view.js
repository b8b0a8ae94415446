import { setText } from './dom.js';

/**
 * The chip and the banner: how far what is on the screen can be trusted. `data-status` of the chip: live, catching-up, reconnecting, offline,
 * ended, refused.
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

  /** @param {import('./feed-client.js').Status} status @param {boolean} ended nothing more is expected of what is shown */
  update(status, ended) {
    const [name, text] = chip(status, ended);
    this.#chip.dataset.status = name;
    setText(this.#chip.querySelector('.chip-text'), text);
    this.#banner.hidden = !(status.silent || name === 'refused');
    setText(this.#text, banner(status, name));
    return name;
  }
}

function chip({ phase, retryAt }, ended) {
  if (phase === 'refused') return ['refused', 'Closed'];
  if (phase === 'live') return ended ? ['ended', 'Ended'] : ['live', 'Live'];
  if (!navigator.onLine) return ['offline', 'Offline'];
  if (phase === 'catching-up') return ['catching-up', 'Catching up'];
  const seconds = Math.ceil((retryAt - Date.now()) / 1000);
  return ['reconnecting', phase === 'waiting' && seconds > 0 ? `Reconnecting in ${seconds} s` : 'Reconnecting'];
}

function banner({ silence, reason }, name) {
  if (name === 'refused') return `The server closed this feed${reason ? `: ${reason}` : ''}.`;
  const seconds = Math.round(silence / 1000);
  const quiet = `Nothing heard for ${seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`}`;
  return name === 'offline' ? `You are offline. ${quiet}.` : `${quiet}. What you see may be out of date.`;
}
