/** What the pages share: where they ask, what brings a sleeping page back, and what a browser keeps for them. */

/** The URL of a tenant's socket on the host that served the page. */
export function liveURL(tenant) {
  return `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/v1/tenants/${tenant}/live`;
}

/**
 * Reads of a tenant by REST: `read('/games')` is the answer, or throws an error with its `status`.
 * @param {string} tenant @param {() => string} token what to show the server, '' nothing
 */
export function reader(tenant, token) {
  return async (path) => {
    const shown = token();
    const headers = { Accept: 'application/json', ...(shown && { Authorization: `Bearer ${shown}` }) };
    const answer = await fetch(`/v1/tenants/${tenant}${path}`, { headers, cache: 'no-cache' });
    if (!answer.ok) throw Object.assign(new Error(`the server answered ${answer.status}`), { status: answer.status });
    return answer.json();
  };
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

/** What a browser keeps, where it lets us. */
const kept = (storage) => ({
  read(key, otherwise) {
    try {
      return storage().getItem(key) ?? otherwise;
    } catch {
      return otherwise;
    }
  },
  write(key, value) {
    try {
      storage().setItem(key, value);
    } catch {
      // A browser that stores nothing keeps it for this visit.
    }
  },
});

/** A choice that survives the page. */
export const remembered = kept(() => localStorage);

/** What is for this tab alone, and ends with it. */
export const tab = kept(() => sessionStorage);
