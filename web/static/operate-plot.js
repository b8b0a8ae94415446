import { setText } from './dom.js';
import { span } from './operate-view.js';

const HOUR = 3_600_000;
const WIDTH = 600;
const HEIGHT = 190;
const LEFT = 94; // the labels of the scale
const BOTTOM = 30;
const TOP = 14;
const GAP = 60_000; // ms between two samples beyond which nothing is known of what was between them
const SVG = 'http://www.w3.org/2000/svg';

const perSecond = (n) => (n >= 10 || n === 0 ? String(Math.round(n)) : n.toPrecision(2));
const took = (s) => (s >= 1 ? span(s) : s === 0 ? '0' : `${s * 1000 >= 10 ? Math.round(s * 1000) : (s * 1000).toPrecision(2)} ms`);

const PLOTS = [
  { id: 'plot-settled', title: 'Events settled a second', format: perSecond, series: [['settled_per_second', '']] },
  { id: 'plot-commit', title: 'From the stream to the table', format: took, series: [['commit_p50_seconds', 'half'], ['commit_p99_seconds', '99 of 100']] },
  { id: 'plot-oldest', title: 'Age of the oldest pending', format: took, series: [['oldest_pending_seconds', '']] },
];

/** The last hour, as plots. */
export class History {
  #samples = new Map(); // by their moment
  #plots;
  #drawn = true;

  /** @param {(id: string) => HTMLElement} find */
  constructor(find) {
    this.#plots = PLOTS.map((each) => new Plot(find(each.id), each));
  }

  /** @param {object[]} samples of a streams frame; of a fresh connection they are the whole hour */
  add(samples) {
    for (const each of samples) this.#samples.set(each.at, { ...each, ms: Date.parse(each.at) });
    if (samples.length > 0) this.#drawn = false;
  }

  clear() {
    this.#samples.clear();
    this.#drawn = false;
  }

  draw() {
    if (this.#drawn) return;
    this.#drawn = true;
    const list = [...this.#samples.values()].sort((a, b) => a.ms - b.ms);
    const end = list.at(-1)?.ms ?? 0;
    for (const each of list) if (each.ms < end - HOUR) this.#samples.delete(each.at);
    for (const plot of this.#plots) plot.draw(list.filter(({ ms }) => ms >= end - HOUR), end);
  }
}

class Plot {
  #format;
  #series;
  #title;
  #svg;
  #now;
  #legend;
  #list = [];
  #end = 0;
  #most = 1;

  constructor(figure, { title, format, series }) {
    this.#format = format;
    this.#series = series;
    this.#title = title;
    const caption = document.createElement('figcaption');
    this.#now = document.createElement('b');
    this.#legend = document.createElement('span');
    caption.append(`${title} `, this.#now, this.#legend);
    this.#svg = shape('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', tabindex: '0', preserveAspectRatio: 'none' });
    this.#svg.addEventListener('pointermove', (event) => this.#point(event));
    this.#svg.addEventListener('pointerleave', () => this.#say(this.#list.at(-1), ''));
    this.#svg.addEventListener('keydown', (event) => this.#step(event));
    this.#svg.addEventListener('blur', () => this.#say(this.#list.at(-1), ''));
    figure.append(caption, this.#svg);
  }

  /** @param {object[]} list samples in order of time @param {number} end the right edge, in ms */
  draw(list, end) {
    this.#list = list;
    this.#end = end;
    const values = this.#series.flatMap(([name]) => list.map((each) => each[name]).filter((value) => value !== undefined));
    this.#most = ceiling(Math.max(0, ...values));
    const marks = [0, this.#most / 2, this.#most].flatMap((value) => [
      shape('line', { class: 'grid', x1: LEFT, x2: WIDTH, y1: this.#y(value), y2: this.#y(value) }),
      shape('text', { class: 'scale', x: LEFT - 6, y: this.#y(value) + 6, 'text-anchor': 'end' }, this.#format(value)),
    ]);
    const times = [['an hour ago', 0, 'start'], ['30 min', .5, 'middle'], ['now', 1, 'end']].map(([text, part, anchor]) =>
      shape('text', { class: 'scale', x: LEFT + part * (WIDTH - LEFT), y: HEIGHT - 5, 'text-anchor': anchor }, text));
    const lines = this.#series.map(([name], i) => shape('path', { class: `curve curve-${i}`, d: this.#path(name) }));
    this.#svg.replaceChildren(...marks, ...times, ...lines);
    this.#say(list.at(-1), '');
    this.#svg.setAttribute('aria-label', `${this.#title}, the last hour. Now ${this.#text(list.at(-1))}, at most ${values.length > 0 ? this.#format(Math.max(...values)) : 'not known'}.`);
  }

  #x(ms) {
    return LEFT + (1 - (this.#end - ms) / HOUR) * (WIDTH - LEFT);
  }

  #y(value) {
    return TOP + (1 - value / this.#most) * (HEIGHT - TOP - BOTTOM);
  }

  // A line between samples that follow each other, a dot where one stands alone.
  #path(name) {
    let path = '';
    let last = null;
    for (const each of this.#list) {
      const value = each[name];
      if (value === undefined) {
        last = null;
        continue;
      }
      const at = `${this.#x(each.ms).toFixed(1)} ${this.#y(value).toFixed(1)}`;
      path += last !== null && each.ms - last <= GAP ? `L${at}` : `M${at}h.1`;
      last = each.ms;
    }
    return path;
  }

  #text(sample) {
    const known = this.#series.filter(([name]) => sample?.[name] !== undefined);
    return known.length === 0 ? '-' : known.map(([name, label]) => `${this.#format(sample[name])}${label && ` (${label})`}`).join(', ');
  }

  #say(sample, when) {
    setText(this.#now, this.#text(sample));
    setText(this.#legend, when);
  }

  #point(event) {
    const box = this.#svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * WIDTH;
    this.#pick(this.#list.reduce((best, each) => (best && Math.abs(this.#x(best.ms) - x) <= Math.abs(this.#x(each.ms) - x) ? best : each), null));
  }

  #step(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || this.#list.length === 0) return;
    event.preventDefault();
    const at = this.#list.findIndex(({ ms }) => String(ms) === this.#svg.dataset.at);
    this.#pick(this.#list[Math.max(0, Math.min(this.#list.length - 1, (at < 0 ? this.#list.length - 1 : at) + by))]);
  }

  #pick(sample) {
    if (!sample) return;
    this.#svg.dataset.at = sample.ms;
    this.#say(sample, ` at ${new Date(sample.ms).toLocaleTimeString()}`);
  }
}

// The least of 1, 2, 5 x 10^n that is not below a value, so that a scale reads well.
function ceiling(value) {
  if (!(value > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  return unit * [1, 2, 5, 10].find((n) => n * unit >= value * .9999);
}

function shape(name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}
