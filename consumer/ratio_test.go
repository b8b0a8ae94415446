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

	// The schedule alone: each batch lasts until the next orphans are at hand, so a slow machine changes nothing. One batch of
	// 500 new ones is in the handler when they come, then 500 orphans, four new batches, 500 orphans: 2500 exactly.
	t.Run("AThousandGoodOrphansAreDoneWithinAQuarterOfTenThousandNewEntries", func(t *testing.T) {
		t.Parallel()
		const orphans, size = 1000, 500
		r := newRig(t)
		orphaned(r, orphans)
		var done, orphansDone, doneThen atomic.Int64
		var c *running
		started := make(chan struct{})
		c = r.start(handler(func(ctx context.Context, batch []consumer.Message) []consumer.Verdict {
			for _, m := range batch {
				if m.Attempts == 1 {
					done.Add(1)
				} else if orphansDone.Add(1) == orphans {
					doneThen.Store(done.Load())
				}
			}
			<-started
			for batch[0].Attempts == 1 && c.Stats().Reclaimed-orphansDone.Load() < min(size, orphans-orphansDone.Load()) {
				select {
				case <-time.After(time.Millisecond):
				case <-ctx.Done():
					return all(batch, consumer.Retry(0, ctx.Err()))
				}
			}
			return all(batch, consumer.Ack())
		}), func(cfg *consumer.Config) {
			cfg.BatchSize, cfg.MinIdle, cfg.Beat = size, 10*time.Minute, 5*time.Millisecond
		})
		close(started)
		r.settled(c, fresh+orphans)
		if n := doneThen.Load(); n == 0 || n > fresh/4 {
			t.Errorf("after %d of %d new entries", n, fresh)
		}
	})

	t.Run("OfWhatTheHandlerIsGivenBesideAHundredThatAlwaysFail95PercentIsNew", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		orphaned(r, 100)
		var good, failing atomic.Int64
		c := r.start(each(func(_ context.Context, m consumer.Message) consumer.Verdict {
			switch {
			case m.Attempts == 1:
				good.Add(1)
				return consumer.Ack()
			case good.Load() < fresh:
				failing.Add(1)
			}
			return consumer.Retry(0, errSorry)
		}), func(cfg *consumer.Config) {
			cfg.BatchSize, cfg.MaxAttempts, cfg.MinIdle, cfg.Beat = 50, 1<<40, 10*time.Minute, 5*time.Millisecond
			cfg.Backoff = time.Second // as by default
		})
		eventually(t, func() bool { return good.Load() == fresh && c.Stats().ReclaimedBatches > 0 }, "the new ones are done")
		if share := 100 * float64(fresh) / float64(fresh+failing.Load()); share < 95 {
			t.Errorf("%.1f %%", share)
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
