//go:build chaos

package web

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

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

// TestOneOfFiftyStopsReading compares what 49 see of the same lines while a fiftieth reads with what they see while it
// does not: in rounds, so that whatever else the machine does falls on both, and each line when all have the one before,
// for of more than the machine can deliver only the queue would be measured. What waits for the one that stops is bounded,
// and it ends right when it reads again.
func TestOneOfFiftyStopsReading(t *testing.T) {
	const rounds = 9
	c := newFifty(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var p50, p99 []float64
	for round := range rounds {
		var all [2]delays // without one that stops, and with it
		for turn := range 2 {
			with := (round + turn) % 2
			all[with] = c.phase(with == 1)
		}
		p50 = append(p50, all[0].ratio(all[1], 0.5))
		p99 = append(p99, all[0].ratio(all[1], 0.99))
		t.Logf("round %d: p50 %v, with the one that stopped %v; p99 %v and %v", round,
			all[0].quantile(0.5), all[1].quantile(0.5), all[0].quantile(0.99), all[1].quantile(0.99))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	grown := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	slices.Sort(p50)
	slices.Sort(p99)
	t.Logf("what 49 see beside one that stops reading, to what they see without: p50 %.2f, p99 %.2f; the heap grew by %d KiB", p50[rounds/2], p99[rounds/2], grown>>10)
	if p50[rounds/2] > 1.2 {
		t.Errorf("p50 rises to %.2f times, at most 1.2", p50[rounds/2])
	}
	if p99[rounds/2] > 2 {
		t.Errorf("p99 rises to %.2f times, at most 2", p99[rounds/2])
	}
	if grown > 8<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
}

type delays []time.Duration // sorted

func (d delays) quantile(q float64) time.Duration { return d[int(q*float64(len(d)-1))] }

func (d delays) ratio(other delays, q float64) float64 {
	return float64(other.quantile(q)) / float64(d.quantile(q))
}

// fifty is a server with 49 who read, and place for one more.
type fifty struct {
	t     *testing.T
	m     *model
	s     *site
	url   string
	begun time.Time
	n     int         // lines so far, which is the version
	lines []fiftyLine // by version
}

// fiftyLine is when a line was committed and when each of the 49 had it, since the beginning.
type fiftyLine struct {
	sent time.Duration
	mu   sync.Mutex // guards what follows
	came delays
	all  chan struct{} // closed when all have it
}

const (
	fiftyReaders = 49
	fiftyLines   = 120     // of a phase
	fiftyBytes   = 6 << 10 // of a line
	fiftyMost    = 4_000
)

func newFifty(t *testing.T) *fifty {
	t.Helper()
	c := &fifty{t: t, m: newModel(acme), begun: time.Now(), lines: make([]fiftyLine, fiftyMost)}
	for i := range c.lines {
		c.lines[i].all = make(chan struct{})
	}
	c.s = serve(t, c.m, func(c *Config) { c.QueueBytes, c.Times.Write = 128<<10, time.Minute }) // longer than one stops
	server := httptest.NewUnstartedServer(c.s.Public())
	server.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if err := conn.(*net.TCPConn).SetWriteBuffer(64 << 10); err != nil {
			t.Error(err)
		}
		return ctx
	}
	server.Start()
	c.url = "ws" + strings.TrimPrefix(server.URL, "http") + "/v1/tenants/acme/live"
	var reading sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() {
		stop()
		reading.Wait()
		server.Close()
	})
	for range fiftyReaders {
		conn := c.watch()
		reading.Go(func() { c.read(ctx, conn) })
	}
	c.say(fiftyLines) // warm
	return c
}

// watch connects with a small receive buffer, so that one who stops reading is noticed by the server soon.
func (c *fifty) watch() *websocket.Conn {
	c.t.Helper()
	conn := narrow(c.t, c.url)
	if err := conn.Write(c.t.Context(), websocket.MessageText, []byte(`{"t":"sub","g":"g1","limit":50}`)); err != nil {
		c.t.Fatal(err)
	}
	_, data, err := conn.Read(c.t.Context())
	for err == nil && !strings.HasPrefix(string(data), `{"t":"snap"`) {
		_, data, err = conn.Read(c.t.Context())
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return conn
}

// read notes when each line comes, until the context ends.
func (c *fifty) read(ctx context.Context, conn *websocket.Conn) {
	for at := int64(0); ; {
		_, data, err := conn.Read(ctx)
		if err != nil {
			if ctx.Err() == nil {
				c.t.Error(err)
			}
			return
		}
		now := time.Since(c.begun)
		to, _ := reaches(data)
		for ; at < to; at++ {
			line := &c.lines[at+1]
			line.mu.Lock()
			line.came = append(line.came, now-line.sent)
			if len(line.came) == fiftyReaders {
				close(line.all)
			}
			line.mu.Unlock()
		}
	}
}

// say commits lines, each when all have the one before.
func (c *fifty) say(lines int) {
	c.t.Helper()
	long := strings.Repeat("x", fiftyBytes)
	for range lines {
		c.n++
		line := &c.lines[c.n]
		line.mu.Lock()
		line.sent = time.Since(c.begun)
		line.mu.Unlock()
		c.m.say(acme, evt(c.n%50), text(c.n)+long)
		select {
		case <-line.all:
		case <-time.After(patience):
			c.t.Fatal("a line does not come to all")
		}
	}
}

// phase lets a fiftieth watch and, where it stops, read only after all has been sent.
func (c *fifty) phase(stops bool) delays {
	c.t.Helper()
	from := c.n
	last := c.watch()
	lags := c.s.metric(c.t, "feedrenderer_web_lags_total")
	state := watch.State{Game: "g1"}
	var reading sync.WaitGroup
	read := func() {
		for state.Cursor.Ver < int64(from+fiftyLines) {
			_, data, err := last.Read(c.t.Context())
			if err != nil {
				c.t.Errorf("the fiftieth, at %v: %v", state.Cursor, err)
				return
			}
			f, err := watch.ParseFrame(data)
			if err == nil && f.T != "tick" && state.Cursor.Ver == 0 { // its snapshot was read to see that it watches
				state.Cursor = feed.Cursor{Epoch: f.Epoch, Ver: int64(from)}
			}
			if err != nil || state.Apply(f) {
				c.t.Errorf("the fiftieth, at %v: gap or %v", state.Cursor, err)
				return
			}
		}
	}
	if !stops {
		reading.Go(read)
	}
	c.say(fiftyLines)
	if stops {
		read()
	}
	reading.Wait()
	want := float64(0)
	if stops {
		want = 1
	}
	if lagged := c.s.metric(c.t, "feedrenderer_web_lags_total") - lags; lagged != want {
		c.t.Errorf("the fiftieth lagged %v times, want %v", lagged, want)
	}
	c.m.mu.Lock()
	held, _ := c.m.games[acme].newest(maxLimit)
	c.m.mu.Unlock()
	if !slices.EqualFunc(state.Lines, held, sameLine) { // each line was said anew in this phase
		c.t.Errorf("the fiftieth ends wrong, at %v", state.Cursor)
	}
	if err := last.CloseNow(); err != nil {
		c.t.Error(err)
	}
	eventually(c.t, "it has gone", func() bool { return c.s.open() == fiftyReaders })
	var all delays
	for i := from + 1; i <= c.n; i++ {
		all = append(all, c.lines[i].came...)
		c.lines[i].came = nil
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
