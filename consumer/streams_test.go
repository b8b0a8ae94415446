package consumer_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/consumer"
)

// Streams come and go, and are read side by side.
func TestStreams(t *testing.T) {
	t.Parallel()

	t.Run("ComeAndGoWhileRunning", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		var s seen
		c := r.start(s.acking())
		other := r.stream + ":other"
		r.addTo(other)
		c.Join(other, r.stream)
		eventually(t, func() bool { return s.len() == 1 }, "the joined stream is read")
		if got := c.Streams(); !slices.Equal(got, []string{r.stream, other}) {
			t.Errorf("streams %v", got)
		}
		c.Leave(other)
		eventually(t, func() bool { h, err := c.Health(t.Context()); return err == nil && len(h.Streams) == 1 }, "it is left")
		r.addTo(other)
		r.add()
		eventually(t, func() bool { return s.len() == 2 }, "the first stream is read on")
		c.Join(other)
		eventually(t, func() bool { return s.len() == 3 }, "the other is joined again")
	})

	t.Run("ALeftStreamIsDrained", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.addMany(10)
		release := make(chan struct{})
		begun := make(chan struct{}, 10)
		c := r.start(each(func(context.Context, consumer.Message) consumer.Verdict {
			begun <- struct{}{}
			<-release
			return consumer.Ack()
		}))
		receive(t, begun)
		c.Leave(r.stream)
		close(release)
		r.settled(c, 10)
	})

	t.Run("HundredsAreReadInOrderByFewConnections", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		var streams []string
		for i := range 300 {
			streams = append(streams, fmt.Sprintf("%s:%d", r.stream, i))
		}
		for n := range 5 {
			for _, st := range streams {
				r.addTo(st, "n", fmt.Sprint(n))
			}
		}
		var s seen
		c := r.start(s.acking(), func(cfg *consumer.Config) {
			cfg.Streams, cfg.Workers, cfg.BatchSize = streams, 2, 100
			cfg.Options.ClientName = "hundreds"
		})
		eventually(t, func() bool { return s.len() == 1500 && c.Stats().Acked == 1500 }, "all are handled")
		next := map[string]int{}
		for _, m := range s.list() {
			n, _ := m.Fields.Get("n")
			if n != fmt.Sprint(next[m.Stream]) {
				t.Fatalf("%s: %s after %d", m.Stream, n, next[m.Stream])
			}
			next[m.Stream]++
		}
		if n := r.connections("hundreds"); n > 16 {
			t.Errorf("%d connections", n)
		}
	})

	t.Run("InFlightIsBounded", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.addMany(1000)
		release := make(chan struct{})
		c := r.start(handler(func(_ context.Context, batch []consumer.Message) []consumer.Verdict {
			<-release
			return all(batch, consumer.Ack())
		}), func(cfg *consumer.Config) { cfg.BatchSize, cfg.MaxInFlight = 50, 80 })
		eventually(t, func() bool { return len(r.pending()) > 0 }, "it reads")
		<-time.After(200 * time.Millisecond)
		if n := len(r.pending()); n > 80 {
			t.Errorf("%d in flight", n)
		}
		close(release)
		r.settled(c, 1000)
	})

	t.Run("InFlightIsBoundedInBytes", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		big := string(make([]byte, 100_000))
		for range 40 {
			r.add("big", big)
		}
		release := make(chan struct{})
		c := r.start(handler(func(_ context.Context, batch []consumer.Message) []consumer.Verdict {
			<-release
			return all(batch, consumer.Ack())
		}), func(cfg *consumer.Config) { cfg.BatchSize, cfg.MaxInFlightBytes = 2, 500_000 })
		eventually(t, func() bool { return c.Stats().Bytes > 0 }, "it reads")
		<-time.After(200 * time.Millisecond)
		if n := c.Stats().Bytes; n > 700_000 {
			t.Errorf("%d bytes in flight", n)
		}
		close(release)
		r.settled(c, 40)
	})
}
