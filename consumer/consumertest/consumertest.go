// Package consumertest runs batches through a handler the way a consumer would, without a server: with given attempts, and
// with a command of the consumer's that fails.
//
// Once says what would become of a batch. Trial goes on until all of it is settled or buried, and may have the consumer die
// at its nth command, as when the process or the network ends there: another one then takes over what is pending, and the
// handler is given it again. A handler that is safe to repeat passes at each of these points:
//
//	for n := 1; ; n++ {
//		store := newStore()
//		out := consumertest.Trial{Fail: n}.Run(ctx, handlerOf(store), batch...)
//		// Each message had its one effect on store.
//		if out.Failed == "" {
//			break // there were fewer than n commands
//		}
//	}
//
// There are no streams here, no delays and no other consumers: only the rules by which verdicts, attempts and failed
// commands lead to the next delivery are those of package consumer.
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

// Outcome is what becomes of the entries of a batch: each is in one of the lists.
type Outcome struct {
	Settled []consumer.Message
	Retried []consumer.Message // to be delivered again, Attempts as they will be then
	Buried  []consumer.Message // dead letters: rejected, or retried at the last attempt
	Held    []consumer.Message // the store was unavailable: handed over again as they are
	Reasons map[string]string  // of what is not settled, by entry id
	Failed  string             // of a Trial: the command that failed, "" if there were fewer
}

// Once hands one batch over. maxAttempts is the consumer's; 0 means its default of 5.
func Once(ctx context.Context, h consumer.Handler, maxAttempts int64, batch ...consumer.Message) Outcome {
	f := judge(ctx, h, orDefault(maxAttempts), batch)
	return Outcome{
		Settled: f.settled, Retried: append(raised(f.retried), f.suspects...), Buried: f.buried, Held: f.held,
		Reasons: f.reasons,
	}
}

// orDefault is the consumer's default of MaxAttempts where that is 0.
func orDefault(maxAttempts int64) int64 {
	if maxAttempts == 0 {
		return 5
	}
	return maxAttempts
}

// fates are the entries of a batch by what its verdicts say, as they were handed over.
type fates struct {
	settled, retried, buried, held []consumer.Message
	suspects                       []consumer.Message // failed at the last attempt, in company: once more, alone
	reasons                        map[string]string
}

func judge(ctx context.Context, h consumer.Handler, maxAttempts int64, batch []consumer.Message) fates {
	f := fates{reasons: map[string]string{}}
	if len(batch) == 0 {
		return f
	}
	for i, v := range h.Handle(ctx, batch) {
		m := batch[i]
		if v.Kind() != consumer.KindAck {
			f.reasons[m.EntryID] = v.Reason()
		}
		switch {
		case v.Kind() == consumer.KindAck:
			f.settled = append(f.settled, m)
		case v.Kind() == consumer.KindUnavailable:
			f.held = append(f.held, m)
		case v.Kind() == consumer.KindReject:
			f.buried = append(f.buried, m)
		case m.Attempts < maxAttempts:
			f.retried = append(f.retried, m)
		case len(batch) == 1:
			f.buried = append(f.buried, m)
		default:
			f.suspects = append(f.suspects, m)
		}
	}
	return f
}

// raised are the messages as their next delivery shows them.
func raised(list []consumer.Message) []consumer.Message {
	var out []consumer.Message
	for _, m := range list {
		m.Attempts++
		out = append(out, m)
	}
	return out
}
