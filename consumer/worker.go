package consumer

import (
	"context"
	"errors"
	"strconv"
)

// work hands batch after batch to the handler and settles what it says, until the session quits.
func (p *partition) work() {
	for {
		r := p.take()
		if r == nil {
			return
		}
		if r.alone && !p.begin(r) {
			r.cancel(nil)
			continue
		}
		if r.lane == laneNew {
			p.s.c.count.batches.Add(1)
		} else {
			p.s.c.count.reclaimedBatches.Add(1)
		}
		verdicts := p.handle(r.ctx, r.batch)
		r.cancel(nil)
		p.settle(r, verdicts)
	}
}

// begin raises a suspect's delivery count on the server to the last before a dead letter, at the moment it starts: while
// it waited its turn the count stood one below, so that a process killed meanwhile does not condemn the unhandled.
func (p *partition) begin(r *run) bool {
	e := r.entries[0]
	code, err := p.s.hold(context.Background(), e.s.key, []held{{id: e.msg.EntryID, count: strconv.FormatInt(e.msg.Attempts, 10)}})
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && code[0] != holdLost && !e.lost {
		return true
	}
	if err == nil {
		e.lose()
		p.s.c.count.leasesLost.Add(1)
	}
	p.release(e)
	e.drop() // the beat finds it
	return false
}

// handle calls the handler and counts what it did wrong. A panic's stack is logged once a minute.
func (p *partition) handle(ctx context.Context, batch []Message) []Verdict {
	verdicts := p.s.cfg.Handler.Handle(ctx, batch)
	for i := range verdicts {
		if verdicts[i].err == nil {
			continue
		}
		panicked, miscounted := (*PanicError)(nil), (*VerdictsError)(nil)
		if errors.As(verdicts[i].err, &panicked) {
			p.s.c.count.panics.Add(1)
			p.s.c.faults.warn("handler panicked", "", panicked, "stack", string(panicked.Stack))
		} else if errors.As(verdicts[i].err, &miscounted) {
			p.s.c.faults.warn("handler broke its contract", "", miscounted)
		}
	}
	return verdicts
}
