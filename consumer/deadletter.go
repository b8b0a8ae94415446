package consumer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// burial is an entry to become a dead letter if it was delivered at least so often.
type burial struct {
	e      *entry
	least  int64
	reason string
}

// reasonUnhandled is the reason of entries that were delivered to the last without ever getting a verdict, as happens to
// those that kill the process.
const reasonUnhandled = "delivered %d times and never settled: its handler may have killed the process"

// bury makes a dead letter of an entry in hand.
func (p *partition) bury(b burial) {
	s, count := p.s, &p.s.c.count
	key := b.e.s.key
	code, err := s.bury(context.Background(), b)
	switch {
	case err != nil: // it comes back with the beat, and here again
		count.failures.Add(1)
		s.c.faults.warn("dead letter not written", key, err, "entry", b.e.msg.EntryID)
	case code == buryDone:
		count.deadLettered.Add(1)
		s.c.faults.warn("dead letter", "", errors.New(b.reason), "stream", key, "entry", b.e.msg.EntryID, "attempts", b.e.msg.Attempts)
	case code == buryTrimmed:
		count.trimmed.Add(1)
	case code == buryLost:
		count.leasesLost.Add(1)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release(b.e)
	b.e.drop()
	if b.e.s.leaving {
		p.forget(b.e.s)
	}
	p.cond.Broadcast()
}

func (s *session) bury(ctx context.Context, b burial) (int64, error) {
	m := b.e.msg
	home, retried := s.home(m)
	entry := ""
	if retried {
		entry = home.EntryID
	}
	return s.scripts.bury.Exec(ctx, s.cmd, []string{m.Stream, s.cfg.DeadLetter(home.Stream)}, []string{
		s.cfg.Group, s.name, m.EntryID, strconv.FormatInt(b.least, 10), strconv.FormatInt(s.cfg.DeadLetterCap, 10), b.reason,
		home.Stream, entry,
	}).AsInt64()
}

// home is the message whose dead letter an entry becomes: itself, or, of a dead letter that was retried, the one it was.
// What an entry says of itself is believed on the retry stream of the stream it names, and nowhere else.
func (s *session) home(m Message) (_ Message, retried bool) {
	if s.cfg.RetryStream == nil {
		return m, false
	}
	o, ok := m.Original()
	if !ok || o.Stream == m.Stream || !isID(o.EntryID) || s.cfg.RetryStream(o.Stream) != m.Stream || s.cfg.streamFault(o.Stream) != nil {
		return m, false
	}
	return o, true
}

// condemned judges entries that were just delivered again, before any handler sees them: those that were delivered to the
// last and run alone have had their last chance and become dead letters now, those at MaxAttempts are suspects, to be run
// alone. The rest are returned. A first delivery is never run alone, so even where MaxAttempts is 1 the second one is.
func (p *partition) condemned(list []*entry) (rest []*entry) {
	limit := p.s.cfg.MaxAttempts
	last := max(limit, 2)
	rest = list[:0]
	var suspects []*entry
	for _, e := range list {
		switch {
		case e.msg.Attempts > last:
			p.mu.Lock()
			p.occupy(e) // bury gives it back
			p.mu.Unlock()
			p.bury(burial{e: e, least: limit, reason: fmt.Sprintf(reasonUnhandled, e.msg.Attempts-1)})
			continue
		case e.msg.Attempts >= limit:
			e.suspect = true
			e.lane = laneAgain
			suspects = append(suspects, e)
		}
		rest = append(rest, e)
	}
	p.mark(suspects)
	return rest
}

// mark keeps the delivery count of waiting suspects one below MaxAttempts on the server; begin raises it.
func (p *partition) mark(suspects []*entry) {
	if len(suspects) == 0 {
		return
	}
	lists := map[*stream][]held{}
	for _, e := range suspects {
		lists[e.s] = append(lists[e.s], held{id: e.msg.EntryID, count: strconv.FormatInt(e.msg.Attempts-1, 10)})
	}
	p.s.holdAll(context.Background(), lists) // where it fails the entry may become a dead letter one crash early
}
