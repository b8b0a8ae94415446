package consumer

import (
	"context"
)

// settle does what the verdicts say. Acknowledgements are left to the stream's reader, which sends them with its next
// read, unless it is waiting for new entries: then they go at once, as does that of an entry that ran alone.
func (p *partition) settle(r *run, verdicts []Verdict) {
	cfg, count := p.s.cfg, &p.s.c.count
	var (
		held     []*entry // unavailable, in order
		down     error
		delayed  []delayedEntry
		buried   []burial
		suspects []*entry
		acked    int64
	)
	p.mu.Lock()
	for i, e := range r.entries {
		v := verdicts[i]
		e.run, e.again = nil, 0
		if e.lost && v.kind != KindAck {
			p.release(e)
			e.drop() // whoever has it now decides
			continue
		}
		switch v.kind {
		case KindAck:
			p.release(e)
			e.state = stateAcking
			e.s.r.settled(e.s, e.msg.EntryID)
			acked++
		case KindUnavailable:
			held = append(held, e)
			down = v.err
		case KindReject:
			count.rejected.Add(1)
			buried = append(buried, burial{e: e, reason: v.Reason()})
		default:
			count.retries.Add(1)
			switch {
			case e.msg.Attempts < cfg.MaxAttempts:
				delayed = append(delayed, delayedEntry{e: e, d: p.delay(e, v.after)})
			case len(r.entries) == 1:
				buried = append(buried, burial{e: e, least: cfg.MaxAttempts, reason: v.Reason()})
			default: // once more, alone
				suspects = append(suspects, e)
				p.release(e)
				e.lane, e.suspect = laneAgain, true
				p.occupy(e)
				p.queue(e)
			}
		}
	}
	p.requeue(held)
	if r.lane == laneAgain {
		p.ratio.did(int64(len(r.entries)), acked+int64(len(buried)))
	}
	flush := p.takeIdleAcks()
	if r.alone { // its count says that it began: were the next one to kill us now, it would be taken for what killed us
		flush = append(flush, r.entries[0].s.r.takeAcks()...)
	}
	if len(held) == 0 { // else nothing is read before the breaker is open
		p.ended()
	}
	p.mu.Unlock()

	if len(held) > 0 {
		p.s.breaker.trip(p, down)
	} else if p.s.breaker.owned(p) {
		p.s.breaker.close(p.s)
	}
	p.sendAcks(context.Background(), flush)
	p.postpone(delayed)
	p.mark(suspects)
	for _, b := range buried {
		p.bury(b)
	}
}
