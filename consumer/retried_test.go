package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/codemojex/feedrenderer/consumer"
)

// A dead letter that is retried settles, or is a dead letter of its own stream again.
func TestARetriedDeadLetter(t *testing.T) {
	t.Parallel()

	t.Run("ThatFailsAgainReturnsToItsOwnStreamWithItsHistoryUntilItSettles", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		withRetry, retry := r.retrying()
		packed := []string{"n", "2"}
		for i := range 1500 {
			packed = append(packed, fmt.Sprint("f", i), "v")
		}
		shapes := [][]string{{"x", "1", "dead.past", "mine", "x", "2", "f:y", "3"}, packed}
		ids := []string{r.add(shapes[0]...), r.add(shapes[1]...)}
		var rounds, settled atomic.Int64
		c := r.start(each(func(_ context.Context, m consumer.Message) consumer.Verdict {
			switch round := rounds.Load(); {
			case round < 3:
				return consumer.Retry(0, fmt.Errorf("round %d", round))
			default:
				settled.Add(1)
				return consumer.Ack()
			}
		}), withRetry, func(cfg *consumer.Config) { cfg.MaxAttempts = 2 })
		d := consumer.NewDeadLetters(r.client, r.config(withRetry))
		var last []consumer.DeadLetter
		for round := range int64(3) {
			eventually(t, func() bool { return c.Stats().DeadLettered == 2*(round+1) }, "round %d: dead letters", round)
			list, err := d.List(t.Context(), r.stream, "", 10)
			if err != nil || len(list) != 2 {
				t.Fatalf("round %d: %d letters of its stream, %v", round, len(list), err)
			}
			slices.SortFunc(list, func(a, b consumer.DeadLetter) int { return slices.Index(ids, a.EntryID) - slices.Index(ids, b.EntryID) })
			for i, l := range list {
				if l.Stream != r.stream || l.EntryID != ids[i] || l.Attempts != 2*(round+1) || l.Reason != fmt.Sprintf("round %d", round) ||
					int64(len(l.Past)) != round || !slices.Equal(l.Fields, pairs(shapes[i])) {
					t.Errorf("round %d: %s of %s, attempts %d, %q, %d fields, past %+v", round, l.EntryID, l.Stream, l.Attempts, l.Reason, len(l.Fields), l.Past)
				}
				for n, p := range l.Past {
					if p.Attempts != 2*int64(n+1) || p.Reason != fmt.Sprintf("round %d", n) || (n == len(l.Past)-1 && !p.At.Equal(last[i].At)) {
						t.Errorf("round %d: past %d is %+v", round, n, p)
					}
				}
				if one, err := d.Letter(t.Context(), r.stream, l.ID); err != nil || one.EntryID != l.EntryID {
					t.Errorf("one alone: %+v, %v", one, err)
				}
			}
			last = list
			rounds.Store(round + 1)
			for _, l := range list {
				if _, err := d.Retry(t.Context(), r.stream, l.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		eventually(t, func() bool { return settled.Load() == 2 }, "they settle")
		for _, key := range []string{r.stream + ":letters", retry + ":letters"} {
			if n, err := r.do("XLEN", key).AsInt64(); err != nil || n != 0 {
				t.Errorf("%s: %d letters, %v", key, n, err)
			}
		}
	})

	t.Run("RemembersNoMoreThanItsLastTwentyRetries", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		withRetry, _ := r.retrying()
		r.add()
		c := r.start(handler(func(_ context.Context, batch []consumer.Message) []consumer.Verdict {
			return all(batch, consumer.Reject("no good"))
		}), withRetry)
		d := consumer.NewDeadLetters(r.client, r.config(withRetry))
		for round := range int64(23) {
			eventually(t, func() bool { return c.Stats().DeadLettered == round+1 }, "round %d", round)
			list, err := d.List(t.Context(), r.stream, "", 10)
			if err != nil || len(list) != 1 || int64(len(list[0].Past)) != min(round, 20) || list[0].Attempts != round+1 {
				t.Fatalf("round %d: %+v, %v", round, list, err)
			}
			if round < 22 {
				if _, err := d.Retry(t.Context(), r.stream, list[0].ID); err != nil {
					t.Fatal(err)
				}
			}
		}
	})

	t.Run("IsNotBelievedToBeOneElsewhereThanOnTheRetryStreamOfTheStreamItNames", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		withRetry, retry := r.retrying()
		for _, key := range []string{r.stream, retry} {
			r.addTo(key, "dead.stream", "{other}:1", "dead.entry", "1-1", "f:x", "1") // another hash slot, another retry stream
			r.addTo(key, "dead.stream", r.stream, "dead.entry", "none")
			r.addTo(key, "dead.stream", retry, "dead.entry", "1-1")
		}
		r.addTo(r.stream, "dead.stream", r.stream+"x", "dead.entry", "1-1", "f:x", "1")
		c := r.start(handler(func(_ context.Context, batch []consumer.Message) []consumer.Verdict {
			return all(batch, consumer.Reject("no good"))
		}), withRetry)
		eventually(t, func() bool { return c.Stats().DeadLettered == 7 }, "dead letters")
		for key, want := range map[string]int64{r.stream + ":letters": 4, retry + ":letters": 3} {
			if n, err := r.do("XLEN", key).AsInt64(); err != nil || n != want {
				t.Errorf("%s: %d letters, %v, want %d", key, n, err, want)
			}
		}
	})

	t.Run("HasAnIDThatIsOne", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		for _, id := range []string{"", "-", "+", "1", "$", "1-2-3", "(1-1", "x-1"} {
			_, retried := r.letters().Retry(t.Context(), r.stream, id)
			_, found := r.letters().Letter(t.Context(), r.stream, id)
			for _, err := range []error{retried, found, r.letters().Drop(t.Context(), r.stream, id)} {
				if !errors.Is(err, consumer.ErrNoLetter) {
					t.Errorf("%q: %v", id, err)
				}
			}
		}
	})
}

// retrying gives the rig's stream a retry stream, and names its own to dead-letter streams.
func (r *rig) retrying() (_ func(*consumer.Config), retry string) {
	retry = r.stream + ":again"
	return func(cfg *consumer.Config) {
		cfg.DeadLetter = func(stream string) string { return stream + ":letters" }
		cfg.RetryStream = func(stream string) string {
			if stream == "{other}:1" {
				return "{other}:again"
			}
			return retry
		}
	}, retry
}
