/**
 * Pages of the past, by REST, joined to a FeedState: what is above or below what it holds, or the lines around one of them.
 */
export class Timeline {
  /** Why the last page did not come, '' if it did. */
  trouble = '';

  #read;
  #state;
  #limit;
  #filter;
  #busy = null;

  /**
   * @param {(path: string) => Promise<object>} read reads below `/v1/tenants/{tenant}/games/{game}`
   * @param {import('./feed-state.js').FeedState} state
   * @param {{limit?: number, filter?: string}} [options] lines a page, 100 by default; the filter as a query, of a state that holds its matches
   */
  constructor(read, state, { limit = 100, filter = '' } = {}) {
    this.#read = read;
    this.#state = state;
    this.#limit = limit;
    this.#filter = filter && `&${filter}`;
  }

  get busy() {
    return this.#busy !== null;
  }

  /** Joins the next page below ('older') or above ('newer'). Calls during a call wait for that one's end. */
  more(part) {
    const edge = this.#state.edge(part);
    if (!edge) return Promise.resolve(false);
    return this.#once(part, async () => {
      const page = await this.#page(part, edge);
      return part === 'older' ? { lines: page.lines, older: page.more } : { lines: page.lines, newer: page.more };
    });
  }

  /** Makes the lines around `evt` the held ones. @returns {Promise<boolean>} false where there is no such line */
  around(evt) {
    return this.#once('around', async () => {
      const [line, below, above] = await Promise.all([this.#read(`/lines/${evt}`), this.#page('older', evt), this.#page('newer', evt)]);
      return { lines: [...above.lines, line, ...below.lines], newer: above.more, older: below.more };
    });
  }

  #once(part, load) {
    this.#busy ??= this.#join(part, load).finally(() => {
      this.#busy = null;
    });
    return this.#busy;
  }

  async #join(part, load) {
    const ticket = this.#state.expect(part);
    try {
      const page = await load();
      this.trouble = '';
      return this.#state.add(ticket, page);
    } catch (err) {
      this.trouble = err.message;
      this.#state.drop(ticket);
      return false;
    }
  }

  /** `more`: in the direction that was asked for. */
  #page(part, edge) {
    return this.#read(`/timeline?${part === 'older' ? 'before' : 'after'}=${edge}&limit=${this.#limit}${this.#filter}`);
  }
}
