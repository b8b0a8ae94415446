package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/consumer"
)

func TestTwiceLateAtOnce(t *testing.T) {
	t.Parallel()

	t.Run("AHandlerSlowerThanThreeMinIdleRunsOnceAndWhatWaitsKeepsItsLeaseToo", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.addMany(20)
		var s seen
		slow := each(func(_ context.Context, m consumer.Message) consumer.Verdict {
			s.note(m)
			if s.len() == 1 {
				<-time.After(3*steady + 100*time.Millisecond)
			}
			return consumer.Ack()
		})
		a := r.start(slow, minIdleOf(steady), func(cfg *consumer.Config) { cfg.BatchSize, cfg.MaxInFlight = 5, 40 })
		eventually(t, func() bool { return a.Stats().InFlight >= 10 }, "some wait their turn")
		b := r.start(s.acking(), named("b"), minIdleOf(steady))
		eventually(t, func() bool { return a.Stats().Acked+b.Stats().Acked == 20 && len(r.pending()) == 0 }, "all settled")
		if s.len() != 20 || b.Stats().Reclaimed+a.Stats().Reclaimed != 0 {
			t.Errorf("%d handled, %d reclaimed", s.len(), b.Stats().Reclaimed+a.Stats().Reclaimed)
		}
		for _, m := range s.list() {
			if m.Attempts != 1 {
				t.Errorf("attempts %d", m.Attempts)
			}
		}
	})

	t.Run("AThousandIdleEntriesAreDeliveredOnceMoreNotOnceForEachOfEightReplicas", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.group()
		ids := r.addMany(1000)
		r.readAs("dead", 1000)
		r.age(ids, time.Hour)
		var s seen
		var all []*running
		for i := range 8 {
			all = append(all, r.start(named(fmt.Sprint("r", i)), s.acking(), minIdleOf(steady)))
		}
		eventually(t, func() bool { return s.len() >= 1000 && len(r.pending()) == 0 }, "all settled")
		if s.len() != 1000 {
			t.Errorf("%d delivered", s.len())
		}
		for _, m := range s.list() {
			if m.Attempts != 2 {
				t.Errorf("attempts %d", m.Attempts)
			}
		}
		for _, c := range all {
			c.stop()
		}
	})

	t.Run("ALostLeaseCancelsTheEntrysContextAndTheServerSaysWhoseItIs", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		id := r.add()
		var once sync.Once
		begun, lost := make(chan struct{}), make(chan error, 1)
		mine := make(chan bool, 2)
		ask := func(m consumer.Message) {
			is, err := m.StillMine(context.Background())
			if err != nil {
				t.Error(err)
			}
			mine <- is
		}
		c := r.start(each(func(ctx context.Context, m consumer.Message) consumer.Verdict {
			v := consumer.Ack() // of the thief, once it has been silent for long enough
			once.Do(func() {
				ask(m)
				close(begun)
				<-ctx.Done()
				ask(m)
				lost <- context.Cause(ctx)
				v = consumer.Retry(0, ctx.Err())
			})
			return v
		}), minIdleOf(steady))
		receive(t, begun)
		r.must("XCLAIM", r.stream, "g", "thief", "0", id)
		if err := receive(t, lost); !errors.Is(err, consumer.ErrLeaseLost) {
			t.Errorf("cause %v", err)
		}
		if before, after := receive(t, mine), receive(t, mine); !before || after {
			t.Errorf("StillMine: %t before, %t after", before, after)
		}
		if n := c.Stats().LeasesLost; n != 1 {
			t.Errorf("%d leases lost", n)
		}
		r.settled(c, 1)
	})

	t.Run("ABatchsContextEndsWhenAllItsLeasesAreLost", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		ids := r.addMany(3)
		var once sync.Once
		begun, lost := make(chan struct{}), make(chan error, 1)
		r.start(handler(func(ctx context.Context, batch []consumer.Message) []consumer.Verdict {
			once.Do(func() {
				close(begun)
				<-ctx.Done()
				lost <- context.Cause(ctx)
			})
			return all(batch, consumer.Ack())
		}), minIdleOf(steady))
		receive(t, begun)
		r.must(append([]string{"XCLAIM", r.stream, "g", "thief", "0"}, ids...)...)
		if err := receive(t, lost); !errors.Is(err, consumer.ErrLeaseLost) {
			t.Errorf("cause %v", err)
		}
	})
}
