package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/watch"
)

func TestDrain(t *testing.T) {
	t.Parallel()

	t.Run("AllWatchersResumeElsewhereAndLoseNoLine", func(t *testing.T) {
		t.Parallel()
		const watchers, window = 50, 2 * time.Second
		m := newModel(acme)
		leaving, staying := serve(t, m, func(c *Config) { c.Times.Spread = window }), serve(t, m, nil)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var mu sync.Mutex
		returns := []time.Time{}
		reached := map[int]int64{}
		var clients sync.WaitGroup
		for i := range watchers {
			client := watch.New(watch.Config{
				URLs:  []string{leaving.liveURL("acme"), staying.liveURL("acme")},
				Games: []watch.Game{{ID: "g1"}},
				OnFrame: func(state *watch.State, f watch.Frame) {
					mu.Lock()
					defer mu.Unlock()
					reached[i] = state.Cursor.Ver
					if int64(len(state.Lines)) != state.Cursor.Ver {
						t.Errorf("%d lines at version %d", len(state.Lines), state.Cursor.Ver)
					}
				},
				OnLost: func(_ error, wait time.Duration) {
					mu.Lock()
					defer mu.Unlock()
					returns = append(returns, time.Now().Add(wait))
				},
			})
			clients.Go(func() {
				if err := client.Run(ctx); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		all := func(ver int64) func() bool {
			return func() bool {
				mu.Lock()
				defer mu.Unlock()
				n := 0
				for _, at := range reached {
					if at >= ver {
						n++
					}
				}
				return n == watchers
			}
		}
		m.say(acme, evt(1), "before")
		eventually(t, "all are live", all(1))
		draining, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		drained := make(chan error, 1)
		start := time.Now()
		go func() { drained <- leaving.Drain(draining) }()
		for n := range 50 {
			m.say(acme, evt(2+n), text(n))
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
		eventually(t, "all have everything", all(51))
		eventually(t, "all are on the other", func() bool { return staying.open() == watchers })
		stop()
		clients.Wait()
		tenths := [10]int{}
		for _, at := range returns {
			tenths[min(9, int(at.Sub(start)*10/window))]++
		}
		t.Logf("returned in each tenth of the window: %v", tenths)
		if first := tenths[0] + tenths[1] + tenths[2]; first > watchers*2/3 {
			t.Errorf("%d of %d came back in the first third of the window", first, watchers)
		}
	})

	t.Run("ReadinessGoesAndNoNewWatchersAreTaken", func(t *testing.T) {
		t.Parallel()
		s := serve(t, newModel(acme), nil)
		answer, _ := s.get(t, "/readyz")
		equal(t, answer.StatusCode, http.StatusOK)
		if err := s.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		answer, body := s.get(t, "/readyz")
		if answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, `"draining":true`) {
			t.Errorf("got %d %s", answer.StatusCode, body)
		}
		for _, path := range []string{"/v1/tenants/acme/live", "/v1/tenants/acme/games/g1/stream"} {
			answer, _ = s.get(t, path)
			equal(t, answer.StatusCode, http.StatusServiceUnavailable)
			equal(t, answer.Header.Get("Retry-After"), "1")
		}
		answer, _ = s.get(t, "/v1/tenants/acme/games/g1")
		equal(t, answer.StatusCode, http.StatusOK)
	})

	t.Run("EachIsToldAndGivenACodeThatSaysComeBack", func(t *testing.T) {
		t.Parallel()
		s := serve(t, newModel(acme), nil)
		w := s.dial(t, "acme")
		w.raw(`{"t":"ping"}`)
		w.next()
		drained := make(chan error, 1)
		go func() { drained <- s.Drain(t.Context()) }()
		bye := w.next()
		equal(t, bye, watch.Frame{T: "bye", Spread: 100})
		if code := w.closed(); code != int(closeDraining.code) || code >= 4500 {
			t.Errorf("closed with %d", code)
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})

	t.Run("OnesThatNeverAnswerAreToldAndDoNotOutlastTheGrace", func(t *testing.T) {
		t.Parallel()
		const silent = 200
		s := serve(t, newModel(acme), func(config *Config) { config.Times.Probe = time.Hour }) // none is found dead
		var all []*wire
		for range silent {
			all = append(all, s.dial(t, "acme")) // nobody reads, so no close is answered
		}
		eventually(t, "all are connected", func() bool { return s.open() == silent })
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := s.Drain(ctx); err != nil {
			t.Error(err)
		}
		for _, w := range all {
			equal(t, w.closed(), int(closeDraining.code))
		}
	})

	t.Run("OnesThatAreLeftAtTheEndOfTheGraceAreBrokenAndCounted", func(t *testing.T) {
		t.Parallel()
		s := serve(t, newModel(acme), nil)
		s.dial(t, "acme")
		eventually(t, "it is connected", func() bool { return s.open() == 1 })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Drain(ctx); err == nil || !strings.Contains(err.Error(), "1 watchers") {
			t.Errorf("the drain says %v", err)
		}
		eventually(t, "it is gone", func() bool { return s.open() == 0 })
	})

	t.Run("APollIsAnsweredAtOnce", func(t *testing.T) {
		t.Parallel()
		s := serve(t, newModel(acme), nil)
		answered := make(chan int, 1)
		go func() {
			answer, _ := s.get(t, "/v1/tenants/acme/games/g1/changes?wait=25s&since=e1:0")
			answered <- answer.StatusCode
		}()
		eventually(t, "the poll waits", s.polled)
		if err := s.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		equal(t, <-answered, http.StatusOK)
	})
}

func TestOutage(t *testing.T) {
	t.Parallel()
	m := newModel(acme)
	var said lineCounter
	s := serve(t, m, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&said, nil)) })
	w := s.dial(t, "acme")
	w.sub("g1", feed.Cursor{}, 0)
	w.next()
	m.set(func(m *model) { m.fail, m.drop = fmt.Errorf("the store is down: %w", context.DeadlineExceeded), 1 })
	m.say(acme, evt(1), "meanwhile")
	late := s.dial(t, "acme")
	late.sub("g1", feed.Cursor{Epoch: "e0", Ver: 5}, 0)
	before := m.count("heads")
	eventually(t, "the sweep keeps trying", func() bool { return m.count("heads") > before+3 })
	for range 20 {
		s.get(t, "/v1/tenants/acme/games/g1")
	}
	m.set(func(m *model) { m.fail, m.drop = nil, 0 })
	equal(t, texts(w.next().Lines), []string{"meanwhile"})
	equal(t, late.next().T, "reset")
	equal(t, texts(late.next().Lines), []string{"meanwhile"})
	if n := said.count(); n == 0 || n > 4 {
		t.Errorf("%d lines are logged", n)
	}
}

// lineCounter counts lines.
type lineCounter struct {
	mu sync.Mutex
	n  int
}

func (l *lineCounter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	return len(b), nil
}

func (l *lineCounter) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}
