/**
 * Times as watchers read them, by the server's clock: `now` is ms since 1970 as the server has it.
 */
const absolute = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit', timeZoneName: 'short' });

/** With date, seconds and zone: what a hover or focus shows. */
export function exact(iso) {
  const at = Date.parse(iso);
  return Number.isNaN(at) ? '' : absolute.format(at);
}

/** How long ago, coarse: `now`, `5 min`, `3 h`, `2 d`. An id may run ahead of the clock: that is `now`. */
export function ago(iso, now) {
  const minutes = Math.floor((now - Date.parse(iso)) / 60_000);
  if (!(minutes >= 1)) return 'now';
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} d`;
}

/** The time until `iso`: `2 d 4 h`, `3 h 05 min`, `04:59`; null when it is over. */
export function left(iso, now) {
  const seconds = Math.ceil((Date.parse(iso) - now) / 1000);
  if (!(seconds > 0)) return null;
  const pad = (n) => String(n).padStart(2, '0');
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  if (hours >= 48) return `${Math.floor(hours / 24)} d ${hours % 24} h`;
  if (hours >= 1) return `${hours} h ${pad(minutes % 60)} min`;
  return `${pad(minutes)}:${pad(seconds % 60)}`;
}
