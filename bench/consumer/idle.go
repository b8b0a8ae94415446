package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/codemojex/feedrenderer/consumer"
)

// singles is how many entries a latency is taken of.
const singles = 300

// latencies times single entries on an idle stream, from before XADD to the handler, and to a bare blocked read.
func (b *bench) latencies(ctx context.Context) error {
	if err := b.ourLatency(ctx); err != nil {
		return err
	}
	stream, err := b.fill(ctx, 0)
	if err != nil {
		return err
	}
	c, err := b.newClient()
	if err != nil {
		return err
	}
	defer c.Close()
	got := make(chan struct{})
	failed := make(chan error, 1)
	go func() {
		ctx := context.WithoutCancel(ctx) // ends by its count
		for range singles {
			res := c.Do(ctx, c.B().Xreadgroup().Group(group, "bare").Count(batch).Block(10_000).Streams().Key(stream).Id(">").Build())
			streams, err := res.AsXReadSlices()
			if err != nil {
				failed <- err
				return
			}
			got <- struct{}{}
			for _, e := range streams[stream] {
				if err := c.Do(ctx, c.B().Xack().Key(stream).Group(group).Id(e.ID).Build()).Error(); err != nil {
					failed <- err
					return
				}
			}
		}
	}()
	return b.time(ctx, "bare blocked read, p99 ms", stream, got, failed)
}

func (b *bench) ourLatency(ctx context.Context) error {
	stream, err := b.fill(ctx, 0)
	if err != nil {
		return err
	}
	got := make(chan struct{})
	c, stop, err := b.start(stream, func(_ context.Context, batch []consumer.Message) []consumer.Verdict {
		got <- struct{}{}
		return acks(len(batch))
	})
	if err != nil {
		return err
	}
	run := make(chan error, 1)
	go func() { run <- c.Run(ctx) }()
	for c.Stats().Name == "" && ctx.Err() == nil {
		runtime.Gosched()
	}
	err = b.time(ctx, "ours, p99 ms", stream, got, run)
	return errors.Join(err, stop(), <-run)
}

func (b *bench) time(ctx context.Context, name, stream string, got <-chan struct{}, failed <-chan error) error {
	var took []float64
	pause := time.NewTicker(2 * time.Millisecond) // the stream is idle in between
	defer pause.Stop()
	for range singles {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		start := time.Now()
		if err := b.client.Do(ctx, b.client.B().Xadd().Key(stream).Id("*").FieldValue().FieldValue("n", "1").Build()).Error(); err != nil {
			return err
		}
		select {
		case <-got:
			took = append(took, float64(time.Since(start).Microseconds())/1000)
		case err := <-failed:
			return errors.Join(errors.New("ended early"), err)
		}
	}
	slices.Sort(took)
	b.add(name, took[len(took)*99/100])
	b.add(strings.Replace(name, "p99", "p50", 1), took[len(took)/2])
	return nil
}

// idle has one consumer listen to many streams that nothing is added to.
func (b *bench) idle(ctx context.Context) error {
	const watched = 10 * time.Second
	stream, err := b.fill(ctx, 0)
	if err != nil {
		return err
	}
	c, stop, err := b.start(stream, func(_ context.Context, batch []consumer.Message) []consumer.Verdict { return acks(len(batch)) })
	if err != nil {
		return err
	}
	for i := range b.streams {
		c.Join(fmt.Sprint("idle:", i))
	}
	run := make(chan error, 1)
	go func() { run <- c.Run(ctx) }()
	last := fmt.Sprint("idle:", b.streams-1)
	for ctx.Err() == nil {
		n, err := b.client.Do(ctx, b.client.B().Xlen().Key(last).Build()).AsInt64()
		h, herr := c.Health(ctx)
		if err == nil && n == 0 && herr == nil && len(h.Streams) > b.streams {
			break
		}
	}
	settle := time.NewTimer(3 * time.Second)
	<-settle.C
	before := used()
	watch := time.NewTimer(watched)
	<-watch.C
	b.add("idle streams, % of a core", 100*(used()-before).Seconds()/watched.Seconds())
	clients, err := b.client.Do(ctx, b.client.B().Arbitrary("CLIENT", "LIST").Build()).ToString()
	if err != nil {
		return err
	}
	b.add("idle streams, connections", float64(strings.Count(clients, " name=ours ")))
	return errors.Join(stop(), <-run)
}

// used is the processor time of this process.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
