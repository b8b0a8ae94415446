package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/consumer"
)

// fresh is how many new entries wait beside the orphans.
const fresh = 10_000

// shares measures how new entries and those that a dead consumer left share a handler that takes 1 ms a batch and 20 us an
// entry: what 100 orphans that always fail cost 10 000 new entries, and how many of those are handled before 1000 good
// orphans are.
func (b *bench) shares(ctx context.Context) error {
	for range 3 {
		alone, _, err := b.share(ctx, 0, false)
		if err != nil {
			return err
		}
		beside, _, err := b.share(ctx, 100, false)
		if err != nil {
			return err
		}
		_, before, err := b.share(ctx, 1000, true)
		if err != nil {
			return err
		}
		b.add("10 000 new alone, s", alone.Seconds())
		b.add("10 000 new beside 100 that fail, s", beside.Seconds())
		b.add("new ones until 1000 orphans are done, share", float64(before)/fresh)
	}
	return nil
}

// share handles the new entries beside orphans, from the moment that both wait. It returns how long the new ones took, and
// how many were done when the last orphan was.
func (b *bench) share(ctx context.Context, orphans int64, good bool) (took time.Duration, before int64, err error) {
	stream, err := b.orphaned(ctx, orphans)
	if err != nil {
		return 0, 0, err
	}
	var fine, found, then atomic.Int64
	open, done := make(chan struct{}), make(chan struct{})
	c, stop, err := b.start(stream, func(_ context.Context, batch []consumer.Message) []consumer.Verdict {
		<-open
		work := time.NewTimer(time.Millisecond + time.Duration(len(batch))*20*time.Microsecond)
		<-work.C
		out := acks(len(batch))
		for i, m := range batch {
			switch {
			case m.Attempts == 1:
				if fine.Add(1) == fresh {
					close(done)
				}
			case !good:
				out[i] = consumer.Retry(0, errors.New("always"))
			case found.Add(1) == orphans:
				then.Store(fine.Load())
			}
		}
		return out
	}, func(cfg *consumer.Config) {
		cfg.MinIdle, cfg.Beat, cfg.MaxAttempts = 10*time.Minute, 5*time.Millisecond, math.MaxInt32
	})
	if err != nil {
		return 0, 0, err
	}
	run := make(chan error, 1)
	go func() { run <- c.Run(ctx) }()
	for st := c.Stats(); ctx.Err() == nil && (st.Read == 0 || st.Reclaimed < min(orphans, 500)); st = c.Stats() {
		time.Sleep(time.Millisecond)
	}
	start := time.Now()
	close(open)
	select {
	case <-done:
		took = time.Since(start)
	case err := <-run:
		return 0, 0, errors.Join(errors.New("ended early"), err)
	}
	for good && found.Load() < orphans && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	err = errors.Join(stop(), <-run, b.client.Do(ctx, b.client.B().Del().Key(stream).Build()).Error())
	return took, then.Load(), err
}

// orphaned makes a stream of entries that a dead consumer read an hour ago, and of the new ones behind them.
func (b *bench) orphaned(ctx context.Context, n int64) (string, error) {
	stream, err := b.fill(ctx, int(n))
	if err != nil || n == 0 {
		return stream, errors.Join(err, b.append(ctx, stream, fresh))
	}
	const dead = "dead"
	res := b.client.Do(ctx, b.client.B().Xreadgroup().Group(group, dead).Count(n).Streams().Key(stream).Id(">").Build())
	streams, err := res.AsXReadSlices()
	if err != nil {
		return "", fmt.Errorf("read as the dead: %w", err)
	}
	cmds := make([]valkey.Completed, 0, n)
	for _, e := range streams[stream] {
		cmds = append(cmds, b.client.B().Xclaim().Key(stream).Group(group).Consumer(dead).MinIdleTime("0").Id(e.ID).
			Idle(time.Hour.Milliseconds()).Justid().Build())
	}
	for _, res := range b.client.DoMulti(ctx, cmds...) {
		if err := res.Error(); err != nil {
			return "", fmt.Errorf("age the orphans: %w", err)
		}
	}
	return stream, b.append(ctx, stream, fresh)
}
