package web

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
)

func TestHistories(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	look := func(after time.Duration, pending int64, reports ...Report) GroupHealth {
		h := pendingOf(pending, "acme")
		h.At, h.Reports = feed.Instant(start.Add(after)), reports
		return h
	}
	report := func(name string, started, settled int64, commit ...int64) Report {
		return Report{Name: name, Started: started, Bounds: []float64{.01, .1, 1}, Work: map[feed.TenantID]Work{"acme": {Settled: settled, Commit: commit}}}
	}
	number := func(f *float32) float64 {
		if f == nil {
			return math.NaN()
		}
		return float64(*f)
	}
	last := func(h *histories) sampleView {
		t.Helper()
		list, _ := h.after("acme", 0)
		if len(list) == 0 {
			t.Fatal("no samples")
		}
		return list[len(list)-1]
	}

	t.Run("KnowWhatWasDoneSinceTheSampleBefore", func(t *testing.T) {
		t.Parallel()
		h := newHistories(10 * time.Second)
		h.take(look(0, 4, report("a", 1, 1000, 0, 1000, 0, 0)))
		if s := last(h); s.Settled != nil || s.P50 != nil || s.Pending != 4 {
			t.Errorf("the first says %+v", s)
		}
		h.take(look(5*time.Second, 9, report("a", 1, 1500, 0, 1500, 0, 0))) // it is not time to
		h.take(look(10*time.Second, 0, report("a", 1, 2000, 0, 2000, 0, 0)))
		if s := last(h); number(s.Settled) != 100 || math.Abs(number(s.P50)-.055) > 1e-6 || number(s.P99) > .1 {
			t.Errorf("it says %+v: %v %v", s, number(s.Settled), number(s.P50))
		}
		// Nothing was done; then one that began since did all of its work since, and what took longest took as long as can be told.
		h.take(look(20*time.Second, 0, report("a", 1, 2000, 0, 2000, 0, 0)))
		if s := last(h); number(s.Settled) != 0 || s.P50 != nil {
			t.Errorf("at rest it says %+v", s)
		}
		h.take(look(30*time.Second, 0, report("a", 1, 2000, 0, 2000, 0, 0), report("b", 2, 50, 0, 0, 0, 50)))
		if s := last(h); number(s.Settled) != 5 || number(s.P99) != 1 {
			t.Errorf("of a new one it says %+v", s)
		}
		// A report that is late is not counted anew, one of another run under the same name is.
		h.take(look(40*time.Second, 0, report("b", 2, 50, 0, 0, 0, 50)))
		h.take(look(50*time.Second, 0, report("a", 1, 2010, 0, 2010, 0, 0), report("b", 3, 20, 20, 0, 0, 0)))
		if s := last(h); number(s.Settled) != 3 {
			t.Errorf("it says %v", number(s.Settled))
		}
	})

	t.Run("AreOfOneHourAndOfATenantAsLongAsItHasStreams", func(t *testing.T) {
		t.Parallel()
		h := newHistories(15 * time.Second)
		for i := range 1000 {
			h.take(look(time.Duration(i)*15*time.Second, int64(i)))
		}
		list, upTo := h.after("acme", 0)
		if len(list) != 241 || list[0].Pending != 759 || cap(h.tenants["acme"]) > 1000 {
			t.Errorf("%d samples from %v on, room for %d", len(list), list[0].Pending, cap(h.tenants["acme"]))
		}
		if more, _ := h.after("acme", upTo); len(more) != 0 {
			t.Errorf("%d more", len(more))
		}
		empty := GroupHealth{At: feed.Instant(start.Add(1000*15*time.Second + historyKept + time.Minute))}
		h.take(empty)
		if len(h.tenants) != 0 {
			t.Errorf("%d tenants are remembered", len(h.tenants))
		}
	})

	t.Run("AreOfSoManyTenantsAtMost", func(t *testing.T) {
		t.Parallel()
		h := newHistories(time.Second)
		names := make([]feed.TenantID, 0, 2*historyTenants)
		for i := range 2 * historyTenants {
			names = append(names, feed.TenantID(fmt.Sprintf("t%05d", i)))
		}
		all := pendingOf(1, names...)
		all.At = feed.Instant(start)
		h.take(all)
		if len(h.tenants) != historyTenants {
			t.Errorf("%d", len(h.tenants))
		}
	})
}
