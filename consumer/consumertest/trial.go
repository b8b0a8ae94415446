package consumertest

import (
	"context"
	"maps"

	"github.com/codemojex/feedrenderer/consumer"
)

// Trial says how a consumer takes a batch from its first delivery to the end. The zero value is one in which no command
// fails.
type Trial struct {
	MaxAttempts int64 // the consumer's. 5
	Rounds      int   // calls of the handler after which it is given up; the rest is in Retried then. 100

	// Fail is the number, from 1, of the command at which the consumer dies; 0: none. A consumer sends "read", or "claim" for
	// what comes again, and after the handler, as far as there is something to do: "ack" for what is settled, "delay" for what
	// is retried, "mark" for what runs once more alone, and "bury" for each dead letter. What it has not sent by then stays
	// pending and comes again, its attempts raised.
	Fail int
	// ReplyLost: the server has carried the failing command out, only its reply is missing. Else the server never saw it.
	ReplyLost bool
}

// Run hands a batch over, and what comes again, until all is settled or buried. Messages with raised Attempts are as others
// left them behind.
func (t Trial) Run(ctx context.Context, h consumer.Handler, batch ...consumer.Message) Outcome {
	t.MaxAttempts = orDefault(t.MaxAttempts)
	if t.Rounds == 0 {
		t.Rounds = 100
	}
	r := &run{Trial: t, total: Outcome{Reasons: map[string]string{}}}
	waiting := []delivery{{"read", batch}}
	for range t.Rounds {
		if len(waiting) == 0 {
			break
		}
		waiting = append(waiting[1:], r.deliver(ctx, h, waiting[0])...)
	}
	for _, d := range waiting {
		r.total.Retried = append(r.total.Retried, d.batch...)
	}
	for _, m := range r.total.Settled {
		delete(r.total.Reasons, m.EntryID)
	}
	return r.total
}

// run is a Trial under way.
type run struct {
	Trial
	sent  int // commands
	total Outcome
}

// delivery is a batch to hand over, after a command of the consumer's, or "" where the consumer has it in hand.
type delivery struct {
	command string
	batch   []consumer.Message
}

// send sends the next command. The server carries it out or not; the consumer lives on or not.
func (r *run) send(command string) (done, alive bool) {
	if r.sent++; r.sent != r.Fail {
		return true, true
	}
	r.total.Failed = command
	return r.ReplyLost, false
}

// deliver takes one batch from its read to the last command after the handler, and returns what is to come.
func (r *run) deliver(ctx context.Context, h consumer.Handler, d delivery) []delivery {
	if d.command != "" {
		if done, alive := r.send(d.command); done && !alive {
			return r.claims(raised(d.batch))
		} else if !alive {
			return []delivery{d}
		}
	}
	var live, condemned []consumer.Message
	for _, m := range d.batch {
		if m.Attempts > max(r.MaxAttempts, 2) { // it was run alone, and nobody knows what came of it
			condemned = append(condemned, m)
			r.total.Reasons[m.EntryID] = "never settled"
		} else {
			live = append(live, m)
		}
	}
	f := judge(ctx, h, r.MaxAttempts, live)
	maps.Copy(r.total.Reasons, f.reasons)
	f.buried = append(condemned, f.buried...)
	return r.settle(f)
}

// settle sends what the verdicts ask for, until the consumer dies or all is sent.
func (r *run) settle(f fates) (next []delivery) {
	alive := true
	var left []consumer.Message // pending, of a consumer that died
	send := func(command string, list []consumer.Message) (done bool) {
		if len(list) == 0 {
			return false
		}
		if alive {
			done, alive = r.send(command)
		}
		if !done {
			left = append(left, raised(list)...)
		}
		return done
	}
	if send("ack", f.settled) {
		r.total.Settled = append(r.total.Settled, f.settled...)
	}
	if send("delay", f.retried) {
		next = append(next, r.claims(raised(f.retried))...)
	}
	if send("mark", f.suspects) {
		for _, m := range f.suspects {
			next = append(next, delivery{"", []consumer.Message{m}})
		}
	}
	for _, m := range f.buried {
		if send("bury", []consumer.Message{m}) {
			r.total.Buried = append(r.total.Buried, m)
		}
	}
	switch {
	case len(f.held) > 0 && alive:
		next = append(next, delivery{"", f.held})
	case len(f.held) > 0:
		left = append(left, raised(f.held)...)
	}
	return append(next, r.claims(left)...)
}

// claims makes deliveries of what comes again: entries at their last attempt alone.
func (r *run) claims(list []consumer.Message) (out []delivery) {
	var together []consumer.Message
	for _, m := range list {
		if m.Attempts >= r.MaxAttempts {
			out = append(out, delivery{"claim", []consumer.Message{m}})
		} else {
			together = append(together, m)
		}
	}
	if len(together) > 0 {
		out = append(out, delivery{"claim", together})
	}
	return out
}
