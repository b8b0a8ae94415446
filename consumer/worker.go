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

// handle calls the handler and always returns a verdict for each message. A batch that panicked or was answered with the
// wrong number of verdicts is halved until what is at fault stands alone.
func (p *partition) handle(ctx context.Context, batch []Message) []Verdict {
	verdicts, err := p.call(ctx, batch)
	if err == nil {
		return verdicts
	}
	if len(batch) == 1 || ctx.Err() != nil {
		verdicts = make([]Verdict, len(batch))
		for i := range verdicts {
			verdicts[i] = Retry(0, err)
		}
		return verdicts
	}
	half := len(batch) / 2
	return append(p.handle(ctx, batch[:half:half]), p.handle(ctx, batch[half:])...)
}

func (p *partition) call(ctx context.Context, batch []Message) (verdicts []Verdict, err error) {
	defer func() {
		if r := recover(); r != nil {
			panicked := newPanicError(r)
			p.s.panicked(panicked)
			verdicts, err = nil, panicked
		}
	}()
	verdicts = p.s.cfg.Handler(ctx, batch)
	for i := range verdicts {
		if panicked := (*PanicError)(nil); verdicts[i].err != nil && errors.As(verdicts[i].err, &panicked) {
			p.s.panicked(panicked) // Each caught it
		}
	}
	if len(verdicts) != len(batch) {
		err := &VerdictsError{Got: len(verdicts), Want: len(batch)}
		p.s.c.faults.warn("handler broke its contract", "", err)
		return nil, err
	}
	return verdicts, nil
}

// panicked counts a panic and logs its stack, once a minute for each panic value's text.
func (s *session) panicked(err *PanicError) {
	s.c.count.panics.Add(1)
	s.c.faults.warn("handler panicked", "", err, "stack", string(err.Stack))
}
