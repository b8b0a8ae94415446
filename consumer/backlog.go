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
	unknown := false
	for i, s := range streams {
		if attempts[i] == nil { // the same page is read again
			unknown = true
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
		p.enqueue(entries)
		p.mu.Lock()
		s.cursor = page[len(page)-1].id
		if len(page) < count && s.phase == phaseBacklog {
			s.phase = phaseNew
		}
		p.mu.Unlock()
	}
	if unknown { // each reading counts as a delivery
		streams[0].r.wait.sleep(p.s.quit)
	}
}

// attempts asks for the delivery counts of pages of entries that are pending under our name, by one ranged XPENDING a
// page, more only where much else of ours stands between. Pages are in the order of their ids. A page whose counts could
// not be had is nil.
func (p *partition) attempts(ctx context.Context, streams []*stream, pages [][]rawEntry) []map[string]int64 {
	s := p.s
	cmds := make([]valkey.Completed, len(streams))
	most := make([]int64, len(streams))
	p.mu.Lock()
	for i, st := range streams {
		most[i] = int64(len(pages[i]) + len(st.inHand) + st.delayed)
		cmds[i] = s.counts(st.key, pages[i][0].id, pages[i], most[i])
	}
	p.mu.Unlock()
	out := make([]map[string]int64, len(streams))
	for i, res := range s.cmd.DoMulti(ctx, cmds...) {
		counts := map[string]int64{}
		for last := ""; ; {
			n, to, err := readCounts(res, counts)
			if err != nil {
				s.c.count.failures.Add(1)
				s.c.faults.warn("delivery counts not read", toBlame(streams[i].key, err), err)
				break
			}
			if n < most[i] || to == last {
				out[i] = counts
				break
			}
			last = to
			res = s.cmd.Do(ctx, s.counts(streams[i].key, "("+to, pages[i], most[i]))
		}
	}
	return out
}

func (s *session) counts(key, from string, page []rawEntry, most int64) valkey.Completed {
	return s.cmd.B().Xpending().Key(key).Group(s.cfg.Group).Start(from).End(page[len(page)-1].id).Count(most).
		Consumer(s.name).Build()
}

// readCounts adds the rows of an extended XPENDING to counts; it returns how many there were, and the last id.
func readCounts(res valkey.ValkeyResult, counts map[string]int64) (n int64, last string, err error) {
	rows, err := res.ToArray()
	if err != nil {
		return 0, "", err
	}
	for i := range rows {
		row, err := rows[i].ToArray()
		if err != nil {
			return 0, "", err
		}
		if len(row) != 4 {
			return 0, "", errShortReply
		}
		if last, err = row[0].ToString(); err != nil {
			return 0, "", err
		}
		if counts[last], err = row[3].AsInt64(); err != nil {
			return 0, "", err
		}
	}
	return int64(len(rows)), last, nil
}
