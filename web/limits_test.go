package web

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
)

// Each limit is hit, raised while everything runs, and then the same request passes.
func TestLimits(t *testing.T) {
	t.Parallel()
	set := func(c *customs, change tenants.LimitsChange) { c.change("open", tenants.Change{Limits: change}) }
	n := func(n int32) *int32 { return &n }
	const game = "/v1/tenants/open/games/g1"

	t.Run("OfRequests", func(t *testing.T) {
		t.Parallel()
		c := newCustoms(t, nil)
		set(c, tenants.LimitsChange{Requests: n(1)})
		eventually(t, "the limit is hit", func() bool {
			answer, body := c.ask(http.MethodGet, game, "", "")
			if answer.StatusCode == http.StatusTooManyRequests && (answer.Header.Get("Retry-After") != "1" || !strings.Contains(body, "requests a second")) {
				t.Errorf("got %v %s", answer.Header, body)
			}
			return answer.StatusCode == http.StatusTooManyRequests
		})
		_, key := c.key("acme", tenants.Watch)
		if answer, _ := c.ask(http.MethodGet, "/v1/tenants/acme/games/g1", key, ""); answer.StatusCode != http.StatusOK {
			t.Errorf("another tenant: %d", answer.StatusCode)
		}
		set(c, tenants.LimitsChange{Requests: n(0)})
		eventually(t, "many pass at once", func() bool {
			for range 20 {
				if answer, _ := c.ask(http.MethodGet, game, "", ""); answer.StatusCode != http.StatusOK {
					return false
				}
			}
			return true
		})
	})

	t.Run("OfSockets", func(t *testing.T) {
		t.Parallel()
		c := newCustoms(t, nil)
		set(c, tenants.LimitsChange{Sockets: n(1)})
		first := c.dial(t, "open")
		first.sub("g1", feed.Cursor{}, 0)
		equal(t, first.next().T, "snap")
		eventually(t, "the next one is sent away", func() bool {
			w := c.dial(t, "open")
			w.raw(`{"t":"ping"}`)
			f := w.next()
			if f.T == "pong" { // the limit is not known yet
				_ = w.conn.CloseNow()
				return false
			}
			if f.T != "bye" || f.After != comeBack.Milliseconds() {
				t.Errorf("got %+v", f)
			}
			equal(t, w.closed(), 4005)
			return true
		})
		if answer, _ := c.ask(http.MethodGet, game+"/stream", "", ""); answer.StatusCode != http.StatusTooManyRequests || answer.Header.Get("Retry-After") != "5" {
			t.Errorf("an event stream: %d %v", answer.StatusCode, answer.Header)
		}
		set(c, tenants.LimitsChange{Sockets: n(2)})
		eventually(t, "the same passes", func() bool {
			w := c.dial(t, "open")
			w.sub("g1", feed.Cursor{}, 0)
			return w.next().T == "snap"
		})
		first.raw(`{"t":"ping"}`)
		equal(t, first.next().T, "pong")
	})

	t.Run("OfSocketsCountTheOpenOnesAlone", func(t *testing.T) {
		t.Parallel()
		c := newCustoms(t, nil)
		for range 10 {
			w := c.dial(t, "open")
			w.sub("g1", feed.Cursor{}, 0)
			equal(t, w.next().T, "snap")
			_ = w.conn.CloseNow()
		}
		eventually(t, "none is counted any more", func() bool {
			c.limits.mu.Lock()
			defer c.limits.mu.Unlock()
			return c.limits.uses["open"].sockets == 0
		})
	})

	t.Run("OfJoins", func(t *testing.T) {
		t.Parallel()
		c := newCustoms(t, nil)
		set(c, tenants.LimitsChange{Joins: n(20)})
		eventually(t, "the limit is known", func() bool {
			_, may, err := c.limits.of(t.Context(), "open")
			return err == nil && may.Joins == 20
		})
		w := c.dial(t, "open")
		start := time.Now()
		for i := range 30 { // no more than its burst at once: the others wait their turn and pass
			w.sub(feed.GameID(text(i)[:4]+text(i)[5:]), feed.Cursor{}, 0)
		}
		for range 30 {
			equal(t, w.next().Code, errNotFound)
		}
		if took := time.Since(start); took < 400*time.Millisecond {
			t.Errorf("took %v", took)
		}
		set(c, tenants.LimitsChange{Joins: n(1)})
		eventually(t, "who would wait for long is sent away", func() bool {
			var crowd []*wire
			for range 12 {
				w := c.dial(t, "open")
				w.sub("none", feed.Cursor{}, 0)
				crowd = append(crowd, w)
			}
			for _, w := range crowd {
				if w.next().T == "bye" {
					equal(t, w.closed(), 4005)
					return true
				}
			}
			return false
		})
	})

	t.Run("OfEvents", func(t *testing.T) {
		t.Parallel()
		c := newCustoms(t, nil)
		_, key := c.key("open", tenants.Produce)
		send := func(body string) (int, string, http.Header) {
			answer, out := c.ask(http.MethodPost, game+"/events", key, body)
			return answer.StatusCode, out, answer.Header
		}
		three := `[` + strings.Repeat(`{"kind":"notice"},`, 2) + `{"kind":"notice"}]`
		set(c, tenants.LimitsChange{Events: n(2), EventBytes: n(40)})
		eventually(t, "a batch of more than a second's worth is too large", func() bool {
			status, out, _ := send(three)
			return status == http.StatusRequestEntityTooLarge && strings.Contains(out, "want at most 2")
		})
		eventually(t, "the limit is hit", func() bool {
			status, _, header := send(`{"kind":"notice"}`)
			return status == http.StatusTooManyRequests && header.Get("Retry-After") == "1"
		})
		if status, out, _ := send(`{"kind":"notice","text":"` + strings.Repeat("x", 40) + `"}`); status != http.StatusRequestEntityTooLarge || !strings.Contains(out, "of 40 bytes") {
			t.Errorf("a large one: %d %s", status, out)
		}
		set(c, tenants.LimitsChange{Events: n(100), EventBytes: n(0)})
		eventually(t, "the same passes", func() bool { status, _, _ := send(three); return status == http.StatusCreated })
	})

	t.Run("OfGames", func(t *testing.T) {
		t.Parallel()
		// the games of the model are not in the database
		c := newCustoms(t, func(config *Config) { config.Access = counted{config.Access} })
		_, key := c.key("acme", tenants.Produce)
		send := func(game string) int {
			answer, _ := c.ask(http.MethodPost, "/v1/tenants/acme/games/"+game+"/events", key, `{"kind":"notice"}`)
			return answer.StatusCode
		}
		c.change("acme", tenants.Change{Limits: tenants.LimitsChange{Games: n(2)}})
		eventually(t, "a third game is one too many", func() bool { return send("g3") == http.StatusTooManyRequests })
		equal(t, send("g1"), http.StatusCreated)
		c.change("acme", tenants.Change{Limits: tenants.LimitsChange{Games: n(3)}})
		eventually(t, "the same passes", func() bool { return send("g3") == http.StatusCreated })
	})
}

// counted says that there are two games.
type counted struct{ Access }

func (counted) CountGames(context.Context, feed.TenantID, int) (int, error) { return 2, nil }

// A seat is asked for by the reader of a socket and by the review at the same time, and given up in between.
func TestASeatIsTakenOnceAndLeftOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, newModel(acme), nil)
	for range 200 {
		w := newWatcher("acme", 1)
		var asking sync.WaitGroup
		for range 3 {
			asking.Go(func() {
				if err := s.greet(t.Context(), w, &caller{}, ""); err != nil {
					t.Error(err)
				}
			})
		}
		asking.Go(func() { s.unseat(w) })
		asking.Wait()
	}
	s.limits.mu.Lock()
	defer s.limits.mu.Unlock()
	if u, ok := s.limits.uses["acme"]; ok && u.sockets != 0 {
		t.Errorf("%d seats are taken by nobody", u.sockets)
	}
}
