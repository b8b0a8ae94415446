/**
 * The renderers' group over a FeedClient, so that it is followed as games are: reconnected, resumed and spoken of alike. To the client the
 * group is a game that no game can be named like; subscribing to it is said as `operate`, and each `streams` frame comes as a snapshot without lines.
 */
import { webSocket } from './transports.js';

export const GROUP = '-';

/** @type {import('./transports.js').Transport} */
export function groupSocket(url, { onopen, onframe, onclose }) {
  let turn = 0;
  const link = webSocket(url, {
    onopen,
    onclose,
    onframe: (frame) => {
      if (frame.t === 'streams') onframe({ t: 'snap', g: GROUP, epoch: 'group', to: ++turn, lines: [], older: false, streams: frame });
      else onframe(frame.t === 'err' ? { ...frame, g: GROUP } : frame);
    },
  });
  return {
    send: (frame) => frame.t !== 'unsub' && link.send(frame.t === 'sub' ? { t: 'operate' } : frame),
    close: link.close,
  };
}
