package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/consumer"
)

// Cases 22 to 25: twice, late, at once.
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
		r.addMany(1000)
		r.readAs("dead", 1000)
		var s seen
		var all []*running
		for i := range 8 {
			all = append(all, r.start(named(fmt.Sprint("r", i)), s.acking()))
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
		}))
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
		}))
		receive(t, begun)
		r.must(append([]string{"XCLAIM", r.stream, "g", "thief", "0"}, ids...)...)
		if err := receive(t, lost); !errors.Is(err, consumer.ErrLeaseLost) {
			t.Errorf("cause %v", err)
		}
	})
}

// Cases 28 and 29: trimming.
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
		}))
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

// Servers and proxies that speak the older protocol only.
func TestRESP2(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.group()
	ids := r.addMany(30)
	r.readAs("a", 10)
	r.readAs("dead", 10)
	r.must("XDEL", r.stream, ids[0], ids[10])
	var s seen
	c := r.start(s.acking(), func(cfg *consumer.Config) { cfg.Options.AlwaysRESP2 = true })
	eventually(t, func() bool { return s.len() == 28 && len(r.pending()) == 0 }, "all that is left is handled")
	h, err := c.Health(t.Context())
	if err != nil || len(h.Streams) != 1 || len(h.Streams[0].Consumers) != 2 || h.Streams[0].Length != 28 {
		t.Errorf("health %+v, %v", h, err)
	}
	if n := c.Stats().Trimmed; n != 2 {
		t.Errorf("trimmed %d", n)
	}
}

// A user of the server's who may do no more than a consumer needs.
func TestAnACLUser(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	user := strings.NewReplacer("{", "", "}", "", ":", "").Replace(r.stream)
	r.must("ACL", "SETUSER", user, "on", ">secret", "~"+r.stream+"*", "+@stream", "+@scripting", "+exists", "+get", "+set", "+del",
		"+hello", "+auth", "+client|setinfo", "+ping", "+time")
	t.Cleanup(func() { r.must("ACL", "DELUSER", user) })
	r.addMany(5)
	c := r.start(func(cfg *consumer.Config) {
		cfg.Options.Username, cfg.Options.Password = user, "secret"
		cfg.Options.ForceSingleClient = true
	})
	r.settled(c, 5)
	wrong, err := consumer.New(r.config(named("b"), func(cfg *consumer.Config) {
		cfg.Options.Username, cfg.Options.Password = user, "wrong"
	}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := wrong.Run(ctx); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("got %v", err)
	}
}

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
