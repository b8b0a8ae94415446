// Package consumertest runs batches through a handler without a server, the way a consumer would.
package consumertest

import (
	"context"
	"fmt"

	"github.com/codemojex/feedrenderer/consumer"
)

// Entry makes a message of a stream "test" and a group "test", delivered for the first time, from names and values in turn.
// Its entry id is "<n>-0".
func Entry(n int, namesAndValues ...string) consumer.Message {
	m := consumer.Message{Stream: "test", Group: "test", EntryID: fmt.Sprint(n, "-0"), Attempts: 1}
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		m.Fields = append(m.Fields, consumer.Field{Name: namesAndValues[i], Value: namesAndValues[i+1]})
	}
	m.RecordID, _ = m.Fields.Get("id")
	return m
}

// Outcome is what a consumer would do with the entries of a batch: each is in one of the lists, in the order of the batch.
type Outcome struct {
	Settled   []consumer.Message
	Retried   []consumer.Message // to be delivered again, Attempts raised as they will be then
	Buried    []consumer.Message // dead letters: rejected, or retried at the last attempt
	Held      []consumer.Message // the store was unavailable: handed over again as they are
	Reasons   map[string]string  // of what is not settled, by entry id
	Exhausted bool               // of Run: entries were still to be retried or held when it gave up
}

// Once hands one batch over. maxAttempts is the consumer's; 0 means its default of 5.
func Once(ctx context.Context, h consumer.Handler, maxAttempts int64, batch ...consumer.Message) Outcome {
	if maxAttempts == 0 {
		maxAttempts = 5
	}
	out := Outcome{Reasons: map[string]string{}}
	for i, v := range h.Handle(ctx, batch) {
		m := batch[i]
		if v.Kind() != consumer.KindAck {
			out.Reasons[m.EntryID] = v.Reason()
		}
		switch v.Kind() {
		case consumer.KindAck:
			out.Settled = append(out.Settled, m)
		case consumer.KindUnavailable:
			out.Held = append(out.Held, m)
		case consumer.KindReject:
			out.Buried = append(out.Buried, m)
		default:
			if m.Attempts >= maxAttempts && len(batch) == 1 {
				out.Buried = append(out.Buried, m)
				continue
			}
			if m.Attempts < maxAttempts { // else once more, alone, and no delivery is counted
				m.Attempts++
			}
			out.Retried = append(out.Retried, m)
		}
	}
	return out
}

// Run hands a batch over, and what is retried or held again, until all is settled or buried, or rounds are over. Nothing
// waits for its delay. Entries at their last attempt go alone.
func Run(ctx context.Context, h consumer.Handler, maxAttempts int64, rounds int, batch ...consumer.Message) Outcome {
	if maxAttempts == 0 {
		maxAttempts = 5
	}
	total := Outcome{Reasons: map[string]string{}}
	take := func(o Outcome) (again []consumer.Message) {
		total.Settled = append(total.Settled, o.Settled...)
		total.Buried = append(total.Buried, o.Buried...)
		for _, m := range o.Settled {
			delete(total.Reasons, m.EntryID)
		}
		for id, reason := range o.Reasons {
			total.Reasons[id] = reason
		}
		return append(o.Held, o.Retried...)
	}
	for range rounds {
		var together, next []consumer.Message
		for _, m := range batch {
			if m.Attempts >= maxAttempts {
				next = append(next, take(Once(ctx, h, maxAttempts, m))...)
				continue
			}
			together = append(together, m)
		}
		if len(together) > 0 {
			next = append(next, take(Once(ctx, h, maxAttempts, together...))...)
		}
		if batch = next; len(batch) == 0 {
			return total
		}
	}
	total.Retried, total.Exhausted = batch, true
	return total
}
