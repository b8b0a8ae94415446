package consumer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/consumer"
)

// A dead letter goes to the retry stream while any of the commands that take it there may fail, before the server sees it
// or after. At every moment it is in one of the two, never in both or neither, and in the end it has its one effect.
func TestRetryFaultTable(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"WATCH", "XRANGE", "TYPE", "MULTI", "XDEL", "XADD", "EXEC"} {
		for _, how := range []breakage{notExecuted, replyLost, replyCut} {
			t.Run(command+how.String(), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				withRetry, retry := r.retrying()
				id := r.add("x", "1")
				c := r.start(each(func(context.Context, consumer.Message) consumer.Verdict { return consumer.Reject("no good") }), withRetry)
				eventually(t, func() bool { return c.Stats().DeadLettered == 1 }, "a dead letter")
				c.stop()

				p := newProxy(t, r.url)
				client, err := valkey.NewClient(options(t, p.url))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(client.Close)
				d := consumer.NewDeadLetters(client, r.config(withRetry))
				list, err := d.List(t.Context(), r.stream, "", 10)
				if err != nil || len(list) != 1 {
					t.Fatalf("%d letters, %v", len(list), err)
				}
				length := func(key string) int64 {
					t.Helper()
					n, err := r.do("XLEN", key).AsInt64()
					if err != nil {
						t.Fatal(err)
					}
					return n
				}
				p.breakNext(1, how, func(cmd []string) bool { return cmd[0] == command })
				_, failed := d.Retry(t.Context(), r.stream, list[0].ID)
				if p.broken.Load() != 1 {
					t.Fatalf("%s was not sent", command)
				}
				dead, again := length(r.stream+":letters"), length(retry)
				if dead+again != 1 {
					t.Errorf("%d dead and %d to be retried", dead, again)
				}
				if failed == nil && dead == 1 {
					t.Error("it says that it was retried, and it was not")
				}
				// An operator who is told that it failed does it again.
				if _, err := d.Retry(t.Context(), r.stream, list[0].ID); dead == 1 && err != nil || dead == 0 && !errors.Is(err, consumer.ErrNoLetter) {
					t.Errorf("the second time: %v", err)
				}
				var s seen
				mended := r.start(each(func(_ context.Context, m consumer.Message) consumer.Verdict {
					s.note(m)
					return consumer.Ack()
				}), withRetry)
				eventually(t, func() bool { return mended.Stats().Acked == 1 }, "it settles")
				mended.stop()
				if got := s.list(); len(got) != 1 {
					t.Errorf("handled %+v", got)
				} else if was, ok := got[0].Original(); !ok || was.EntryID != id {
					t.Errorf("handled %+v, want %s", was, id)
				}
				if length(r.stream+":letters") != 0 {
					t.Error("it is a dead letter as well")
				}
			})
		}
	}
}

func TestALetterIsNotLostWhereTheRetryStreamIsNone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	withRetry, retry := r.retrying()
	r.add("x", "1")
	c := r.start(each(func(context.Context, consumer.Message) consumer.Verdict { return consumer.Reject("no good") }), withRetry)
	eventually(t, func() bool { return c.Stats().DeadLettered == 1 }, "a dead letter")
	c.stop()
	for _, args := range [][]string{{"DEL", retry}, {"SET", retry, "a string"}} {
		if err := r.do(args...).Error(); err != nil {
			t.Fatal(err)
		}
	}
	d := consumer.NewDeadLetters(r.client, r.config(withRetry))
	list, err := d.List(t.Context(), r.stream, "", 10)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d letters, %v", len(list), err)
	}
	if _, err := d.Retry(t.Context(), r.stream, list[0].ID); !errors.Is(err, consumer.ErrNotStream) {
		t.Errorf("it says %v", err)
	}
	if _, err := d.Letter(t.Context(), r.stream, list[0].ID); err != nil {
		t.Errorf("and of the letter: %v", err)
	}
	if err := r.do("DEL", retry).Error(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Retry(t.Context(), r.stream, list[0].ID); err != nil {
		t.Errorf("once it is gone: %v", err)
	}
}
