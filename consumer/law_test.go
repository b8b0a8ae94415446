package consumer_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/consumer"
)

var errSorry = errors.New("sorry")

// What every reader of such streams must hold to, one test a line.
func TestReaderLaw(t *testing.T) {
	t.Parallel()

	t.Run("01EveryEntryReachesTheHandlerAndASettledOneLeavesThePendingList", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		ids := r.addMany(1200)
		var s seen
		c := r.start(s.acking())
		r.settled(c, 1200)
		if got := s.ids(); !slices.Equal(got, ids) {
			t.Errorf("handled %d entries, want %d in order", len(got), len(ids))
		}
	})

	t.Run("02AHandlerErrorLeavesTheEntryPendingAndItReturnsWithTheSameID", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		id := r.add()
		var s seen
		c := r.start(each(func(_ context.Context, m consumer.Message) consumer.Verdict {
			s.note(m)
			if m.Attempts == 1 {
				return consumer.Retry(0, errSorry)
			}
			return consumer.Ack()
		}))
		r.settled(c, 1)
		if attempts, _ := s.of(id); !slices.Equal(attempts, []int64{1, 2}) {
			t.Errorf("attempts %v, want 1 and 2", attempts)
		}
	})

	t.Run("03AnAcknowledgedEntryIsNotDeliveredAgain", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.addMany(50)
		var s seen
		c := r.start(s.acking())
		r.settled(c, 50)
		c.stop()
		next := r.start(s.acking())
		last := r.add()
		r.settled(next, 1)
		if got := s.ids(); len(got) != 51 || got[50] != last {
			t.Errorf("handled %d entries, want 51", len(got))
		}
	})

	t.Run("04AConsumerRestartedUnderItsNameHandlesItsOwnBacklogFirstInOrder", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.group()
		ids := r.addMany(700)
		r.readAs("a", 600)
		var s seen
		c := r.start(s.acking(), func(cfg *consumer.Config) { cfg.BatchSize = 100 })
		r.settled(c, 700)
		if got := s.ids(); !slices.Equal(got, ids) {
			t.Errorf("order differs: %d entries", len(got))
		}
		if st := c.Stats(); st.Backlog != 600 || st.Read != 100 {
			t.Errorf("backlog %d, read %d", st.Backlog, st.Read)
		}
	})

	t.Run("05ADeadPeersEntriesAreReclaimedOncePastMinIdle", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.group()
		r.addMany(10)
		r.readAs("dead", 10)
		start := time.Now()
		var s seen
		c := r.start(s.acking(), minIdleOf(steady))
		r.settled(c, 10)
		if took := time.Since(start); took < steady-50*time.Millisecond {
			t.Errorf("reclaimed after %s, before min-idle", took)
		}
		if n := c.Stats().Reclaimed; n != 10 {
			t.Errorf("reclaimed %d", n)
		}
	})

	t.Run("06TheHandlerSeesIDPayloadAttemptsAndGroup", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		id := r.add("x", "1", "id", "EVT1", "x", "2", "id", "other", "\xff\x00", "\r\n")
		var s seen
		c := r.start(s.acking())
		r.settled(c, 1)
		m := s.list()[0]
		if m.EntryID != id || m.RecordID != "EVT1" || m.Attempts != 1 || m.Group != "g" || m.Stream != r.stream {
			t.Errorf("got %+v", m)
		}
		want := consumer.Fields{{Name: "x", Value: "1"}, {Name: "x", Value: "2"}, {Name: "id", Value: "other"}, {Name: "\xff\x00", Value: "\r\n"}}
		if got := m.Fields.Payload(); !slices.Equal(got, want) {
			t.Errorf("payload %q", got)
		}
		if v, _ := m.Fields.Get("x"); v != "1" || len(m.Fields) != 5 {
			t.Errorf("fields %q", m.Fields)
		}
	})

	t.Run("07AttemptsIsTheServersDeliveryCount", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.group()
		id := r.add()
		r.readAs("a", 1) // a delivery without any failure
		var s seen
		c := r.start(s.acking())
		r.settled(c, 1)
		if attempts, _ := s.of(id); !slices.Equal(attempts, []int64{2}) {
			t.Errorf("attempts %v, want exactly 2", attempts)
		}
	})

	t.Run("08APanicIsAnErrorNeighboursSettleAndTheEntryReturns", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		ids := r.addMany(10)
		var s seen
		c := r.start(handler(func(_ context.Context, batch []consumer.Message) []consumer.Verdict {
			for _, m := range batch {
				if m.EntryID == ids[4] && m.Attempts == 1 {
					panic("four")
				}
			}
			for _, m := range batch {
				s.note(m)
			}
			return all(batch, consumer.Ack())
		}))
		r.settled(c, 10)
		if attempts, _ := s.of(ids[4]); !slices.Equal(attempts, []int64{2}) {
			t.Errorf("attempts %v", attempts)
		}
		if s.len() != 10 {
			t.Errorf("%d entries settled once, want 10", s.len())
		}
	})

	t.Run("09StartingMakesGroupAndStreamAndARestartStormNeverErrors", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		for range 10 {
			a, b := r.start(), r.start(named("b"))
			eventually(t, func() bool { return a.Stats().Name == "a" && b.Stats().Name == "b" }, "both run")
			a.stop()
			b.stop()
		}
		r.add()
		r.settled(r.start(), 1)
	})

	t.Run("10AKeyThatIsNotAStreamFailsTheStartLoudly", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.must("SET", r.stream, "text")
		c, err := consumer.New(r.config())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err = c.Run(ctx)
		if !errors.Is(err, consumer.ErrNotStream) || !strings.Contains(err.Error(), r.stream) {
			t.Errorf("got %v", err)
		}
	})

	t.Run("11TheStartOfAGroupIsDeclared", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		for _, start := range []consumer.Start{0, 7} {
			if _, err := consumer.New(r.config(func(cfg *consumer.Config) { cfg.Start = start })); err == nil {
				t.Errorf("start %d accepted", start)
			}
		}
		r.addMany(5)
		var s seen
		c := r.start(s.acking(), func(cfg *consumer.Config) { cfg.Start = consumer.StartNew })
		eventually(t, func() bool { return c.Stats().Name != "" && strings.Contains(r.groups(), "g") }, "the group is there")
		id := r.add()
		r.settled(c, 1)
		if got := s.ids(); !slices.Equal(got, []string{id}) {
			t.Errorf("handled %v, want the new entry only", got)
		}
	})

	t.Run("12NoCodePathDestroysAGroup", func(t *testing.T) {
		t.Parallel()
		for _, word := range []string{"DESTROY", "FLUSH", "SETID"} {
			if where := sourceWith(t, word); where != "" {
				t.Errorf("%s in %s", word, where)
			}
		}
	})

	t.Run("13AStockClientSeesTheSameReceiptsAndItsAckSettlesTheSameGroup", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		id := r.add()
		release := make(chan struct{})
		c := r.start(each(func(context.Context, consumer.Message) consumer.Verdict {
			<-release
			return consumer.Ack()
		}))
		eventually(t, func() bool { return len(r.pending()) == 1 }, "the entry is pending")
		if got := r.pending()[0]; got.id != id || got.owner != "a" || got.attempts != 1 {
			t.Errorf("pending %+v", got)
		}
		if n, _ := r.do("XACK", r.stream, "g", id).AsInt64(); n != 1 {
			t.Errorf("a stock XACK settled %d", n)
		}
		close(release)
		eventually(t, func() bool { return c.Stats().AckedElsewhere == 1 }, "our own ack is counted")
	})

	t.Run("14AReclaimedEntryMayArriveAfterNewerOnes", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.group()
		old := r.add()
		r.readAs("dead", 1)
		newer := r.add()
		var s seen
		c := r.start(s.acking())
		eventually(t, func() bool { return s.len() == 1 }, "the newer one is handled")
		r.age([]string{old}, 2*time.Hour)
		r.settled(c, 2)
		if got := s.ids(); !slices.Equal(got, []string{newer, old}) {
			t.Errorf("order %v", got)
		}
	})

	t.Run("15StopReturnsAfterWhatIsInHandIsSettledOrHandedBack", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.addMany(10)
		begun, release := make(chan string, 10), make(chan struct{})
		c := r.start(held(t, begun, release), func(cfg *consumer.Config) { cfg.BatchSize = 1 })
		receive(t, begun)
		eventually(t, func() bool { return c.Stats().InFlight >= 2 }, "read ahead")
		ended := make(chan struct{})
		go func() { defer close(ended); c.stop() }()
		eventually(t, func() bool { return strings.Contains(r.logs.String(), "stopping") }, "the stop has begun")
		later := r.add()
		close(release)
		receive(t, ended)
		for _, p := range r.pending() {
			if p.attempts != 0 || p.idle < long || p.id == later {
				t.Errorf("left behind: %+v", p)
			}
		}
		if st := c.Stats(); st.Acked != 1 || st.HandedBack != int64(len(r.pending())) || st.HandedBack == 0 {
			t.Errorf("acked %d, handed back %d of %d", st.Acked, st.HandedBack, len(r.pending()))
		}
	})
}

// sourceWith names the first file of the package, tests aside, that holds a word in any case; "" if none does.
func sourceWith(t testing.TB, word string) string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			code, _, _ := strings.Cut(line, "//")
			if strings.Contains(strings.ToUpper(code), "XGROUP") && strings.Contains(strings.ToUpper(code), word) || strings.Contains(strings.ToUpper(code), "XGROUP"+word) {
				return f
			}
		}
	}
	return ""
}
