package consumer_test

import (
	"context"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/consumer"
)

func TestTrimming(t *testing.T) {
	t.Parallel()

	t.Run("PendingEntriesThatWereTrimmedAwayAreAcknowledgedAndCounted", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.group()
		r.addMany(3)
		r.readAs("a", 3)
		r.must("XTRIM", r.stream, "MAXLEN", "0")
		c := r.start()
		eventually(t, func() bool { return len(r.pending()) == 0 }, "nothing is pending")
		r.add()
		r.settled(c, 1)
		if n := c.Stats().Trimmed; n != 3 {
			t.Errorf("trimmed %d", n)
		}
	})

	t.Run("OthersTrimmedEntriesAreFreedByTheBeat", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.group()
		ids := r.addMany(5)
		r.readAs("dead", 5)
		r.age(ids, 2*time.Hour)
		r.must("XDEL", r.stream, ids[1], ids[3])
		c := r.start()
		eventually(t, func() bool { return c.Stats().Acked == 3 && len(r.pending()) == 0 }, "the rest is settled")
		if n := c.Stats().Trimmed; n != 2 {
			t.Errorf("trimmed %d", n)
		}
	})

	t.Run("AnEntryTrimmedWhileItIsHandledIsHandledToTheEnd", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.addMany(3)
		begun := make(chan struct{}, 3)
		release := make(chan struct{})
		var s seen
		c := r.start(each(func(ctx context.Context, m consumer.Message) consumer.Verdict {
			begun <- struct{}{}
			select {
			case <-release:
				s.note(m)
				return consumer.Ack()
			case <-ctx.Done():
				return consumer.Retry(0, ctx.Err())
			}
		}), minIdleOf(minIdle))
		receive(t, begun)
		r.must("XTRIM", r.stream, "MAXLEN", "0")
		renewals := time.NewTimer(2 * minIdle) // a few come by
		<-renewals.C
		close(release)
		eventually(t, func() bool { return s.len() == 3 && len(r.pending()) == 0 }, "all three are handled")
		if st := c.Stats(); st.LeasesLost != 0 {
			t.Errorf("stats %+v", st)
		}
	})

	t.Run("EntriesTrimmedBeforeTheyWereReadAreCountedAsLostAndTheLagAsUnknown", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.addMany(10)
		c := r.start()
		r.settled(c, 10)
		health := func() consumer.StreamHealth {
			h, err := c.Health(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return h.Streams[0]
		}
		if h := health(); h.Lost != 0 || !h.LostKnown || h.Lag != 0 || !h.LagKnown {
			t.Errorf("health %+v", h)
		}
		c.Leave(r.stream)
		eventually(t, func() bool { h, err := c.Health(t.Context()); return err == nil && len(h.Streams) == 0 }, "nobody reads")
		r.addMany(30)
		r.must("XTRIM", r.stream, "MAXLEN", "5")
		next := r.start(named("b"), func(cfg *consumer.Config) {
			cfg.Handler = func(_ context.Context, batch []consumer.Message) []consumer.Verdict {
				return all(batch, consumer.Ack())
			}
		})
		eventually(t, func() bool { return next.Stats().Acked == 5 }, "what is left is read")
		h, err := next.Health(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if st := h.Streams[0]; !st.LostKnown || st.Lost != 25 || st.LagKnown {
			t.Errorf("health %+v", st)
		}
	})
}
