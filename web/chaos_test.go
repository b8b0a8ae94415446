//go:build chaos

package web

import (
	"net"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

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

// crowdOfFifty sends lines of 4 kB to 50 watchers and measures the way from commit to the 49 that read. Where the last
// stops reading, what waits for it must stay bounded, and it must end right when it reads again.
func crowdOfFifty(t *testing.T, stops bool) delays {
	t.Helper()
	const watchers, lines = 50, 1600
	m := newModel(acme)
	s := serve(t, m, func(c *Config) { c.Times.Write = time.Minute }) // longer than the one that stops takes
	var mu sync.Mutex                                                 // guards all
	var all delays
	var reading sync.WaitGroup
	var last *websocket.Conn
	var sent [lines + 1]atomic.Int64 // ns
	begun := time.Now()
	for i := range watchers {
		conn := narrow(t, s.liveURL("acme"))
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(`{"t":"sub","g":"g1","limit":50}`)); err != nil {
			t.Fatal(err)
		}
		if i == watchers-1 && stops {
			last = conn
			continue
		}
		reading.Go(func() {
			var mine delays
			for at := int64(0); at < lines; {
				_, data, err := conn.Read(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				now := time.Since(begun)
				if to, ok := reaches(data); ok {
					for ; at < to; at++ {
						mine = append(mine, now-time.Duration(sent[at+1].Load()))
					}
				}
			}
			mu.Lock()
			all = append(all, mine...)
			mu.Unlock()
		})
	}
	eventually(t, "all watch", func() bool { return s.watching(acme) == watchers })
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	long := strings.Repeat("x", 4<<10)
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for n := range lines {
		<-pace.C
		sent[n+1].Store(int64(time.Since(begun)))
		m.say(acme, evt(n%50), text(n)+long)
	}
	reading.Wait()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	if last != nil {
		if lags := s.metric(t, "feedrenderer_web_lags_total"); lags != 0 {
			t.Errorf("%v resumed before it read again", lags)
		}
		state := watch.State{Game: "g1"}
		for state.Cursor.Ver < lines {
			_, data, err := last.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			f, err := watch.ParseFrame(data)
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
		if lags := s.metric(t, "feedrenderer_web_lags_total"); lags != 1 {
			t.Errorf("it lagged %v times, want once", lags)
		}
	}
	slices.Sort(all)
	return all
}

// narrow dials with a small receive buffer, so that one who stops reading is noticed by the server soon.
func narrow(t *testing.T, url string) *websocket.Conn {
	t.Helper()
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 32<<10) })
	}}
	client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
	conn, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{HTTPClient: client}) //nolint:bodyclose // the library closes it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(-1)
	return conn
}

var toPattern = regexp.MustCompile(`^\{"t":"(?:snap|delta|lines)".{0,80}?"to":(\d+)`)

// reaches reads off a frame how far it goes, without decoding it.
func reaches(data []byte) (int64, bool) {
	found := toPattern.FindSubmatch(data)
	if found == nil {
		return 0, false
	}
	to, err := strconv.ParseInt(string(found[1]), 10, 64)
	return to, err == nil
}
