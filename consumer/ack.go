package consumer

import (
	"context"

	"github.com/valkey-io/valkey-go"
)

// acks are entries of one stream to acknowledge in one XACK.
type acks struct {
	s   *stream
	ids []string
}

// settled notes an entry to be acknowledged. The partition's mutex is held.
func (r *reader) settled(s *stream, id string) {
	if len(s.acks) == 0 {
		r.acked = append(r.acked, s)
	}
	s.acks = append(s.acks, id)
}

// takeAcks takes what the reader's streams have to acknowledge. The partition's mutex is held.
func (r *reader) takeAcks() []acks {
	if len(r.acked) == 0 {
		return nil
	}
	out := make([]acks, len(r.acked))
	for i, s := range r.acked {
		out[i] = acks{s, s.acks}
		s.acks = nil
	}
	r.acked = r.acked[:0]
	return out
}

// takeIdleAcks takes those of readers that wait for new entries and will not send them soon. The mutex is held.
func (p *partition) takeIdleAcks() (out []acks) {
	for _, r := range p.readers {
		if r.away {
			out = append(out, r.takeAcks()...)
		}
	}
	return out
}

// sendAcks acknowledges at once, apart from any read.
func (p *partition) sendAcks(ctx context.Context, list []acks) {
	if len(list) == 0 {
		return
	}
	cmds := make([]valkey.Completed, len(list))
	for i, a := range list {
		cmds[i] = p.s.ack(a)
	}
	for i, res := range p.s.cmd.DoMulti(ctx, cmds...) {
		p.acknowledged(list[i], res)
	}
}

func (s *session) ack(a acks) valkey.Completed {
	return s.cmd.B().Xack().Key(a.s.key).Group(s.cfg.Group).Id(a.ids...).Build()
}

// acknowledged takes the reply to an XACK in. After a failure it is not known whether it was carried out, and it is sent
// again: a second XACK does no harm.
func (p *partition) acknowledged(a acks, res valkey.ValkeyResult) {
	got, err := res.AsInt64()
	count := &p.s.c.count
	p.mu.Lock()
	defer p.mu.Unlock()
	if serverFault(err) {
		count.failures.Add(1)
		for _, id := range a.ids {
			a.s.r.settled(a.s, id)
		}
		p.cond.Broadcast()
		return
	}
	if err != nil { // the key is not a stream any more
		p.s.c.faults.warn("acknowledge refused", a.s.key, err, "entries", len(a.ids))
	}
	for _, id := range a.ids {
		if e := a.s.inHand[id]; e != nil {
			e.drop()
		}
	}
	count.acked.Add(got)
	count.ackedElsewhere.Add(int64(len(a.ids)) - got)
	if a.s.leaving {
		p.forget(a.s)
	}
}
