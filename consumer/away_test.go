package consumer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/consumer"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

// The group, the server or the handler's store goes away.
func TestTheGroupOrTheServerGoesAway(t *testing.T) {
	t.Parallel()

	t.Run("ADeletedStreamsGroupIsMadeAgainFromTheHead", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		var s seen
		c := r.start(s.acking())
		r.add()
		r.settled(c, 1)
		for i := range 3 {
			r.must("DEL", r.stream)
			r.addMany(3)
			eventually(t, func() bool { return s.len() == 1+3*(i+1) }, "three more")
		}
		if n := r.logs.lines(); n > 5 {
			t.Errorf("%d log lines", n)
		}
		if n := c.Stats().GroupsRemade; n < 3 {
			t.Errorf("remade %d", n)
		}
	})

	t.Run("AfterFlushallTheGroupIsMadeAgainAndTheNameKept", func(t *testing.T) {
		t.Parallel()
		r := rigAt(t, serverstest.OwnValkey(t).URL)
		var s seen
		c := r.start(s.acking())
		r.add()
		r.settled(c, 1)
		r.must("FLUSHALL")
		r.addMany(3)
		eventually(t, func() bool { return s.len() == 4 }, "three more")
		eventually(t, func() bool { v, err := r.do("EXISTS", r.stream+":name:a").AsInt64(); return err == nil && v == 1 }, "the name is held again")
	})

	t.Run("ADestroyedGroupIsHealedUnderLoadAndNothingOfTheGapIsLost", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		var s seen
		c := r.start(s.acking())
		var ids []string
		for i := range 20 {
			ids = append(ids, r.addMany(20)...)
			if i == 10 {
				r.must("XGROUP", "DESTROY", r.stream, "g")
			}
		}
		eventually(t, func() bool {
			got := map[string]bool{}
			for _, id := range s.ids() {
				got[id] = true
			}
			return len(got) == len(ids)
		}, "every entry was handled")
		r.settled(c, 400)
	})

	t.Run("AServerThatStopsAndReturnsIsReadOnWithoutARestart", func(t *testing.T) {
		t.Parallel()
		v := serverstest.OwnValkey(t)
		r := rigAt(t, v.URL)
		var s seen
		c := r.start(s.acking())
		first := r.addMany(100)
		r.settled(c, 100)
		if err := v.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Health(t.Context()); err == nil {
			t.Error("health says yes while the server is away")
		}
		gone := time.NewTimer(3 * time.Second)
		<-gone.C
		if err := v.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		var id string
		eventually(t, func() bool {
			var err error
			id, err = r.do("XADD", r.stream, "*", "n", "1").ToString()
			return err == nil
		}, "the server answers")
		eventually(t, func() bool { return slices.Contains(s.ids(), id) }, "the new entry is handled")
		r.settled(c, 101)
		if n := r.logs.lines(); n >= 20 {
			t.Errorf("%d log lines", n)
		}
		if s.len() != len(first)+1 {
			t.Errorf("%d handled", s.len())
		}
	})

	t.Run("AServerThatIsFrozenForAWhileIsReadOn", func(t *testing.T) {
		t.Parallel()
		v := serverstest.OwnValkey(t)
		r := rigAt(t, v.URL)
		var s seen
		c := r.start(s.acking(), func(cfg *consumer.Config) {
			cfg.Options.ConnWriteTimeout = time.Second
			for i := range 40 { // one fault, however many streams it is felt on
				cfg.Streams = append(cfg.Streams, fmt.Sprint(r.stream, "-", i))
			}
		})
		r.addMany(100)
		r.settled(c, 100)
		if err := v.Pause(); err != nil {
			t.Fatal(err)
		}
		frozen := time.NewTimer(3 * time.Second)
		<-frozen.C
		if err := v.Resume(); err != nil {
			t.Fatal(err)
		}
		r.addMany(100)
		r.settled(c, 200)
		if n := r.logs.lines(); n >= 20 {
			t.Errorf("%d log lines", n)
		}
	})

	t.Run("AServerThatIsNotThereYetIsWaitedFor", func(t *testing.T) {
		t.Parallel()
		v := serverstest.OwnValkey(t)
		r := rigAt(t, v.URL)
		r.add()
		if err := v.Kill(); err != nil {
			t.Fatal(err)
		}
		c := r.start()
		eventually(t, func() bool { return c.Stats().Failures > 1 }, "it tries")
		if err := v.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() bool { return c.Stats().Acked == 1 }, "handled")
	})

	t.Run("AStopWhileTheServerIsAwayIsClean", func(t *testing.T) {
		t.Parallel()
		v := serverstest.OwnValkey(t)
		r := rigAt(t, v.URL)
		c := r.start()
		eventually(t, func() bool { return c.Stats().Name == "a" }, "it runs")
		if err := v.Kill(); err != nil {
			t.Fatal(err)
		}
		c.stop()
	})

	t.Run("AKeyThatIsNoStreamIsNamedLoudlyAndOthersGoOn", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		bad := r.stream + ":bad"
		r.must("SET", bad, "text")
		c := r.start()
		r.add()
		r.settled(c, 1)
		c.Join(bad)
		eventually(t, func() bool { return strings.Contains(r.logs.String(), bad) }, "the key is named")
		r.add()
		r.settled(c, 2)
		h, err := c.Health(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(h.Streams, func(st consumer.StreamHealth) bool { return st.Stream == bad })
		if i < 0 || h.Streams[i].Fault == "" {
			t.Errorf("health %+v", h.Streams)
		}
		// A stream that turns into something else while it is read.
		r.must("DEL", r.stream)
		r.must("SET", r.stream, "text")
		third := r.stream + ":third"
		c.Join(third)
		r.addTo(third)
		eventually(t, func() bool { return c.Stats().Acked == 3 }, "the third stream is read")
	})

	t.Run("AnEvictingServerIsWarnedOf", func(t *testing.T) {
		t.Parallel()
		r := rigAt(t, serverstest.OwnValkey(t).URL)
		r.must("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
		c := r.start()
		eventually(t, func() bool { return c.Stats().Name == "a" }, "it runs")
		h, err := c.Health(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if h.Eviction != "allkeys-lru" || !strings.Contains(r.logs.String(), "evict") {
			t.Errorf("health %+v, log %s", h, r.logs)
		}
	})

	t.Run("WhileTheStoreIsDownReadingPausesNoCountClimbsAndNothingIsBuried", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		var up atomic.Bool
		var calls atomic.Int64
		var s seen
		c := r.start(each(func(_ context.Context, m consumer.Message) consumer.Verdict {
			if !up.Load() {
				calls.Add(1)
				return consumer.Unavailable(errSorry)
			}
			s.note(m)
			return consumer.Ack()
		}), func(cfg *consumer.Config) {
			cfg.BatchSize, cfg.MaxInFlight, cfg.MaxAttempts, cfg.MinIdle = 10, 40, 2, steady
		})
		ids := r.addMany(1000)
		eventually(t, func() bool { return c.Stats().Breaker }, "the breaker is open")
		down := time.NewTimer(2 * steady)
		<-down.C
		if n := len(r.pending()); n > 40 {
			t.Errorf("%d read while the store is down", n)
		}
		for _, p := range r.pending() {
			if p.attempts != 1 || p.idle > steady {
				t.Errorf("lease or count not kept: %+v", p)
			}
		}
		if st := c.Stats(); st.BreakerReason != "sorry" || st.BreakerSince.IsZero() || st.BreakerOpenings != 1 {
			t.Errorf("stats %+v", st)
		}
		up.Store(true)
		r.settled(c, 1000)
		if st := c.Stats(); st.DeadLettered != 0 || st.Breaker {
			t.Errorf("stats %+v", st)
		}
		if got := s.ids(); !slices.Equal(got, ids) {
			t.Errorf("%d handled, or out of order", len(got))
		}
		if n := calls.Load(); n > 10*20 {
			t.Errorf("%d entries tried while down", n)
		}
	})

	t.Run("OtherVerdictsOfABatchAreCarriedOutWhileTheStoreIsDown", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		ids := r.addMany(4)
		var down atomic.Bool
		down.Store(true)
		c := r.start(each(func(_ context.Context, m consumer.Message) consumer.Verdict {
			if m.EntryID == ids[1] && down.Load() {
				return consumer.Unavailable(errSorry)
			}
			return consumer.Ack()
		}))
		eventually(t, func() bool { return len(r.pending()) == 1 && c.Stats().Breaker }, "three settled")
		down.Store(false)
		r.settled(c, 4)
	})
}
