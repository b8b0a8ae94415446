/**
 * Makes an element. Children are nodes or text, and text is only ever a text node: nothing a game says is parsed as markup.
 * @param {string} name
 * @param {Object<string, any>} [attributes] `on...` adds a listener; true is an empty attribute; false, null and undefined are left out
 */
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const SVG = 'http://www.w3.org/2000/svg';

/** The names a kind may give as its icon: the list of icons.txt. Any other shows as `question`. */
export const ICONS = new Set(['ban', 'clock', 'coins', 'crown', 'dart', 'door', 'eraser', 'flag', 'gem', 'guess', 'key', 'megaphone', 'pencil',
  'question', 'trophy', 'users']);

/** An icon of icons.svg; decoration only, so hidden from screen readers. */
export function icon(name) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('class', 'icon');
  svg.setAttribute('aria-hidden', 'true');
  const use = document.createElementNS(SVG, 'use');
  use.setAttribute('href', `/static/icons.svg#${name}`);
  svg.append(use);
  return svg;
}

/** Writes text only where it differs, so that unchanged nodes cost nothing and selections survive. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** A number as people write it here: 12,400. */
export const count = new Intl.NumberFormat().format;

/** Calls `work` once in the next animation frame, however often it is asked for. */
export function perFrame(work) {
  let asked = 0;
  return () => {
    asked ||= requestAnimationFrame(() => {
      asked = 0;
      work();
    });
  };
}
