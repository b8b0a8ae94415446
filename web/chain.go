package web

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/codemojex/feedrenderer/feed/broadcast"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

// Rang takes a message of the doorbell.
func (h *hub) Rang(m broadcast.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.arrived++
	switch {
	case h.recent.opened() && m.Epoch == h.recent.epoch && m.To <= h.recent.last:
		h.meter.rang("dropped")
		return
	case h.continues(&m):
		h.meter.rang("emitted")
		h.advance(m.To, m.Lines, m.At)
		h.unpark()
		h.recent.trim(h.room())
		return
	}
	h.meter.rang("parked")
	if m.Epoch != h.recent.epoch {
		h.suspect()
	} else {
		wait := h.times.Park
		if m.Bare && m.From <= h.recent.last {
			wait = 0
		}
		h.know(m.To, wait)
	}
	if len(h.parked) < parkedBound {
		h.parked = append(h.parked, parked{m, h.arrived})
		slices.SortStableFunc(h.parked, func(a, b parked) int { return cmp.Compare(a.From, b.From) })
	}
}

// continues reports whether a message carries on from here. One that began before this version still holds every line
// that changed after it.
func (h *hub) continues(m *broadcast.Message) bool {
	return h.recent.opened() && m.Epoch == h.recent.epoch && m.From <= h.recent.last && m.To > h.recent.last && !m.Bare
}

// know notes that a version exists; the table is asked for it unless it has come by itself after the wait.
func (h *hub) know(version int64, wait time.Duration) {
	if version <= h.recent.last {
		return
	}
	at := time.Now().Add(wait)
	if h.target <= h.recent.last || at.Before(h.gapAt) {
		h.gapAt = at
	}
	h.target = max(h.target, version)
	h.rouse()
}

func (h *hub) suspect() {
	if !h.recent.opened() || h.doubt {
		return
	}
	h.doubt, h.doubtAt = true, time.Now().Add(h.times.Park)
	h.rouse()
}

// rung is when the first parked message up to a version was rung, whose lines the table has given; zero where there is
// none.
func (h *hub) rung(to int64) (first time.Time) {
	for _, p := range h.parked {
		if p.Epoch == h.recent.epoch && p.To > h.recent.last && p.To <= to && (first.IsZero() || p.At.Before(first)) {
			first = p.At
		}
	}
	return first
}

// advance moves all live watchers on. rung is when that was told, zero where it was found.
func (h *hub) advance(to int64, lines []broadcast.Line, rung time.Time) {
	from := h.recent.last
	news := h.recent.advance(to, lines)
	h.caughtUp = frame{}
	f := linesFrame(h.key.Game, h.recent.epoch, from, to, news)
	f.rung = rung
	for s := range h.live {
		s.watcher.push(s, f)
	}
	h.meter.lines(h.key.Tenant, len(news)*len(h.live))
	if h.moved != nil {
		close(h.moved)
		h.moved = nil
	}
	h.rouse() // the header may be due
}

// unpark lets in every parked message that has come to continue and drops what is old. What stays shows a gap.
func (h *hub) unpark() {
	if !h.recent.opened() {
		return
	}
	h.parked = slices.DeleteFunc(h.parked, func(p parked) bool {
		if p.Epoch != h.recent.epoch {
			h.suspect()
			return false
		}
		if h.continues(&p.Message) {
			h.advance(p.To, p.Lines, p.At)
		}
		h.know(p.To, h.times.Park)
		return p.To <= h.recent.last
	})
}

// swept takes the head of the game as the table has it. Its version may be on its way, so it parks like a message. That
// the table answers at all ends a pause after failures.
func (h *hub) swept(head timeline.Head) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.recent.opened() {
		return
	}
	h.arrived++
	h.recent.trim(h.room()) // more hubs may have come
	if h.fails > 0 {
		h.fails, h.retryAt = 0, time.Now().Add(rand.N(2*firstBackoff))
		h.rouse()
	}
	if head.Cursor.Epoch != h.recent.epoch {
		h.suspect()
		return
	}
	if head.Cursor.Ver > h.recent.last {
		h.meter.rang("swept")
		h.know(head.Cursor.Ver, h.times.Park)
	}
}

// Subscribed has what was missed looked for.
func (h *hub) Subscribed() { h.subscribed() }

// Counted takes how many watch the game in another process.
func (h *hub) Counted(c broadcast.Count) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.elsewhere[c.Process] = heard{c.Watchers, time.Now()}
}
