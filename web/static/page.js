/** What the pages share: where they are, and the moments that bring a sleeping page back. */

/** The URL of a tenant's socket on the host that served the page. */
export function liveURL(tenant) {
  return `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/v1/tenants/${tenant}/live`;
}

/** Wakes the client when the network returns, the tab is looked at, or the browser takes the page out of its cache. */
export function wakeWithPage(client) {
  addEventListener('online', () => client.retry());
  addEventListener('pageshow', (event) => event.persisted && client.retry());
  document.addEventListener('visibilitychange', () => document.hidden || client.wake());
}

/** Tells the style sheets how high the sticky header is, as `--top`. */
export function measureTop(header) {
  const measure = () => document.documentElement.style.setProperty('--top', `${header.offsetHeight}px`);
  new ResizeObserver(measure).observe(header);
  measure();
}

/** A choice that survives the page where the browser lets it. */
export const remembered = {
  read(key, otherwise) {
    try {
      return localStorage.getItem(key) ?? otherwise;
    } catch {
      return otherwise;
    }
  },
  write(key, value) {
    try {
      localStorage.setItem(key, value);
    } catch {
      // A browser that stores nothing keeps the choice for this visit.
    }
  },
};
