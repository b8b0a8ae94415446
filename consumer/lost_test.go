package consumer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/consumer"
)

func TestWorkIsNeverStranded(t *testing.T) {
	t.Parallel()

	t.Run("AnEntryThatFailedOnceComesBackAfterItsBackoff", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		id := r.add()
		var s seen
		c := r.start(each(func(_ context.Context, m consumer.Message) consumer.Verdict {
			s.note(m)
			if m.Attempts == 1 {
				return consumer.Retry(200*time.Millisecond, errSorry)
			}
			return consumer.Ack()
		}), func(cfg *consumer.Config) { cfg.MinIdle, cfg.Beat = time.Hour, time.Hour/3 })
		r.settled(c, 1)
		attempts, at := s.of(id)
		if !slices.Equal(attempts, []int64{1, 2}) {
			t.Fatalf("attempts %v", attempts)
		}
		if d := at[1].Sub(at[0]); d < 200*time.Millisecond {
			t.Errorf("came back after %s, want 200ms", d)
		}
		if st := c.Stats(); st.Retried != 1 || st.Retries != 1 { // by the timer
			t.Errorf("stats %+v", st)
		}
	})

	t.Run("AKilledConsumersEntryIsTakenOverWithinMinIdleAndABeat", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		id := r.add()
		a := r.child(orders{Name: "killed", Do: "hang"})
		if got, attempts := a.next(); got != id || attempts != "1" {
			t.Fatalf("the child handles %s %s", got, attempts)
		}
		a.kill()
		p := newBeats(r)
		then := make(chan int64, 1) // beats until it was handled
		var s seen
		c := r.start(each(func(_ context.Context, m consumer.Message) consumer.Verdict {
			s.note(m)
			then <- p.n.Load()
			return consumer.Ack()
		}), p.counted, minIdleOf(minIdle))
		before := int64(0)
		eventually(t, func() bool {
			before = p.n.Load()
			rows := r.pending()
			return len(rows) == 0 || rows[0].idle >= minIdle || rows[0].attempts > 1
		}, "its idle time is over")
		r.settled(c, 1)
		if n := receive(t, then) - before; n > 1 {
			t.Errorf("%d beats after min-idle", n)
		}
		if attempts, _ := s.of(id); !slices.Equal(attempts, []int64{2}) {
			t.Errorf("attempts %v", attempts)
		}
	})

	t.Run("ADelaySurvivesTheDeathOfItsConsumer", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.group()
		id := r.add()
		c := r.start(each(func(context.Context, consumer.Message) consumer.Verdict {
			return consumer.Retry(time.Hour/2, errSorry)
		}), func(cfg *consumer.Config) { cfg.MinIdle, cfg.Beat = time.Hour, time.Hour/3 })
		eventually(t, func() bool { return c.Stats().Delayed == 1 }, "the entry is delayed")
		p := r.pending()[0]
		if p.id != id || p.idle < time.Hour/2-5*time.Millisecond || p.idle > time.Hour {
			t.Errorf("the pending list says %+v", p)
		}
	})

	t.Run("TenOfADeadConsumerAreTakenThreeABeatAndItsNameGoesWhenItOwnsNothing", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.group()
		ids := r.addMany(10)
		r.readAs("dead", 10)
		r.age(ids, 2*time.Hour)
		var s seen
		c := r.start(s.acking(), func(cfg *consumer.Config) {
			cfg.MaxInFlight, cfg.ConsumerGrace = 12, 100*time.Millisecond
			cfg.Beat = 10 * time.Millisecond
		})
		r.settled(c, 10)
		eventually(t, func() bool { return slices.Equal(r.names(), []string{"a"}) }, "the dead name is gone")
		if s.len() != 10 {
			t.Errorf("%d lines", s.len())
		}
	})

	t.Run("ANameThatOwnsEntriesStays", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.group()
		r.addMany(5)
		r.readAs("owner", 5)
		r.must("XGROUP", "CREATECONSUMER", r.stream, "g", "idler")
		c := r.start(func(cfg *consumer.Config) {
			cfg.MinIdle, cfg.Beat, cfg.ConsumerGrace = time.Hour, 10*time.Millisecond, 10*time.Millisecond
		})
		eventually(t, func() bool { return !slices.Contains(r.names(), "idler") }, "who owns nothing is gone")
		if !slices.Contains(r.names(), "owner") || len(r.pending()) != 5 {
			t.Errorf("names %v, %d pending", r.names(), len(r.pending()))
		}
		if c.Stats().Acked != 0 {
			t.Error("entries of the living were taken")
		}
	})

	t.Run("AConsumerKilledInItsReclaimBeatLeavesNoLockBehind", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.group()
		r.addMany(300)
		r.readAs("dead", 300)
		a := r.child(orders{Name: "killed", Do: "hang"})
		a.next() // it has reclaimed, and goes on reclaiming
		a.kill()
		r.settled(r.start(minIdleOf(minIdle)), 300)
	})

	t.Run("AStopHandsBackWhatWasNotBegunAndAPeerTakesItAtOnceWithAttempts1", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		ids := r.addMany(10)
		begun := make(chan struct{}, 10)
		release := make(chan struct{})
		a := r.start(each(func(context.Context, consumer.Message) consumer.Verdict {
			begun <- struct{}{}
			<-release
			return consumer.Ack()
		}), func(cfg *consumer.Config) { cfg.BatchSize, cfg.MinIdle = 1, time.Hour })
		receive(t, begun)
		eventually(t, func() bool { return a.Stats().InFlight >= 2 }, "some wait their turn")
		stopped := make(chan struct{})
		go func() { defer close(stopped); a.stop() }()
		eventually(t, func() bool { return strings.Contains(r.logs.String(), "stopping") }, "the stop has begun")
		close(release)
		receive(t, stopped)
		var s seen
		b := r.start(s.acking(), named("b"), minIdleOf(time.Hour)) // from a dead consumer they would come after that
		r.settled(b, 9)
		for _, m := range s.list() {
			if m.Attempts != 1 {
				t.Errorf("attempts %d", m.Attempts)
			}
		}
		if got := s.ids(); !slices.Equal(slices.Sorted(slices.Values(got)), ids[1:]) {
			t.Errorf("handled %v", got)
		}
	})

	t.Run("952OrphansOfDeadNamesAreSeenInTheHealthAndGoneWithinTwoBeats", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.group()
		ids := r.addMany(952)
		for i := range 17 {
			r.readAs(fmt.Sprintf("ghost-%d", i), 56)
		}
		r.age(ids, time.Hour)
		h, err := consumer.NewObserver(r.client, r.config()).Health(t.Context(), r.stream)
		if err != nil {
			t.Fatal(err)
		}
		if st := h.Streams[0]; st.Pending != 952 || st.OldestIdle < time.Hour || len(st.Consumers) != 17 {
			t.Errorf("health %+v", st)
		}
		p := newBeats(r)
		var handled, then atomic.Int64
		c := r.start(handler(func(_ context.Context, batch []consumer.Message) []consumer.Verdict {
			if handled.Add(int64(len(batch))) == 952 {
				then.Store(p.n.Load())
			}
			return all(batch, consumer.Ack())
		}), p.counted, minIdleOf(steady))
		r.settled(c, 952)
		if n := then.Load(); n < 1 || n > 2 {
			t.Errorf("gone in the %d. beat", n)
		}
	})

	t.Run("OneOldOrphanBehind2000FreshEntriesIsReclaimedInOnePass", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.group()
		ids := r.addMany(2001)
		r.readAs("busy", 2000)
		r.readAs("dead", 1)
		r.age(ids[2000:], time.Hour)
		var s seen
		c := r.start(s.acking(), func(cfg *consumer.Config) { cfg.MinIdle, cfg.Beat = 30*time.Minute, 100*time.Millisecond })
		eventually(t, func() bool { return s.len() == 1 }, "the orphan is handled")
		if s.ids()[0] != ids[2000] || c.Stats().Reclaimed != 1 {
			t.Errorf("handled %v", s.ids())
		}
	})

	t.Run("AHundredRestartsUnderNewNamesLeaveOnlyTheLivingListed", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		var s seen
		fast := func(cfg *consumer.Config) {
			cfg.Block, cfg.Beat, cfg.ConsumerGrace = 5*time.Millisecond, 5*time.Millisecond, 50*time.Millisecond
		}
		for i := range 100 {
			r.add()
			c := r.start(named(fmt.Sprintf("n%d", i)), s.acking(), fast)
			eventually(t, func() bool { return s.len() > i }, "entry %d", i)
			c.stop()
		}
		r.start(named("last"), fast)
		eventually(t, func() bool { return slices.Equal(r.names(), []string{"last"}) }, "only the living are listed")
		if s.len() != 100 || len(r.pending()) != 0 {
			t.Errorf("%d handled, %d pending", s.len(), len(r.pending()))
		}
	})

	t.Run("AFrozenConsumerThatIsContinuedFindsItsWorkDoneAndGoesOn", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.add()
		a := r.child(orders{Name: "frozen", Do: "ack"})
		a.next()
		a.freeze()
		r.addMany(50)
		c := r.start(minIdleOf(minIdle)) // it may have been frozen before it acknowledged the first
		r.settled(c, 50)
		a.signal(syscall.SIGCONT)
		c.stop()
		r.add()
		a.next()
		eventually(t, func() bool { return len(r.pending()) == 0 }, "settled")
	})
}
