package web

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/broadcast"
	"github.com/codemojex/feedrenderer/watch"
)

func TestSocket(t *testing.T) {
	t.Parallel()

	t.Run("AnUpgradeThatAcceptsGzipIsUpgraded", func(t *testing.T) {
		t.Parallel()
		s := serve(t, newModel(acme), nil)
		_, answer := s.upgrade(t, "Accept-Encoding", "gzip")
		if answer.StatusCode != http.StatusSwitchingProtocols || answer.Header.Get("Content-Encoding") != "" {
			t.Errorf("got %d, %v", answer.StatusCode, answer.Header)
		}
	})

	t.Run("CompressionIsNotNegotiated", func(t *testing.T) {
		t.Parallel()
		s := serve(t, newModel(acme), nil)
		_, answer := s.upgrade(t, "Sec-WebSocket-Extensions", "permessage-deflate")
		if answer.StatusCode != http.StatusSwitchingProtocols || answer.Header.Get("Sec-WebSocket-Extensions") != "" {
			t.Errorf("got %d, %v", answer.StatusCode, answer.Header)
		}
	})

	t.Run("ForeignOriginsAreRefusedAndTheConfiguredOnesPass", func(t *testing.T) {
		t.Parallel()
		s := serve(t, newModel(acme), func(c *Config) { c.Origins = []string{"https://app.example", "https://*.feeds.example"} })
		own := "http://" + s.http.Listener.Addr().String()
		for origin, want := range map[string]int{
			"https://evil.example":       http.StatusForbidden,
			"null":                       http.StatusForbidden,
			"http://127.0.0.1:1":         http.StatusForbidden,
			"https://app.example.evil":   http.StatusForbidden,
			"http://app.example":         http.StatusForbidden,
			"https://app.example:8443":   http.StatusForbidden,
			"https://feeds.example.evil": http.StatusForbidden,
			"https://app.example":        http.StatusSwitchingProtocols,
			"https://one.feeds.example":  http.StatusSwitchingProtocols,
			own:                          http.StatusSwitchingProtocols,
		} {
			if _, answer := s.upgrade(t, "Origin", origin); answer.StatusCode != want {
				t.Errorf("origin %s: got %d, want %d", origin, answer.StatusCode, want)
			}
		}
		for origin, want := range map[string]string{"https://evil.example": "", "null": "", "https://app.example": "https://app.example"} {
			answer, _ := s.get(t, "/v1/tenants/acme/games", "Origin", origin)
			if got := answer.Header.Get("Access-Control-Allow-Origin"); got != want {
				t.Errorf("origin %s is allowed to read as %q", origin, got)
			}
		}
	})

	t.Run("AMalformedNameIsNotUpgraded", func(t *testing.T) {
		t.Parallel()
		s := serve(t, newModel(acme), nil)
		answer, body := s.get(t, "/v1/tenants/Not%20One/live")
		if answer.StatusCode != http.StatusNotFound || !strings.Contains(body, "no such") {
			t.Errorf("got %d %s", answer.StatusCode, body)
		}
	})

	t.Run("FramesThatAreNotUnderstoodAreAnsweredAndTooManyOfThemClose", func(t *testing.T) {
		t.Parallel()
		w := serve(t, newModel(acme), nil).dial(t, "acme")
		bad := []string{``, `[]`, `{}`, `{"t":"dance"}`, `{"t":"sub","g":"g1","limit":501}`, `{"t":"sub","g":"g1","limit":-1}`, `{"t":"sub","g":7}`, `{"t":1}`, "\x00", `{"t":"sub"`}
		for _, frame := range bad {
			w.raw(frame)
			if f := w.next(); f.T != "err" || f.Code != errFrame || f.Msg == "" {
				t.Errorf("%q: got %+v", frame, f)
			}
		}
		w.raw(`once more`)
		equal(t, w.closed(), 4500)
	})

	t.Run("AnOversizedFrameAndABinaryOneClose", func(t *testing.T) {
		t.Parallel()
		s := serve(t, newModel(acme), nil)
		w := s.dial(t, "acme")
		w.raw(`{"t":"auth","token":"` + strings.Repeat("x", maxClientFrame) + `"}`)
		equal(t, w.closed(), 4501)
		conn, _ := s.upgrade(t)
		if err := conn.Write(t.Context(), websocket.MessageBinary, []byte{1}); err != nil {
			t.Fatal(err)
		}
		var err error
		for err == nil { // ticks may come before
			_, _, err = conn.Read(t.Context())
		}
		equal(t, watch.CloseCode(err), 4502)
	})

	t.Run("APingIsAnswered", func(t *testing.T) {
		t.Parallel()
		w := serve(t, newModel(acme), nil).dial(t, "acme")
		w.raw(`{"t":"ping"}`)
		equal(t, w.next(), watch.Frame{T: "pong"})
	})

	t.Run("OneSocketHoldsNoMoreGamesThanItMay", func(t *testing.T) {
		t.Parallel()
		m := newModel()
		w := serve(t, m, nil).dial(t, "acme")
		names := func(n int) feed.GameID { return feed.GameID(strings.Repeat("g", n%60+1) + text(n)[5:]) }
		for n := range maxGames + 1 {
			m.create(feed.GameKey{Tenant: "acme", Game: names(n)})
			w.sub(names(n), feed.Cursor{}, 1)
		}
		equal(t, w.until(func(f watch.Frame) bool { return f.T == "err" }).Code, errTooMany)
	})

	t.Run("ACancelledRequestOfTheSamePageLeavesTheSocketAlone", func(t *testing.T) {
		t.Parallel()
		m := newModel(acme)
		s := serve(t, m, nil)
		w := s.dial(t, "acme")
		w.sub("g1", feed.Cursor{}, 0)
		at := w.next()
		ctx, cancel := context.WithCancel(t.Context())
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.http.URL+"/v1/tenants/acme/games/g1/changes?wait=20s&since="+feed.Cursor{Epoch: at.Epoch, Ver: at.To}.String(), nil)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if answer, err := s.http.Client().Do(request); err == nil {
				answer.Body.Close()
				t.Error("the poll was answered")
			}
		}()
		eventually(t, "the poll waits", s.polled)
		cancel()
		<-ended
		eventually(t, "the poll has ended", func() bool { return !s.polled() })
		m.say(acme, evt(1), "still here")
		equal(t, texts(w.next().Lines), []string{"still here"})
	})

	t.Run("ASilentPeerIsFoundOut", func(t *testing.T) {
		t.Parallel()
		s := serve(t, newModel(acme), func(c *Config) { c.Times.Probe, c.Times.Write = 20*time.Millisecond, 50*time.Millisecond })
		conn, _ := s.upgrade(t) // it is not read, so no ping is answered
		eventually(t, "it is connected", func() bool { return s.open() == 1 })
		eventually(t, "it is closed", func() bool { return s.open() == 0 })
		_ = conn.CloseNow()
	})

	t.Run("OneThatWasLongSilentStillGetsPingsPongsAndItsCloseCode", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		const write = time.Second // what was written last has been long ago
		s := serve(t, newModel(acme), func(c *Config) { c.Times.Write, c.Times.Tick, c.Times.Probe = write, time.Hour, 3*write })
		pinged := make(chan struct{}, 10)
		conn, _, err := websocket.Dial(ctx, s.liveURL("acme"), &websocket.DialOptions{OnPingReceived: func(context.Context, []byte) bool { //nolint:bodyclose // the library closes it
			pinged <- struct{}{}
			return true
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.CloseNow() })
		if err := conn.Write(ctx, websocket.MessageText, []byte(`{"t":"ping"}`)); err != nil { // a flush answers
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			var err error
			for err == nil {
				_, _, err = conn.Read(ctx)
			}
			ended <- err
		}()
		<-time.After(2 * write)
		if err := conn.Ping(ctx); err != nil {
			t.Errorf("its ping is not answered: %v", err)
		}
		select {
		case <-pinged:
		case err := <-ended:
			t.Fatalf("it is not pinged: %v", err)
		}
		<-time.After(2 * write)
		if err := conn.Write(ctx, websocket.MessageBinary, []byte{1}); err != nil {
			t.Error(err)
		}
		if err := <-ended; watch.CloseCode(err) != 4502 {
			t.Errorf("it is closed by %v", err)
		}
	})

	// At a thirtieth of the minute that proxies allow.
	t.Run("AnIdleWatcherBehindAProxyThatCutsIsKeptAliveByTicks", func(t *testing.T) {
		t.Parallel()
		const cut = 2 * time.Second
		idle := func(t *testing.T, tick time.Duration) error {
			s := serve(t, newModel(acme), func(c *Config) { c.Times.Tick = tick })
			proxy := cuttingProxy(t, s.http.Listener.Addr().String(), cut)
			conn, err := watch.Dial(t.Context(), "ws://"+proxy+"/v1/tenants/acme/live")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.CloseNow() }()
			answer, err := http.Get("http://" + proxy + "/v1/tenants/acme/games/g1/stream")
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			stream := bufio.NewReader(answer.Body)
			for begun := time.Now(); time.Since(begun) < 2*cut; {
				if _, err := conn.Read(t.Context()); err != nil {
					return err
				}
				if _, err := stream.ReadString('\n'); err != nil {
					return err
				}
			}
			return nil
		}
		if err := idle(t, cut/10); err != nil {
			t.Error(err)
		}
		if idle(t, time.Hour) == nil {
			t.Error("the proxy cuts nobody")
		}
	})

	t.Run("TicksComeWithoutBeingAskedFor", func(t *testing.T) {
		t.Parallel()
		w := serve(t, newModel(acme), nil).dial(t, "acme")
		for range 3 {
			f := w.any()
			if _, err := time.Parse("2006-01-02T15:04:05.000Z", f.Now); f.T != "tick" || err != nil || f.Games == nil {
				t.Errorf("got %+v", f)
			}
		}
	})

	t.Run("WatchersOfOtherProcessesAreCountedForAWhile", func(t *testing.T) {
		t.Parallel()
		m := newModel(acme)
		s := serve(t, m, func(c *Config) { c.Times.Counts, c.Times.Tick = 100*time.Millisecond, 20*time.Millisecond })
		w := s.dial(t, "acme")
		w.sub("g1", feed.Cursor{}, 0)
		w.next()
		s.hubs.open()[0].Counted(broadcast.Count{Game: acme, Process: "other", Watchers: 41})
		watchers := func(n int) func(watch.Frame) bool {
			return func(f watch.Frame) bool { return f.T == "tick" && f.Games[0].Watchers == n }
		}
		w.until(watchers(42))
		w.until(watchers(1)) // later it is forgotten
		eventually(t, "our own count is told", func() bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			return len(m.told) == 1 && m.told[0].Watchers == 1
		})
	})
}

