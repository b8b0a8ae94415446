package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/consumer"
)

func TestPoison(t *testing.T) {
	t.Parallel()

	t.Run("FourThatAlwaysFailAmongAThousandBecomeDeadLettersAndARetryWorksOnceMended", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		ids := r.addMany(1004)
		bad := map[string]bool{ids[0]: true, ids[100]: true, ids[101]: true, ids[1003]: true}
		var mended atomic.Bool
		var s seen
		c := r.start(each(func(_ context.Context, m consumer.Message) consumer.Verdict {
			if bad[m.EntryID] {
				return consumer.Retry(0, errSorry)
			}
			if _, ok := m.Fields.Get("n"); !ok || mended.Load() {
				s.note(m)
			}
			return consumer.Ack()
		}), func(cfg *consumer.Config) { cfg.MaxAttempts = 3 })
		eventually(t, func() bool { return c.Stats().Acked == 1000 }, "the good ones settle")
		r.settled(c, 1004)
		letters := r.deadLetters()
		if len(letters) != 4 {
			t.Fatalf("%d dead letters", len(letters))
		}
		for _, l := range letters {
			n, _ := l.Fields.Get("n")
			if !bad[l.EntryID] || ids[mustInt(t, n)] != l.EntryID || l.Attempts != 3 || l.Reason != "sorry" || l.Stream != r.stream ||
				l.Group != "g" || l.Consumer != "a" || time.Since(l.At) > time.Minute || l.At.Before(l.Delivered) || len(l.Fields) != 1 {
				t.Errorf("dead letter %+v", l)
			}
		}
		mended.Store(true)
		for _, l := range letters[:2] {
			if _, err := r.letters().Retry(t.Context(), r.stream, l.ID); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, func() bool { return s.len() == 2 }, "the retried ones are handled")
		if err := r.letters().Drop(t.Context(), r.stream, letters[2].ID); err != nil {
			t.Fatal(err)
		}
		for _, f := range []func() error{
			func() error { return r.letters().Drop(t.Context(), r.stream, letters[2].ID) },
			func() error { _, err := r.letters().Retry(t.Context(), r.stream, letters[0].ID); return err },
		} {
			if err := f(); !errors.Is(err, consumer.ErrNoLetter) {
				t.Errorf("got %v", err)
			}
		}
		if n, err := r.letters().Count(t.Context(), r.stream); err != nil || n != 1 {
			t.Errorf("count %d, %v", n, err)
		}
	})

	t.Run("ARejectedEntryIsADeadLetterAtOnceWhateverItsShape", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		many := func(n int) []string {
			var out []string
			for i := range n {
				out = append(out, fmt.Sprintf("f%d", i), fmt.Sprintf("v\x00%d\xff:", i))
			}
			return out
		}
		shapes := [][]string{
			{"id", "EVT1"},
			{"\xff\xfe", "\x00"},
			{"big", strings.Repeat("x", 1<<20)},
			{"a", "1", "a", "2"},
			{"", ""},
			many(500), many(1001), many(10_000),
		}
		for _, fields := range shapes {
			r.add(fields...)
		}
		c := r.start(handler(func(_ context.Context, batch []consumer.Message) []consumer.Verdict {
			return all(batch, consumer.Reject("no good"))
		}))
		r.settled(c, int64(len(shapes)))
		letters := r.deadLetters()
		if len(letters) != len(shapes) {
			t.Fatalf("%d dead letters", len(letters))
		}
		for i, l := range letters {
			if !slices.Equal(l.Fields, pairs(shapes[i])) || l.Reason != "no good" || l.Attempts != 1 {
				t.Errorf("shape %d: %d fields, %q after %d attempts", i, len(l.Fields), l.Reason, l.Attempts)
			}
		}
	})

	t.Run("APanicOnFiveOfTenSettlesFiveNowAndRetriesFive", func(t *testing.T) {
		t.Parallel()
		for name, form := range map[string]func(func(consumer.Message)) consumer.Handler{
			"Each": func(f func(consumer.Message)) consumer.Handler {
				return consumer.Each(func(_ context.Context, m consumer.Message) consumer.Verdict { f(m); return consumer.Ack() })
			},
			"Batch": func(f func(consumer.Message)) consumer.Handler {
				return func(_ context.Context, batch []consumer.Message) []consumer.Verdict {
					for _, m := range batch {
						f(m)
					}
					return all(batch, consumer.Ack())
				}
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				ids := r.addMany(10)
				c := r.start(handler(form(func(m consumer.Message) {
					if i := slices.Index(ids, m.EntryID); i%2 == 1 && m.Attempts == 1 {
						panic("odd")
					}
				})), func(cfg *consumer.Config) { cfg.Backoff = 300 * time.Millisecond })
				eventually(t, func() bool { st := c.Stats(); return st.Acked == 5 && st.Delayed == 5 }, "five now, five delayed")
				r.settled(c, 10)
				if n := strings.Count(r.logs.String(), "debug.Stack()"); n != 1 {
					t.Errorf("the stack is logged %d times", n)
				}
			})
		}
	})

	t.Run("AHandlerThatGivesTooFewVerdictsIsAnError", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.addMany(10)
		c := r.start(handler(func(_ context.Context, batch []consumer.Message) []consumer.Verdict {
			if len(batch) > 1 || batch[0].Attempts == 1 {
				return nil
			}
			return all(batch, consumer.Ack())
		}))
		r.settled(c, 10)
	})

	t.Run("EntryOneAlwaysFailsAndEntryTwoIsHandledAtOnce", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		first := r.add()
		var s seen
		c := r.start(each(func(_ context.Context, m consumer.Message) consumer.Verdict {
			if m.EntryID == first {
				return consumer.Retry(0, errSorry)
			}
			s.note(m)
			return consumer.Ack()
		}), func(cfg *consumer.Config) {
			cfg.MaxAttempts, cfg.MinIdle, cfg.Backoff = 100, time.Hour, time.Hour
		})
		eventually(t, func() bool { return c.Stats().Retries > 0 }, "it failed")
		r.add()
		eventually(t, func() bool { return s.len() == 1 }, "the second is handled")
		if n := c.Stats().Retries; n != 1 {
			t.Errorf("the first was tried %d times before", n)
		}
	})

	t.Run("ASuspectRunsAloneOnceMoreBeforeItIsBuried", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		ids := r.addMany(10)
		var alone, together atomic.Int64
		c := r.start(handler(func(_ context.Context, batch []consumer.Message) []consumer.Verdict {
			for _, m := range batch {
				if m.EntryID != ids[3] {
					continue
				}
				if len(batch) == 1 {
					alone.Add(1)
				} else {
					together.Add(1)
				}
				return all(batch, consumer.Retry(0, errSorry)) // it drags its batch along
			}
			return all(batch, consumer.Ack())
		}), func(cfg *consumer.Config) { cfg.MaxAttempts = 3 })
		r.settled(c, 10)
		if l := r.deadLetters(); len(l) != 1 || l[0].EntryID != ids[3] {
			t.Errorf("dead letters %+v", l)
		}
		if alone.Load() == 0 || together.Load() > 2 {
			t.Errorf("alone %d, together %d", alone.Load(), together.Load())
		}
	})

	t.Run("ASuspectThatIsDoneIsAcknowledgedBeforeTheNextOneCanKillTheProcess", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.group()
		ids := r.addMany(100)
		r.readAs("dead", 100)
		last := ""
		c := r.start(each(func(_ context.Context, m consumer.Message) consumer.Verdict {
			if last != "" {
				if rows, err := r.do("XPENDING", r.stream, "g", last, last, "1").ToArray(); err != nil || len(rows) != 0 {
					t.Errorf("the one before is pending: %d, %v", len(rows), err)
				}
			}
			if last = ""; m.Attempts > 1 {
				last = m.EntryID
				r.do("XADD", r.stream, "*", "n", "1") // keeps the reader busy: acknowledgements may wait for it
			}
			return consumer.Ack()
		}), func(cfg *consumer.Config) { cfg.MaxAttempts = 2 })
		r.age(ids, time.Hour)
		r.settled(c, 200)
	})

	t.Run("WithASingleAttemptAllowedWhatADeadConsumerLeftIsStillRunOnceAlone", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.group()
		ids := r.addMany(4)
		r.readAs("dead", 2) // one of them never begun
		r.age(ids[:2], 2*time.Hour)
		var s seen
		c := r.start(each(func(_ context.Context, m consumer.Message) consumer.Verdict {
			s.note(m)
			if m.EntryID == ids[1] || m.EntryID == ids[3] {
				return consumer.Retry(0, errSorry)
			}
			return consumer.Ack()
		}), func(cfg *consumer.Config) { cfg.MaxAttempts = 1 })
		r.settled(c, 4)
		if attempts, _ := s.of(ids[0]); !slices.Equal(attempts, []int64{2}) {
			t.Errorf("the first was handled with attempts %v", attempts)
		}
		var buried []string
		for _, l := range r.deadLetters() {
			buried = append(buried, l.EntryID)
		}
		if slices.Sort(buried); !slices.Equal(buried, []string{ids[1], ids[3]}) {
			t.Errorf("dead letters %v", buried)
		}
	})

	t.Run("TheDelayGrowsWithTheAttemptsAndEndsAtMinIdle", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		id := r.add()
		var s seen
		c := r.start(each(func(_ context.Context, m consumer.Message) consumer.Verdict {
			s.note(m)
			return consumer.Retry(0, errSorry)
		}), func(cfg *consumer.Config) {
			cfg.MaxAttempts, cfg.Backoff, cfg.MinIdle = 6, 100*time.Millisecond, minIdle
		})
		delays := []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, minIdle}
		eventually(t, func() bool {
			// However late this looks: what is left of a delay stands in the pending list.
			n, delayed := s.len(), c.Stats().Delayed == 1
			for _, p := range r.pending() {
				if delayed && int(p.attempts) == n && n <= len(delays) && minIdle-p.idle > delays[n-1] {
					t.Errorf("delay %d is at least %s, want %s", n, minIdle-p.idle, delays[n-1])
				}
			}
			return c.Stats().DeadLettered == 1
		}, "it is a dead letter")
		attempts, at := s.of(id)
		if !slices.Equal(attempts, []int64{1, 2, 3, 4, 5, 6}) {
			t.Fatalf("attempts %v", attempts)
		}
		for i, want := range delays {
			if d := at[i+1].Sub(at[i]); d < want*8/10 {
				t.Errorf("delay %d is %s, want %s", i+1, d, want)
			}
		}
	})

	t.Run("ARetriedLetterOnARetryStreamSaysWhereItCameFrom", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		retry := r.stream + ":again"
		withRetry := func(cfg *consumer.Config) {
			cfg.RetryStream = func(string) string { return retry }
			cfg.DeadLetter = func(string) string { return r.stream + ":letters" }
		}
		var fields []string
		for i := range 3000 {
			fields = append(fields, fmt.Sprint("f", i), "v")
		}
		for _, f := range [][]string{{"x", "1", "id", "EVT1", "x", "2"}, fields} {
			r.add(f...)
		}
		var s seen
		c := r.start(each(func(_ context.Context, m consumer.Message) consumer.Verdict {
			if m.Stream == r.stream {
				return consumer.Reject("first")
			}
			s.note(m)
			return consumer.Ack()
		}), withRetry)
		eventually(t, func() bool { return c.Stats().DeadLettered == 2 }, "dead letters")
		d := consumer.NewDeadLetters(r.client, r.config(withRetry))
		list, err := d.List(t.Context(), r.stream, "", 10)
		if err != nil || len(list) != 2 {
			t.Fatalf("%d letters, %v", len(list), err)
		}
		for i, l := range list {
			if _, err := d.Retry(t.Context(), r.stream, l.ID); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() bool { return s.len() == i+1 }, "letter %d is handled", i)
			m := s.list()[i]
			if v, _ := m.Fields.Get("dead.attempts"); v != "1" || m.Fields[3].Name != "f:"+l.Fields[0].Name {
				t.Errorf("fields %q", m.Fields[:4])
			}
			o, ok := m.Original()
			if !ok || o.Stream != r.stream || o.EntryID != l.EntryID || !slices.Equal(o.Fields, l.Fields) {
				t.Errorf("original %s %s, %d fields", o.Stream, o.EntryID, len(o.Fields))
			}
		}
		if o, _ := s.list()[0].Original(); o.RecordID != "EVT1" {
			t.Errorf("record id %q", o.RecordID)
		}
	})
}

