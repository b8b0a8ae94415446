package web

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/broadcast"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

// liveTable is what a hub reads.
type liveTable interface {
	// Changes wraps timeline.ErrEpoch for a cursor of another epoch or of a version that does not exist.
	Changes(ctx context.Context, game feed.GameKey, since feed.Cursor, limit int) (timeline.Changes, error)
	Snapshot(ctx context.Context, game feed.GameKey, limit int) (timeline.Snapshot, error)
	Game(ctx context.Context, game feed.GameKey) (feed.Game, error)
}

// read is one query of a hub.
type read func(context.Context)

// idleWait is how long a hub with nothing to do sleeps when nobody rouses it.
const idleWait = time.Hour

// next says what to read now, or how long nothing needs to be read. The order is that of need: whoever waits for a first
// answer, then gaps, then the header. Before that it serves whom a message has made servable: that needs no read, so
// nothing else would.
func (h *hub) next(now time.Time) (read, time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.serveAll()
	if wait := h.retryAt.Sub(now); wait > 0 {
		return nil, wait
	}
	wants := h.wants()
	switch {
	case !h.recent.opened():
		switch {
		case wants.limit > 0:
			return h.readSnapshot(wants.limit), 0
		case wants.since != nil:
			return h.readChanges(*wants.since), 0
		}
		return nil, idleWait
	case wants.look || h.doubt && !now.Before(h.doubtAt):
		return h.readChanges(h.recent.cursor()), 0
	case wants.limit > 0 && !h.window.serves(&h.recent, wants.limit) && (h.window == nil || h.window.ver <= h.recent.last):
		return h.readSnapshot(wants.limit), 0
	case wants.limit > 0 && !h.header.fresh(&h.recent):
		return h.readHeader, 0
	case wants.since != nil:
		return h.readChanges(*wants.since), 0
	}
	wait := idleWait
	if h.target > h.recent.last {
		wait = h.gapAt.Sub(now)
	}
	if wait <= 0 {
		return h.readChanges(h.recent.cursor()), 0
	}
	if h.doubt {
		wait = min(wait, h.doubtAt.Sub(now))
	}
	if len(h.live) > 0 && (h.header.json == nil || h.header.ver < h.recent.last) {
		due := h.header.due.Sub(now)
		if due <= 0 {
			return h.readHeader, 0
		}
		wait = min(wait, due)
	}
	return nil, wait
}

// wants is what the waiting subscriptions need.
type wants struct {
	limit int          // a snapshot of so many lines
	since *feed.Cursor // the changes since here, the earliest
	look  bool         // the table's word on a cursor that contradicts what is known
}

func (h *hub) wants() wants {
	var out wants
	for s := range h.waiting {
		switch {
		case s.cursor == (feed.Cursor{}):
			out.limit = max(out.limit, s.limit, defaultLimit)
		case h.contradicts(s):
			out.look = true
		case out.since == nil || s.cursor.Ver < out.since.Ver:
			at := s.cursor
			out.since = &at
		}
	}
	return out
}

// contradicts reports whether a cursor is of another epoch or ahead of what is known.
func (h *hub) contradicts(s *sub) bool {
	return h.recent.opened() && (s.cursor.Epoch != h.recent.epoch || s.cursor.Ver > h.recent.last)
}

func (h *hub) readChanges(since feed.Cursor) read {
	mark := h.arrived // what came later may be newer than the answer
	return func(ctx context.Context) {
		changes, err := h.table.Changes(ctx, h.key, since, changesPage)
		h.meter.query("changes", err)
		lines := encodeViews(changes.Lines)
		h.mu.Lock()
		defer h.mu.Unlock()
		switch {
		case errors.Is(err, timeline.ErrEpoch):
			h.refused(since, mark)
		case h.failed(ctx, err):
		default:
			h.absorb(since, changes, lines, mark)
		}
	}
}

// absorb takes the answer of the table: what changed since a cursor.
func (h *hub) absorb(since feed.Cursor, changes timeline.Changes, lines []broadcast.Line, mark int64) {
	if !h.recent.opened() {
		if changes.More { // nothing to connect a part of it to
			h.startOver(since, mark, resetBehind)
			return
		}
		h.recent.open(changes.Epoch, since.Ver)
	}
	reached := h.recent.reach(since.Ver, changes.To, lines)
	if changes.To > h.recent.last {
		h.advance(changes.To, lines, h.rung(changes.To))
	}
	switch {
	case !reached:
		h.startOver(since, mark, resetBehind)
	case changes.More:
		h.know(h.recent.last+1, 0)
	default:
		h.settle(mark)
	}
	h.unpark()
	h.serveAll()
	h.recent.trim(h.room())
}

