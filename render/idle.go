package render

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
)

// A game that is over costs a reader as long as its stream is read, and streams outlive their games. So the stream of a
// game that is final, of which all was delivered and nothing is pending, and which was silent for a while, is left, or
// not even joined at a start; it is joined again when it has grown: an amendment may come at any time.

const idlePage = 500 // streams asked about in one round trip

// leaveIdle leaves the joined streams that are at rest.
func (d *Discovery) leaveIdle(ctx context.Context) error {
	joined := make([]*stream, 0, len(d.found))
	for _, s := range d.found {
		if s.joined {
			joined = append(joined, s)
		}
	}
	node := d.cfg.Client
	for page := range slices.Chunk(joined, idlePage) {
		commands := make([]valkey.Completed, len(page))
		for i, s := range page {
			commands[i] = node.B().XinfoGroups().Key(s.key).Build()
		}
		var quiet []*stream
		for i, reply := range node.DoMulti(ctx, commands...) {
			if err := outage(reply.Error()); err != nil {
				return err
			}
			// Without its group, or without itself, a stream is not at rest: its reader is about to make them.
			if group, err := d.groupOf(reply); err == nil && d.isQuiet(page[i], group) {
				quiet = append(quiet, page[i])
			}
		}
		final, _, err := d.divide(ctx, node, quiet)
		if err != nil {
			return err
		}
		d.leave(final)
	}
	return nil
}

func (d *Discovery) leave(streams []*stream) {
	if len(streams) == 0 {
		return
	}
	keys := make([]string, len(streams))
	for i, s := range streams {
		keys[i] = s.key
		s.joined, s.asleep = false, true
	}
	d.cfg.Streams.Leave(keys...)
}

// isQuiet reports whether nothing is pending and nothing was delivered for a while, by the clock of the entries and by
// ours: entries may bear ids of the past.
func (d *Discovery) isQuiet(s *stream, g group) bool {
	if s.delivered != g.delivered {
		if s.joined {
			s.changed = time.Now()
		}
		s.delivered = g.delivered
	}
	since := timeOf(g.delivered)
	if s.changed.After(since) {
		since = s.changed
	}
	return d.cfg.Games != nil && g.pending == 0 && time.Since(since) >= d.cfg.IdleAfter
}

// divide tells, of quiet streams, the ones at rest (all was delivered and the game is final) from the others. Where nobody
// can say how games stand, they are read: the pass goes on, and fails in the end.
func (d *Discovery) divide(ctx context.Context, node valkey.Client, quiet []*stream) (final, others []*stream, err error) {
	if len(quiet) == 0 {
		return nil, nil, nil
	}
	commands := make([]valkey.Completed, len(quiet))
	for i, s := range quiet {
		commands[i] = beyond(node, s)
	}
	var read []*stream
	for i, reply := range node.DoMulti(ctx, commands...) {
		entries, err := reply.AsXRange()
		if err := outage(err); err != nil {
			return nil, nil, err
		}
		if err == nil && len(entries) == 0 {
			read = append(read, quiet[i])
		} else {
			others = append(others, quiet[i])
		}
	}
	if len(read) == 0 {
		return nil, others, nil
	}
	games := make([]feed.GameKey, len(read))
	for i, s := range read {
		games[i] = s.game
	}
	statuses, err := d.cfg.Games.Statuses(ctx, games)
	if err != nil {
		d.trouble = fmt.Errorf("statuses of %d games: %w", len(games), err)
		return nil, append(others, read...), nil
	}
	for i, s := range read {
		if statuses[i].Final() {
			final = append(final, s)
		} else {
			others = append(others, s)
		}
	}
	return final, others, nil
}
