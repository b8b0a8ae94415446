package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/redis/go-redis/v9"
	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/consumer"
)

const (
	group = "g"
	batch = 500
	body  = 200 // bytes
)

func (b *bench) newClient() (valkey.Client, error) {
	opt, err := valkey.ParseURL(b.url)
	if err != nil {
		return nil, err
	}
	opt.DisableCache, opt.ForceSingleClient = true, true
	return valkey.NewClient(opt)
}

// fill makes a stream of n entries, and a group at its head.
func (b *bench) fill(ctx context.Context, n int) (string, error) {
	b.made++
	stream := fmt.Sprint("bench:", b.made)
	if err := b.append(ctx, stream, n); err != nil {
		return "", err
	}
	return stream, b.client.Do(ctx, b.client.B().XgroupCreate().Key(stream).Group(group).Id("0").Mkstream().Build()).Error()
}

// append adds n entries of the shape that watermill reads too.
func (b *bench) append(ctx context.Context, stream string, n int) error {
	payload := strings.Repeat("x", body)
	for from := 0; from < n; from += batch {
		cmds := make([]valkey.Completed, 0, batch)
		for i := from; i < min(n, from+batch); i++ {
			cmds = append(cmds, b.client.B().Xadd().Key(stream).Id("*").FieldValue().
				FieldValue(redisstream.UUIDHeaderKey, fmt.Sprint(i)).FieldValue("metadata", "").FieldValue("payload", payload).Build())
		}
		for _, res := range b.client.DoMulti(ctx, cmds...) {
			if err := res.Error(); err != nil {
				return fmt.Errorf("fill: %w", err)
			}
		}
	}
	return nil
}

// ours has a running consumer join the stream and counts until n entries were acknowledged. Like the other sides it is
// connected before the clock starts.
func (b *bench) ours(ctx context.Context, stream string, n int) (float64, error) {
	var handled atomic.Int64
	done := make(chan struct{})
	c, stop, err := b.start(stream, func(_ context.Context, batch []consumer.Message) []consumer.Verdict {
		if handled.Add(int64(len(batch))) == int64(n) {
			close(done)
		}
		return acks(len(batch))
	}, func(cfg *consumer.Config) { cfg.Streams = nil })
	if err != nil {
		return 0, err
	}
	run := make(chan error, 1)
	go func() { run <- c.Run(ctx) }()
	for c.Stats().Name == "" && ctx.Err() == nil {
		runtime.Gosched()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	c.Join(stream)
	select {
	case <-done:
	case err := <-run:
		return 0, errors.Join(errors.New("ended early"), err)
	}
	for c.Stats().Acked < int64(n) && ctx.Err() == nil {
		runtime.Gosched()
	}
	seconds := time.Since(start).Seconds()
	runtime.ReadMemStats(&after)
	b.add("ours, allocations/entry", float64(after.Mallocs-before.Mallocs)/float64(n))
	return seconds, errors.Join(stop(), <-run)
}

// start makes a consumer, with defaults unless changed, and what stops it.
func (b *bench) start(stream string, h consumer.Handler, change ...func(*consumer.Config)) (*consumer.Consumer, func() error, error) {
	opt, err := valkey.ParseURL(b.url)
	if err != nil {
		return nil, nil, err
	}
	opt.ClientName = "ours"
	cfg := consumer.Config{
		Options: opt, Group: group, Name: "bench", Start: consumer.StartHead, Streams: []string{stream}, Handler: h,
	}
	for _, f := range change {
		f(&cfg)
	}
	c, err := consumer.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	return c, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return c.Stop(ctx)
	}, nil
}

func acks(n int) []consumer.Verdict {
	out := make([]consumer.Verdict, n)
	for i := range out {
		out[i] = consumer.Ack()
	}
	return out
}

// bare is the ceiling: read 500, and acknowledge them in one pipeline with the next read.
func (b *bench) bare(ctx context.Context, stream string, n int) (float64, error) {
	return b.loop(func(c valkey.Client) error {
		var ids []string
		for got := 0; got < n; {
			var cmds []valkey.Completed
			if len(ids) > 0 {
				cmds = append(cmds, c.B().Xack().Key(stream).Group(group).Id(ids...).Build())
			}
			cmds = append(cmds, c.B().Xreadgroup().Group(group, "bare").Count(batch).Streams().Key(stream).Id(">").Build())
			results := c.DoMulti(ctx, cmds...)
			streams, err := results[len(results)-1].AsXReadSlices()
			if err != nil {
				return err
			}
			ids = ids[:0]
			for _, e := range streams[stream] {
				ids = append(ids, e.ID)
			}
			got += len(ids)
		}
		return c.Do(ctx, c.B().Xack().Key(stream).Group(group).Id(ids...).Build()).Error()
	})
}

// perEntry reads 500 and acknowledges one by one.
func (b *bench) perEntry(ctx context.Context, stream string, n int) (float64, error) {
	return b.loop(func(c valkey.Client) error {
		for got := 0; got < n; {
			streams, err := c.Do(ctx, c.B().Xreadgroup().Group(group, "single").Count(batch).Streams().Key(stream).Id(">").Build()).AsXReadSlices()
			if err != nil {
				return err
			}
			for _, e := range streams[stream] {
				if err := c.Do(ctx, c.B().Xack().Key(stream).Group(group).Id(e.ID).Build()).Error(); err != nil {
					return err
				}
				got++
			}
		}
		return nil
	})
}

func (b *bench) loop(f func(valkey.Client) error) (float64, error) {
	c, err := b.newClient()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	start := time.Now()
	err = f(c)
	return time.Since(start).Seconds(), err
}

// watermill drains through watermill-redisstream's subscriber.
func (b *bench) watermill(ctx context.Context, stream string, n int) (float64, error) {
	opt, err := redis.ParseURL(b.url)
	if err != nil {
		return 0, err
	}
	client := redis.NewClient(opt)
	start := time.Now()
	sub, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{
		Client: client, ConsumerGroup: group, Consumer: "watermill", DisableIndefiniteInitialBlock: true,
	}, nil)
	if err != nil {
		return 0, errors.Join(err, client.Close())
	}
	messages, err := sub.Subscribe(ctx, stream)
	if err != nil {
		return 0, errors.Join(err, sub.Close())
	}
	for range n {
		m, ok := <-messages
		if !ok {
			return 0, errors.New("subscription ended")
		}
		m.Ack()
	}
	seconds := time.Since(start).Seconds()
	return seconds, sub.Close() // closes its client too
}