// settle draws the consequences of an answer that is whole: what was said before the question and is not part of the
// answer is not so.
func (h *hub) settle(mark int64) {
	h.doubt, h.target = false, 0
	h.parked = slices.DeleteFunc(h.parked, func(p parked) bool { return p.arrived <= mark && !h.continues(&p.Message) })
	for s := range h.waiting {
		if s.asked <= mark && s.cursor != (feed.Cursor{}) && h.contradicts(s) {
			if s.cursor.Epoch != h.recent.epoch {
				s.refuse(resetEpoch)
			} else {
				s.refuse(resetCursor)
			}
		}
	}
}

// startOver lets the subscriptions that a read from a cursor was to answer begin with a snapshot.
func (h *hub) startOver(since feed.Cursor, mark int64, reason string) {
	for s := range h.waiting {
		if s.asked <= mark && s.cursor.Epoch == since.Epoch && (reason == resetCursor || s.cursor.Ver < h.recent.floor || !h.recent.opened()) {
			s.refuse(reason)
		}
	}
}

// refused takes the table's word that a cursor is none of this game: the versions began anew, or, before anything is
// known, that subscriptions came with cursors of another time.
func (h *hub) refused(since feed.Cursor, mark int64) {
	if since.Epoch != h.recent.epoch {
		h.startOver(since, mark, resetCursor)
		return
	}
	h.faults.say(slog.LevelInfo, "game began a new epoch", "tenant", h.key.Tenant, "game", h.key.Game, "watchers", h.watchers())
	old := h.recent.epoch
	h.recent, h.window, h.header, h.snapped, h.doubt, h.target = recent{}, nil, header{}, snapped{}, false, 0
	for s := range h.live {
		delete(h.live, s)
		h.waiting[s] = struct{}{}
		s.refuse(resetEpoch)
	}
	for s := range h.waiting {
		if s.cursor.Epoch == old {
			s.refuse(resetEpoch)
		}
	}
	if h.moved != nil {
		close(h.moved)
		h.moved = nil
	}
}

func (h *hub) readSnapshot(limit int) read {
	return func(ctx context.Context) {
		snapshot, err := h.table.Snapshot(ctx, h.key, limit)
		h.meter.query("snapshot", err)
		lines := encodeViews(snapshot.Lines)
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.failed(ctx, err) {
			return
		}
		at := snapshot.Game.Cursor
		if !h.recent.opened() {
			h.recent.open(at.Epoch, at.Ver)
			h.unpark()
		}
		if at.Epoch != h.recent.epoch {
			h.doubt, h.doubtAt = true, time.Time{}
			return
		}
		h.window = &window{ver: at.Ver, limit: limit, lines: lines, older: snapshot.Older}
		if !h.header.fresh(&h.recent) { // else the next is not due
			h.counted(h.header.took)
			h.setHeader(snapshot.Game)
		}
		h.know(at.Ver, 0) // it may be ahead of what watchers were sent
		h.serveAll()
	}
}

func (h *hub) readHeader(ctx context.Context) {
	start := time.Now()
	game, err := h.table.Game(ctx, h.key)
	h.meter.query("game", err)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counted(time.Since(start))
	if h.failed(ctx, err) {
		h.serveAll() // by the last one, which is good until the next is due
		return
	}
	if game.Cursor.Epoch != h.recent.epoch {
		h.suspect()
		return
	}
	h.setHeader(game)
	h.serveAll()
}

func (h *hub) serveAll() {
	for s := range h.waiting {
		h.serve(s)
	}
}

// failed handles the error of a read: a game that is not there is said to be so, anything else is tried again later.
func (h *hub) failed(ctx context.Context, err error) bool {
	switch {
	case err == nil:
		h.fails = 0
		return false
	case errors.Is(err, timeline.ErrNotFound):
		h.gone(errNotFound)
	case !errors.Is(ctx.Err(), context.Canceled): // else the hub is ending
		h.faults.warn("hubs cannot read their games; they try until they can", "tenant", h.key.Tenant, "game", h.key.Game, "err", err)
		h.waitABit()
	}
	return true
}

// waitABit puts the next read off, longer each time in a row, with jitter: all hubs fail at the same time.
func (h *hub) waitABit() {
	wait := min(maxBackoff, firstBackoff<<min(h.fails, 10))
	h.fails++
	h.retryAt = time.Now().Add(wait/2 + rand.N(wait))
}
