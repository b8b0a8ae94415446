package consumer

import (
	"context"
	"time"

	"github.com/valkey-io/valkey-go"
)

// receiveBacklog queues what was pending under our own name: after a restart everything, after a lost reply what it held.
// It comes before anything newer of its stream. What was trimmed away is acknowledged, so the cursor always gets to the
// end; what fails again is left to the timer and the beat.
func (p *partition) receiveBacklog(streams []*stream, count int, byKey map[string][]rawEntry, now time.Time) {
	lists := make([][]rawEntry, len(streams))
	for i, s := range streams {
		lists[i] = byKey[s.key]
	}
	attempts := p.attempts(context.Background(), streams, lists)
	for i, s := range streams {
		if attempts[i] == nil { // not known; the same page is read again
			continue
		}
		page := lists[i]
		entries := make([]*entry, 0, len(page))
		p.mu.Lock()
		for _, raw := range page {
			if _, ok := s.inHand[raw.id]; ok {
				continue
			}
			if raw.trimmed {
				p.s.c.count.trimmed.Add(1)
				s.r.settled(s, raw.id)
				continue
			}
			n, ok := attempts[i][raw.id]
			if !ok { // settled by somebody else just now
				continue
			}
			e := p.entry(s, raw, n, laneNew, now)
			entries = append(entries, &e)
		}
		p.mu.Unlock()
		p.s.c.count.backlog.Add(int64(len(entries)))
		entries = p.condemned(entries)
		p.mu.Lock()
		for _, e := range entries {
			p.add(e)
		}
		s.cursor = page[len(page)-1].id
		if len(page) < count && s.phase == phaseBacklog {
			s.phase = phaseNew
		}
		p.cond.Broadcast()
		p.mu.Unlock()
	}
}

// attempts asks for the delivery counts of pages of entries that are pending under our name, one ranged XPENDING a page.
// A page whose counts could not be had is nil.
func (p *partition) attempts(ctx context.Context, streams []*stream, pages [][]rawEntry) []map[string]int64 {
	s := p.s
	cmds := make([]valkey.Completed, len(streams))
	p.mu.Lock()
	for i, st := range streams {
		page := pages[i]
		// Others of ours may stand between: what is in hand and what is delayed.
		most := int64(len(page) + len(st.inHand) + st.delayed)
		cmds[i] = s.cmd.B().Xpending().Key(st.key).Group(s.cfg.Group).Start(page[0].id).End(page[len(page)-1].id).
			Count(most).Consumer(s.name).Build()
	}
	p.mu.Unlock()
	out := make([]map[string]int64, len(streams))
	for i, res := range s.cmd.DoMulti(ctx, cmds...) {
		counts, err := s.pending(res)
		if err != nil {
			s.c.count.failures.Add(1)
			continue
		}
		out[i] = counts
	}
	return out
}
