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
const singles = 1000

// listener waits for the entries of an idle stream.
type listener struct {
	name   string
	stream string
	got    chan struct{} // an entry is in its hands
	failed chan error
	stop   func() error
}

// latencies times single entries on idle streams, from before XADD to the handler, and to a bare blocked read: one of each
// in turn, so that what else the machine does hits both.
func (b *bench) latencies(ctx context.Context) (err error) {
	var sides []*listener
	defer func() {
		for _, l := range sides {
			err = errors.Join(err, l.stop())
		}
	}()
	for _, start := range []func(context.Context) (*listener, error){b.ourListener, b.bareListener} {
		l, err := start(ctx)
		if err != nil {
			return err
		}
		sides = append(sides, l)
	}
	took := make([][]float64, len(sides))
	pause := time.NewTicker(2 * time.Millisecond) // the streams are idle in between
	defer pause.Stop()
	for range singles {
		for i, l := range sides {
			<-pause.C
			start := time.Now()
			if err := b.client.Do(ctx, b.client.B().Xadd().Key(l.stream).Id("*").FieldValue().FieldValue("n", "1").Build()).Error(); err != nil {
				return err
			}
			select {
			case <-l.got:
				took[i] = append(took[i], float64(time.Since(start).Microseconds())/1000)
			case err := <-l.failed:
				return errors.Join(fmt.Errorf("%s ended early", l.name), err)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	for i, l := range sides {
		slices.Sort(took[i])
		b.add(l.name+", p99 ms", took[i][singles*99/100])
		b.add(l.name+", p50 ms", took[i][singles/2])
	}
	return nil
}

func (b *bench) ourListener(ctx context.Context) (*listener, error) {
	stream, err := b.fill(ctx, 0)
	if err != nil {
		return nil, err
	}
	l := &listener{name: "ours", stream: stream, got: make(chan struct{}), failed: make(chan error, 1)}
	c, stop, err := b.start(stream, func(ctx context.Context, batch []consumer.Message) []consumer.Verdict {
		select {
		case l.got <- struct{}{}:
		case <-ctx.Done():
		}
		return acks(len(batch))
	})
	if err != nil {
		return nil, err
	}
	run := make(chan error, 1)
	go func() { err := c.Run(ctx); l.failed <- err; run <- err }()
	l.stop = func() error { return errors.Join(stop(), <-run) }
	for c.Stats().Name == "" && ctx.Err() == nil {
		runtime.Gosched()
	}
	return l, nil
}

func (b *bench) bareListener(ctx context.Context) (*listener, error) {
	stream, err := b.fill(ctx, 0)
	if err != nil {
		return nil, err
	}
	c, err := b.newClient()
	if err != nil {
		return nil, err
	}
	l := &listener{name: "bare blocked read", stream: stream, got: make(chan struct{}), failed: make(chan error, 1)}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	l.stop = func() error { cancel(); <-ended; c.Close(); return nil }
	go func() {
		defer close(ended)
		l.failed <- func() error {
			for {
				res := c.Do(ctx, c.B().Xreadgroup().Group(group, "bare").Count(batch).Block(10_000).Streams().Key(stream).Id(">").Build())
				streams, err := res.AsXReadSlices()
				if err != nil {
					return err
				}
				select {
				case l.got <- struct{}{}:
				case <-ctx.Done():
					return nil
				}
				for _, e := range streams[stream] {
					if err := c.Do(ctx, c.B().Xack().Key(stream).Group(group).Id(e.ID).Build()).Error(); err != nil {
						return err
					}
				}
			}
		}()
	}()
	return l, nil
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