// A process that handles an entry and dies of it must not take its neighbours along.
func TestAnEntryThatKillsTheProcessBecomesADeadLetterAndItsNeighboursSettle(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.group()
	var ids []string
	for i := range 20 {
		ids = append(ids, r.add("n", fmt.Sprint(i)))
	}
	killer := r.add("kill", "1")
	for i := range 20 {
		ids = append(ids, r.add("n", fmt.Sprint(20+i)))
	}
	for range 12 {
		if len(r.pending()) == 0 && len(r.deadLetters()) > 0 {
			break
		}
		c := r.child(orders{Name: "a", Do: "die"})
		eventually(t, func() bool {
			select {
			case <-c.ended:
				return true
			default:
				return len(r.deadLetters()) > 0 && len(r.pending()) == 0
			}
		}, "it dies, or is done")
		c.signalIfAlive(syscall.SIGKILL)
		<-c.ended
	}
	letters := r.deadLetters()
	if len(letters) != 1 || letters[0].EntryID != killer || !strings.Contains(letters[0].Reason, "never settled") {
		t.Fatalf("dead letters %+v", letters)
	}
	if n := len(r.pending()); n != 0 {
		t.Errorf("%d pending of %d", n, len(ids)+1)
	}
}

func pairs(flat []string) consumer.Fields {
	out := make(consumer.Fields, 0, len(flat)/2)
	for i := 0; i < len(flat); i += 2 {
		out = append(out, consumer.Field{Name: flat[i], Value: flat[i+1]})
	}
	return out
}

func mustInt(t testing.TB, s string) (n int) {
	t.Helper()
	if _, err := fmt.Sscan(s, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