// cuttingProxy passes bytes on and cuts connections that carry none for a while. It gives its address.
func cuttingProxy(t *testing.T, to string, idle time.Duration) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var passing sync.WaitGroup
	var open sync.Map
	t.Cleanup(func() {
		_ = listener.Close()
		open.Range(func(conn, _ any) bool { return conn.(net.Conn).Close() != nil || true })
		passing.Wait()
	})
	passing.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			open.Store(in, true)
			open.Store(out, true)
			cut := time.AfterFunc(idle, func() { _, _ = in.Close(), out.Close() })
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				passing.Go(func() {
					buffer := make([]byte, 4096)
					for {
						n, err := pair[0].Read(buffer)
						if err == nil {
							cut.Reset(idle)
							_, err = pair[1].Write(buffer[:n])
						}
						if err != nil {
							_, _ = in.Close(), out.Close()
							return
						}
					}
				})
			}
		}
	})
	return listener.Addr().String()
}

// upgrade dials with headers of its own.
func (s *site) upgrade(t *testing.T, header ...string) (*websocket.Conn, *http.Response) {
	t.Helper()
	options := &websocket.DialOptions{HTTPHeader: http.Header{}}
	for i := 0; i < len(header); i += 2 {
		options.HTTPHeader.Set(header[i], header[i+1])
	}
	conn, answer, err := websocket.Dial(t.Context(), s.liveURL("acme"), options)
	if answer == nil {
		t.Fatal(err)
	}
	if conn != nil {
		t.Cleanup(func() { _ = conn.CloseNow() })
	}
	return conn, answer
}

func (s *site) open() int {
	s.outlets.mu.Lock()
	defer s.outlets.mu.Unlock()
	return len(s.outlets.open)
}

// polled reports whether a poll waits in a hub.
func (s *site) polled() bool {
	for _, h := range s.hubs.open() {
		h.mu.Lock()
		waits := h.moved != nil && h.users > 0
		h.mu.Unlock()
		if waits {
			return true
		}
	}
	return false
}

// metric sums a metric over its labels.
func (s *site) metric(t *testing.T, name string) float64 {
	t.Helper()
	families, err := s.config.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() == name {
			for _, metric := range family.GetMetric() {
				sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}
	return sum
}
