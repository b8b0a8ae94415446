//go:build chaos

package web

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/watch"
)

// TestHandOffAtLarge runs ten seeds, with few and many doorbells dropped, each with and without breaking the pub/sub
// connections every second.
func TestHandOffAtLarge(t *testing.T) {
	for seed := range uint64(10) {
		for _, drop := range []float64{0, 0.05, 0.3} {
			for _, kill := range []time.Duration{0, time.Second} {
				h := handOff{seed: 100 + seed, lines: 400, watchers: 200, drop: drop, kill: kill}
				t.Run(h.String(), h.run)
			}
		}
	}
}

// TestOneOfFiftyStopsReading compares, in runs that take turns, what the other 49 see with and without it.
func TestOneOfFiftyStopsReading(t *testing.T) {
	const pairs = 5
	var with, without []delays
	for range pairs {
		without = append(without, crowdOfFifty(t, false))
		with = append(with, crowdOfFifty(t, true))
	}
	median := func(runs []delays, of func(delays) time.Duration) time.Duration {
		all := make([]time.Duration, len(runs))
		for i, run := range runs {
			all[i] = of(run)
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	for name, figure := range map[string]struct {
		of   func(delays) time.Duration
		most float64
	}{
		"p50": {func(d delays) time.Duration { return d.quantile(0.5) }, 1.2},
		"p99": {func(d delays) time.Duration { return d.quantile(0.99) }, 2},
	} {
		a, b := median(without, figure.of), median(with, figure.of)
		t.Logf("%s of the 49: %v without one that stops reading, %v with it", name, a, b)
		if float64(b) > float64(a)*figure.most {
			t.Errorf("%s rises to %.2f times, at most %.1f", name, float64(b)/float64(a), figure.most)
		}
	}
}

type delays []time.Duration // sorted

func (d delays) quantile(q float64) time.Duration { return d[int(q*float64(len(d)-1))] }

// crowdOfFifty sends lines of 16 kB to 50 watchers and measures the way from commit to the 49 that read. Where the last
// stops reading, what waits for it must stay bounded, and it must end right when it reads again.
func crowdOfFifty(t *testing.T, stops bool) delays {
	t.Helper()
	const watchers, lines = 50, 1500
	m := newModel(acme)
	s := serve(t, m, nil)
	var mu sync.Mutex // guards all
	var all delays
	var reading sync.WaitGroup
	var last *wire
	var sent [lines + 1]time.Time
	var sending sync.RWMutex // guards sent
	for i := range watchers {
		w := s.dial(t, "acme")
		w.sub("g1", feed.Cursor{}, 0)
		w.next()
		if i == watchers-1 && stops {
			last = w
			continue
		}
		reading.Go(func() {
			var mine delays
			for at := int64(0); at < lines; {
				f, err := w.conn.Read(w.ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if f.T != "lines" {
					continue
				}
				now := time.Now()
				sending.RLock()
				for _, line := range f.Lines {
					mine = append(mine, now.Sub(sent[line.Ver]))
				}
				sending.RUnlock()
				at = f.To
			}
			mu.Lock()
			all = append(all, mine...)
			mu.Unlock()
		})
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	long := strings.Repeat("x", 16<<10)
	pace := time.NewTicker(4 * time.Millisecond)
	defer pace.Stop()
	for n := range lines {
		<-pace.C
		sending.Lock()
		sent[n+1] = time.Now()
		sending.Unlock()
		m.say(acme, evt(n%50), text(n)+long)
	}
	reading.Wait()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	if last != nil {
		state := watch.State{Game: "g1", Cursor: feed.Cursor{Epoch: "e1"}}
		for state.Cursor.Ver < lines {
			f, err := last.conn.Read(last.ctx)
			if err != nil {
				t.Fatal(err)
			}
			if state.Apply(f) {
				t.Fatalf("gap at %v", state.Cursor)
			}
		}
		m.mu.Lock()
		want, _ := m.games[acme].newest(maxLimit)
		m.mu.Unlock()
		if !slices.EqualFunc(state.Lines, want, sameLine) {
			t.Errorf("the one that stopped ends wrong, at %v", state.Cursor)
		}
	}
	slices.Sort(all)
	return all
}
