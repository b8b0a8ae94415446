package consumer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/consumer"
)

// How new and reclaimed work share the handler, with numbers.
func TestRatio(t *testing.T) {
	t.Parallel()
	const fresh = 10_000

	// orphaned makes n entries that a dead consumer left behind long ago, and then the new ones.
	orphaned := func(r *rig, n int) {
		r.group()
		ids := r.addMany(n)
		if n > 0 {
			r.readAs("dead", n)
			r.age(ids, time.Hour)
		}
		r.addMany(fresh)
	}

	t.Run("AThousandGoodOrphansAreDoneWithinAQuarterOfTenThousandNewEntries", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		orphaned(r, 1000)
		var done, orphansDone, doneThen atomic.Int64
		reclaiming := make(chan struct{})
		c := r.start(handler(func(_ context.Context, batch []consumer.Message) []consumer.Verdict {
			<-reclaiming
			for _, m := range batch {
				if m.Attempts == 1 {
					done.Add(1)
				} else if orphansDone.Add(1) == 1000 {
					doneThen.Store(done.Load())
				}
			}
			<-time.After(5 * time.Millisecond) // the handler is what takes time
			return all(batch, consumer.Ack())
		}), func(cfg *consumer.Config) { cfg.MinIdle, cfg.Beat = 10*time.Minute, 5*time.Millisecond })
		eventually(t, func() bool { return c.Stats().Reclaimed >= 500 }, "a batch of them waits")
		close(reclaiming)
		r.settled(c, fresh+1000)
		t.Logf("the orphans were done after %d of %d new entries", doneThen.Load(), fresh)
		if n := doneThen.Load(); n > fresh/4 {
			t.Errorf("after %d of %d new entries", n, fresh)
		}
	})

	t.Run("AHundredThatAlwaysFailLeaveTheNewOnes95PercentOfTheHandlersTime", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		orphaned(r, 100)
		var spent, failing atomic.Int64
		var good atomic.Int64
		c := r.start(handler(func(_ context.Context, batch []consumer.Message) []consumer.Verdict {
			start := time.Now()
			<-time.After(time.Millisecond)
			out := all(batch, consumer.Ack())
			bad := false
			for i, m := range batch {
				if m.Attempts > 1 {
					out[i], bad = consumer.Retry(0, errSorry), true
				} else {
					good.Add(1)
				}
			}
			if bad {
				failing.Add(int64(time.Since(start)))
			} else {
				spent.Add(int64(time.Since(start)))
			}
			return out
		}), func(cfg *consumer.Config) {
			cfg.BatchSize, cfg.MaxAttempts, cfg.MinIdle, cfg.Beat = 50, 1<<40, 10*time.Minute, 5*time.Millisecond
			cfg.Backoff = time.Second // as by default
		})
		eventually(t, func() bool { return good.Load() == fresh }, "the new ones are done")
		share := float64(spent.Load()) / float64(spent.Load()+failing.Load())
		t.Logf("%.1f %% of the handler's time went to new entries", 100*share)
		if share < 0.95 {
			t.Errorf("%.1f %%", 100*share)
		}
		if c.Stats().ReclaimedBatches == 0 {
			t.Error("the failing ones were never tried")
		}
	})

	t.Run("PassesThatSettleNothingDoubleItAndAnythingSettledResetsIt", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.group()
		ids := r.addMany(20)
		r.readAs("dead", 20)
		r.age(ids, time.Hour)
		var mended atomic.Bool
		c := r.start(each(func(context.Context, consumer.Message) consumer.Verdict {
			if mended.Load() {
				return consumer.Ack()
			}
			return consumer.Retry(time.Millisecond, errSorry)
		}), func(cfg *consumer.Config) {
			cfg.MaxAttempts, cfg.MinIdle, cfg.Beat = 1<<40, 10*time.Minute, 5*time.Millisecond
		})
		eventually(t, func() bool { return c.Stats().Ratio == 64 }, "64 to 1")
		mended.Store(true)
		r.settled(c, 20)
		if n := c.Stats().Ratio; n != 4 {
			t.Errorf("ratio %d after all settled", n)
		}
	})
}
