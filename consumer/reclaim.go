package consumer

import (
	"context"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"
)

const (
	smallestPage = 10  // entries; XAUTOCLAIM looks at ten times as many rows. The largest is a batch
	passPages    = 100 // pages of one stream in one beat; the next beat goes on where it stopped
)

// reclaim is the partition's second source of work: retries when they are due, and, each beat, what other consumers, or
// lost replies, left pending for longer than min-idle. It adds to the reclaimed lane only what that has room for.
func (p *partition) reclaim() {
	page := p.s.cfg.BatchSize
	beat := time.NewTimer(jittered(p.s.cfg.Beat))
	defer beat.Stop()
	alarm := time.NewTimer(time.Hour)
	defer alarm.Stop()
	for beats := 0; ; {
		room, ok := p.awaitRoom()
		if !ok {
			return
		}
		ids, next := p.due(room)
		p.claimDue(ids)
		wait := time.Hour
		if !next.IsZero() {
			wait = max(time.Until(next), 0)
		}
		alarm.Reset(wait)
		select {
		case <-p.s.quit:
			return
		case <-p.alarm:
		case <-alarm.C:
		case <-beat.C:
			if p.pass(page) {
				page = p.s.cfg.BatchSize
			} else {
				page = min(page, max(smallestPage, page/2))
			}
			if beats%10 == 0 {
				p.expel()
			}
			beats++
			p.wake() // readers try closed doors again
			beat.Reset(jittered(p.s.cfg.Beat))
		}
	}
}

// awaitRoom waits until the reclaimed lane can take an entry and the breaker is closed.
func (p *partition) awaitRoom() (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if p.s.quitting() {
			return 0, false
		}
		if room := p.room(laneAgain); room > 0 && p.s.breaker.closed() {
			return room, true
		}
		p.cond.Wait()
	}
}

// pass looks through the pending list of each stream, to its end, for entries to take over, a page of each in turn. It says
// whether pages should be large: something was found, and reclaimed work makes progress.
func (p *partition) pass(page int) bool {
	p.mu.Lock()
	streams := make([]*stream, 0, len(p.streams))
	for _, s := range p.streams {
		if s.phase != phaseDoor && !s.leaving {
			streams = append(streams, s)
		}
	}
	p.mu.Unlock()
	found := 0
	for range passPages {
		var live []*stream
		for len(streams) > 0 {
			room, ok := p.awaitRoom()
			if !ok {
				return true
			}
			n := min(len(streams), readerStreams, room)
			got, more := p.claimPages(streams[:n], max(1, min(page, room/n)))
			found += got
			live = append(live, more...)
			streams = streams[n:]
		}
		streams = live
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ratio.pass() || found > 0
}

// claimPages claims one page of each stream, in one round trip. It returns how many entries were taken over, and the
// streams whose pending lists go on: an empty page does not mean the end.
func (p *partition) claimPages(streams []*stream, count int) (found int, live []*stream) {
	s := p.s
	cmds := make([]valkey.Completed, len(streams))
	idle := strconv.FormatInt(s.cfg.MinIdle.Milliseconds(), 10)
	p.mu.Lock()
	for i, st := range streams {
		cursor := st.claiming
		if cursor == "" {
			cursor = "0-0"
		}
		cmds[i] = s.cmd.B().Xautoclaim().Key(st.key).Group(s.cfg.Group).Consumer(s.name).MinIdleTime(idle).Start(cursor).
			Count(int64(count)).Build()
	}
	p.mu.Unlock()
	var claimed []*stream
	var pages [][]rawEntry
	now := time.Now()
	for i, res := range s.cmd.DoMulti(context.Background(), cmds...) {
		next, entries, trimmed, err := parseAutoclaim(res)
		if err != nil {
			if !groupGone(err) { // the stream's reader sees to that
				s.c.count.failures.Add(1)
				s.c.faults.warn("reclaim failed", toBlame(streams[i].key, err), err)
			}
			continue
		}
		s.c.count.trimmed.Add(int64(trimmed))
		p.mu.Lock()
		streams[i].claiming = next
		p.mu.Unlock()
		if next != "" {
			live = append(live, streams[i])
		}
		if len(entries) > 0 {
			claimed = append(claimed, streams[i])
			pages = append(pages, entries)
		}
	}
	n := p.receiveAgain(claimed, pages, now)
	s.c.count.reclaimed.Add(int64(n))
	return n, live
}

// claimDue takes the entries whose delay is over. Asking with the group's min-idle leaves alone what others took first.
func (p *partition) claimDue(ids map[*stream][]string) {
	if len(ids) == 0 {
		return
	}
	s := p.s
	idle := strconv.FormatInt(s.cfg.MinIdle.Milliseconds(), 10)
	var streams []*stream
	var cmds []valkey.Completed
	for st, list := range ids {
		streams = append(streams, st)
		cmds = append(cmds, s.cmd.B().Xclaim().Key(st.key).Group(s.cfg.Group).Consumer(s.name).MinIdleTime(idle).Id(list...).Build())
	}
	now := time.Now()
	var claimed []*stream
	var pages [][]rawEntry
	for i, res := range s.cmd.DoMulti(context.Background(), cmds...) {
		entries, err := parseEntries(res)
		if err != nil {
			s.c.count.failures.Add(1)
			continue // the beat finds them
		}
		if len(entries) > 0 {
			claimed = append(claimed, streams[i])
			pages = append(pages, entries)
		}
	}
	s.c.count.retried.Add(int64(p.receiveAgain(claimed, pages, now)))
}

// receiveAgain queues entries that were just claimed, and says how many. What is in hand already is passed over.
func (p *partition) receiveAgain(streams []*stream, pages [][]rawEntry, now time.Time) (n int) {
	if len(streams) == 0 {
		return 0
	}
	attempts := p.attempts(context.Background(), streams, pages)
	for i, st := range streams {
		var entries []*entry
		p.mu.Lock()
		for _, raw := range pages[i] {
			count, ok := attempts[i][raw.id]
			if known := st.inHand[raw.id]; known != nil {
				known.touched, known.again = now, count
				continue
			}
			if !ok || raw.trimmed {
				continue
			}
			e := p.entry(st, raw, count, laneAgain, now)
			entries = append(entries, &e)
		}
		p.mu.Unlock()
		n += len(entries)
		p.enqueue(entries)
	}
	return n
}

// enqueue queues entries that were delivered again, but for those that are condemned.
func (p *partition) enqueue(entries []*entry) {
	entries = p.condemned(entries)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range entries {
		p.add(e)
	}
	p.cond.Broadcast()
}

// parseAutoclaim takes XAUTOCLAIM's reply apart; next is "" at the end of the pending list.
func parseAutoclaim(res valkey.ValkeyResult) (next string, entries []rawEntry, trimmed int, err error) {
	parts, err := res.ToArray()
	if err != nil {
		return "", nil, 0, err
	}
	if len(parts) < 2 {
		return "", nil, 0, errShortReply
	}
	if next, err = parts[0].ToString(); err != nil {
		return "", nil, 0, err
	}
	if next == "0-0" {
		next = ""
	}
	if entries, err = entriesOf(parts[1]); err != nil {
		return "", nil, 0, err
	}
	if len(parts) > 2 {
		gone, err := parts[2].ToArray()
		if err != nil {
			return "", nil, 0, err
		}
		trimmed = len(gone)
	}
	return next, entries, trimmed, nil
}
