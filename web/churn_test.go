package web

import (
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/watch"
)

// TestConnectingAndClosingLeavesNothing: sockets that say goodbye or break, and event streams, come and go as
// fast as they can, as many as 30 a second are in two minutes, or a tenth of it. It counts goroutines and bytes, so it runs
// beside no other test.
func TestConnectingAndClosingLeavesNothing(t *testing.T) {
	const warm = 60
	m := newModel(acme)
	s := serve(t, m, func(c *Config) { c.Times.Linger = time.Millisecond })
	idle := runtime.NumGoroutine()
	come := func(n int) (heap int64) {
		for i := range n {
			s.comeAndGo(t, i)
		}
		eventually(t, "all connections are gone", func() bool { return s.open() == 0 })
		eventually(t, "the hub is gone", func() bool { return len(s.hubs.open()) == 0 })
		s.http.CloseClientConnections()
		eventually(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= idle+5 })
		runtime.GC()
		var after runtime.MemStats
		runtime.ReadMemStats(&after)
		return int64(after.HeapAlloc)
	}
	before := come(warm)
	grown := come(churn) - before
	t.Logf("the heap grew by %d bytes over %d connections", grown, churn)
	if grown > 1<<20 {
		t.Errorf("the heap grew by %d bytes over %d connections", grown, churn)
	}
}

// comeAndGo makes the n-th connection, has it answered and ends it.
func (s *site) comeAndGo(t *testing.T, n int) {
	t.Helper()
	if n%3 == 2 {
		answer, err := s.http.Client().Get(s.http.URL + "/v1/tenants/acme/games/g1/stream")
		if err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("got %d", answer.StatusCode)
		}
		if err := answer.Body.Close(); err != nil {
			t.Fatal(err)
		}
		return
	}
	conn, err := watch.Dial(t.Context(), s.liveURL("acme"))
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Subscribe(t.Context(), "g1", feed.Cursor{}, 0); err != nil {
		t.Fatal(err)
	}
	for f := (watch.Frame{}); f.T != "snap"; {
		if f, err = conn.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	end := conn.CloseNow
	if n%3 == 1 {
		end = conn.Close
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
}
