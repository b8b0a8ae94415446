package consumer

import (
	"context"
	"fmt"
	"time"
)

// Kind says which of its four fates a Verdict gives an entry.
type Kind uint8

// The kinds. KindRetry is the zero value: a verdict that was forgotten loses nothing.
const (
	KindRetry       Kind = iota // stays pending and comes back after a delay
	KindAck                     // settled
	KindReject                  // settled by moving it to the dead letters
	KindUnavailable             // nothing wrong with the entry: what the handler writes to is down
)

// Verdict is what a handler says of one entry. Make it with Ack, Retry, Reject or Unavailable.
type Verdict struct {
	kind   Kind
	after  time.Duration
	err    error
	reason string
}

// Ack settles the entry.
func Ack() Verdict { return Verdict{kind: KindAck} }

// Retry leaves the entry pending and brings it back after a delay of at most the group's min-idle; 0 asks for the
// consumer's own backoff. At Config.MaxAttempts a retried entry becomes a dead letter whose reason is err.
func Retry(after time.Duration, err error) Verdict {
	return Verdict{kind: KindRetry, after: after, err: err}
}

// Reject moves the entry to the dead letters at once: no attempt could ever succeed.
func Reject(reason string) Verdict { return Verdict{kind: KindReject, reason: reason} }

// Unavailable says that the store behind the handler is down. The consumer pauses reading, keeps the entry and its
// lease, and hands it over again until the store is back. It raises no count and never leads to a dead letter.
func Unavailable(err error) Verdict { return Verdict{kind: KindUnavailable, err: err} }

// Kind is the verdict's fate.
func (v Verdict) Kind() Kind { return v.kind }

// After is the delay a Retry asked for, 0 for the consumer's own backoff.
func (v Verdict) After() time.Duration { return v.after }

// Err is the error of a Retry or Unavailable.
func (v Verdict) Err() error { return v.err }

// Reason is what a dead letter made of this verdict would give as its reason.
func (v Verdict) Reason() string {
	if v.reason == "" && v.err != nil {
		return v.err.Error()
	}
	return v.reason
}

func (v Verdict) String() string {
	switch v.kind {
	case KindAck:
		return "ack"
	case KindReject:
		return "reject: " + v.reason
	case KindUnavailable:
		return fmt.Sprintf("unavailable: %v", v.err)
	default:
		return fmt.Sprintf("retry after %s: %v", v.after, v.err)
	}
}

// Handler settles a batch: one verdict per message, by index. A batch may hold entries of many streams; those of one
// stream are in stream order on their first delivery. The context ends when the consumer is stopped past its deadline,
// and with cause ErrLeaseLost when every entry of the batch was taken over by others.
//
// A panic, or a number of verdicts other than that of the messages, is an error of the whole batch: its halves are
// handed over again until the entries at fault are found; those are retried, the others keep the verdicts they get.
// A handler must therefore be safe to repeat, as at-least-once delivery asks anyway.
type Handler func(ctx context.Context, batch []Message) []Verdict

// Handle calls the handler the way a consumer does and always returns a verdict for each message: a batch that panicked, or
// was answered with the wrong number of verdicts, is halved until what is at fault stands alone.
func (h Handler) Handle(ctx context.Context, batch []Message) []Verdict {
	verdicts, err := h.call(ctx, batch)
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
	return append(h.Handle(ctx, batch[:half:half]), h.Handle(ctx, batch[half:])...)
}

func (h Handler) call(ctx context.Context, batch []Message) (verdicts []Verdict, err error) {
	defer func() {
		if r := recover(); r != nil {
			verdicts, err = nil, newPanicError(r)
		}
	}()
	if verdicts = h(ctx, batch); len(verdicts) != len(batch) {
		return nil, &VerdictsError{Got: len(verdicts), Want: len(batch)}
	}
	return verdicts, nil
}

// Each makes a Handler of a function of one message. Messages are handled one after the other, each with a context that
// ends with cause ErrLeaseLost if its entry was taken over; a panic is a Retry of that message alone.
func Each(f func(ctx context.Context, m Message) Verdict) Handler {
	return func(ctx context.Context, batch []Message) []Verdict {
		verdicts := make([]Verdict, len(batch))
		for i, m := range batch {
			verdicts[i] = one(ctx, f, m)
		}
		return verdicts
	}
}

func one(ctx context.Context, f func(context.Context, Message) Verdict, m Message) (v Verdict) {
	ctx, cancel := m.Context(ctx)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			v = Retry(0, newPanicError(r))
		}
	}()
	return f(ctx, m)
}
