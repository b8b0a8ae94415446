package web

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
	"github.com/codemojex/feedrenderer/watch"
)

func (w *wire) auth(token string) {
	w.t.Helper()
	w.do(func(ctx context.Context) error { return w.conn.Authenticate(ctx, token) })
}

func TestSocketsOfAPrivateTenant(t *testing.T) {
	t.Parallel()
	c := newCustoms(t, nil)

	t.Run("OpenWithATokenInTheFirstFrame", func(t *testing.T) {
		t.Parallel()
		w := c.dial(t, "acme")
		w.auth(c.token("acme", time.Hour, "g1"))
		w.sub("g1", feed.Cursor{}, 0)
		equal(t, texts(w.next().Lines), []string{"of acme"})
		w.sub("g2", feed.Cursor{}, 0) // not a game of the token
		equal(t, w.next(), watch.Frame{T: "err", Code: errNotFound, Msg: msgNotFound, Game: "g2"})
		c.model.say(feed.GameKey{Tenant: "globex", Game: "g1"}, evt(2), "foreign")
		c.model.say(feed.GameKey{Tenant: "acme", Game: "g1"}, evt(3), "ours")
		equal(t, texts(w.next().Lines), []string{"ours"})
	})

	t.Run("OpenWithAKeyInTheHeader", func(t *testing.T) {
		t.Parallel()
		_, key := c.key("globex", tenants.Watch)
		conn, answer := c.upgrade(t, "Authorization", "Bearer "+key)
		equal(t, answer.StatusCode, http.StatusSwitchingProtocols)
		_ = conn.CloseNow()
		_, answer = c.upgrade(t, "Authorization", "Bearer nonsense")
		equal(t, answer.StatusCode, http.StatusUnauthorized)
	})

	t.Run("SayNothingToWhoIsNobodyOrForeignAsIfTheTenantWereUnknown", func(t *testing.T) {
		t.Parallel()
		_, foreign := c.key("initech", tenants.Operate)
		_, produce := c.key("acme", tenants.Produce)
		var refused []*wire
		for _, tenant := range []string{"acme", "nobody"} {
			for _, token := range []string{"", foreign, produce, c.token("initech", time.Hour)} {
				w := c.dial(t, tenant)
				if token != "" {
					w.auth(token)
				}
				w.sub("g1", feed.Cursor{Epoch: "e1", Ver: 0}, 0)
				refused = append(refused, w)
			}
		}
		for _, w := range refused {
			equal(t, w.next(), watch.Frame{T: "err", Code: errNotFound, Msg: msgNotFound, Game: "g1"})
			equal(t, w.closed(), 4503)
		}
	})

	t.Run("CloseForGoodOnACredentialThatIsBad", func(t *testing.T) {
		t.Parallel()
		for _, tenant := range []string{"acme", "open", "nobody"} {
			w := c.dial(t, tenant)
			w.auth("nonsense")
			equal(t, w.closed(), 4504)
		}
	})

	t.Run("EndSoonAfterTheirKeyIsRevoked", func(t *testing.T) {
		t.Parallel()
		key, text := c.key("acme", tenants.Watch)
		byKey, byToken := c.dial(t, "acme"), c.dial(t, "acme")
		byKey.auth(text)
		byToken.auth(c.tokenOf(key, time.Hour))
		for _, w := range []*wire{byKey, byToken} {
			w.sub("g1", feed.Cursor{}, 0)
			equal(t, w.next().T, "snap")
		}
		c.revoke(key)
		start := time.Now()
		equal(t, byKey.closed(), 4504)
		equal(t, byToken.closed(), 4504)
		if took := time.Since(start); took > revocation {
			t.Errorf("took %v", took)
		}
	})

	t.Run("EndWithTheirTokenUnlessItIsRenewed", func(t *testing.T) {
		t.Parallel()
		ends, renewed := c.dial(t, "globex"), c.dial(t, "globex")
		for _, w := range []*wire{ends, renewed} {
			w.auth(c.token("globex", 3*time.Second))
			w.sub("g1", feed.Cursor{}, 0)
			equal(t, w.next().T, "snap")
		}
		renewed.auth(c.token("globex", time.Hour))
		equal(t, ends.closed(), 4004)
		renewed.raw(`{"t":"ping"}`)
		renewed.until(func(f watch.Frame) bool { return f.T == "pong" }) // others make g1 move meanwhile
	})
}

func TestATenantThatIsSuspendedOrMadePrivateGoesDarkAtOnce(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for name, change := range map[string]tenants.Change{"suspended": {Suspended: &yes}, "private": {Public: &no}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCustoms(t, nil)
			w := c.dial(t, "open")
			w.sub("g1", feed.Cursor{}, 0)
			equal(t, w.next().T, "snap")
			polling := make(chan int, 1)
			go func() {
				answer, _ := c.ask(http.MethodGet, "/v1/tenants/open/games/g2/changes?since=e1:1&wait=3s", "", "")
				polling <- answer.StatusCode
			}()
			eventually(t, "the poll waits", c.polled)
			c.change("open", change)
			start := time.Now()
			f := w.until(func(f watch.Frame) bool { return f.T == "err" })
			if took := time.Since(start); took > revocation {
				t.Errorf("took %v", took)
			}
			if name == "private" {
				equal(t, f.Code, errNotFound)
				equal(t, w.closed(), 4503)
			} else {
				equal(t, f.Code, errDark)
			}
			answer, _ := c.ask(http.MethodGet, "/v1/tenants/open/games/g1", "", "")
			equal(t, answer.StatusCode, http.StatusNotFound)
			equal(t, <-polling, http.StatusNotFound) // it waited while that happened
		})
	}
}

func TestThatATenantIsSuspended(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	c := newCustoms(t, nil)
	token, other := c.token("acme", time.Hour, "g1"), c.token("globex", time.Hour)
	before := c.dial(t, "acme")
	before.auth(token)
	anyone := c.dial(t, "open")
	for _, w := range []*wire{before, anyone} {
		w.sub("g1", feed.Cursor{}, 0)
		equal(t, w.next().T, "snap")
	}
	for _, tenant := range []feed.TenantID{"acme", "open"} {
		c.change(tenant, tenants.Change{Suspended: &yes})
	}
	refused := func(t *testing.T, w *wire, game feed.GameID, code string) {
		t.Helper()
		w.sub(game, feed.Cursor{}, 0)
		f := w.until(func(f watch.Frame) bool { return f.T == "err" })
		if f.Code != code || f.Game != game {
			t.Errorf("told %+v, want %s of %s", f, code, game)
		}
	}

	t.Run("IsToldToThoseWhoWatchedUntilThen", func(t *testing.T) {
		for _, w := range []*wire{before, anyone} {
			equal(t, w.until(func(f watch.Frame) bool { return f.T == "err" }).Code, errDark)
			refused(t, w, "g1", errDark)
		}
	})
	t.Run("IsToldToOneWhoComesWithATokenForItsGamesAlone", func(t *testing.T) {
		w := c.dial(t, "acme")
		w.auth(token)
		refused(t, w, "g1", errDark)
		refused(t, w, "g2", errNotFound)
		if bye := w.until(func(f watch.Frame) bool { return f.T == "bye" }); bye.After == 0 || bye.Spread == 0 {
			t.Errorf("sent away with %+v", bye)
		}
		equal(t, w.closed(), 4006)
	})
	t.Run("IsToldToNobodyElse", func(t *testing.T) {
		foreign, nobody, visitor := c.dial(t, "acme"), c.dial(t, "acme"), c.dial(t, "open")
		foreign.auth(other)
		for _, w := range []*wire{foreign, nobody, visitor} {
			refused(t, w, "g1", errNotFound)
		}
		for _, w := range []*wire{foreign, nobody, visitor} {
			equal(t, w.closed(), 4503)
		}
	})
	t.Run("IsOverForThoseWhoWatchedWhenItIsServedAgain", func(t *testing.T) {
		for _, tenant := range []feed.TenantID{"acme", "open"} {
			c.change(tenant, tenants.Change{Suspended: &no})
		}
		for _, w := range []*wire{before, anyone} {
			for f := (watch.Frame{}); f.T != "snap"; {
				w.sub("g1", feed.Cursor{}, 0)
				f = w.until(func(f watch.Frame) bool { return f.T == "err" || f.T == "snap" })
			}
		}
	})
}

func TestNothingOfAForeignTenantIsToldByCursorsTagsOrCounts(t *testing.T) {
	t.Parallel()
	c := newCustoms(t, nil)
	_, ours := c.key("acme", tenants.Watch)
	_, theirs := c.key("globex", tenants.Watch)
	c.model.set(func(m *model) { m.games[feed.GameKey{Tenant: "globex", Game: "g1"}].epoch = "theirs" })

	answer, _ := c.ask(http.MethodGet, "/v1/tenants/globex/games/g1", theirs, "")
	tag := answer.Header.Get("ETag")
	if answer.StatusCode != http.StatusOK || tag == "" {
		t.Fatalf("got %d, %q", answer.StatusCode, tag)
	}
	if answer, _ = c.ask(http.MethodGet, "/v1/tenants/globex/games/g1", ours, "", "If-None-Match", tag); answer.StatusCode != http.StatusNotFound {
		t.Errorf("a foreign game with its tag: %d", answer.StatusCode)
	}
	if answer, _ = c.ask(http.MethodGet, "/v1/tenants/acme/games/g1", ours, "", "If-None-Match", tag); answer.StatusCode != http.StatusOK {
		t.Errorf("our game with a foreign tag: %d", answer.StatusCode)
	}
	if answer, _ = c.ask(http.MethodGet, "/v1/tenants/acme/games/g1/changes?since=theirs:1", ours, ""); answer.StatusCode != http.StatusGone {
		t.Errorf("our game with a foreign cursor: %d", answer.StatusCode)
	}
	if answer, _ = c.ask(http.MethodGet, "/v1/tenants/globex/games/g1/stream", ours, "", "Last-Event-ID", "theirs:1"); answer.StatusCode != http.StatusNotFound {
		t.Errorf("a foreign stream: %d", answer.StatusCode)
	}

	var crowd []*wire
	for range 3 {
		w := c.dial(t, "globex")
		w.auth(theirs)
		w.sub("g1", feed.Cursor{}, 0)
		equal(t, w.next().T, "snap")
		crowd = append(crowd, w)
	}
	w := c.dial(t, "acme")
	w.auth(ours)
	w.sub("g1", feed.Cursor{Epoch: "theirs", Ver: 1}, 0)
	equal(t, w.next().T, "reset")
	equal(t, texts(w.next().Lines), []string{"of acme"})
	tick := w.until(func(f watch.Frame) bool { return f.T == "tick" && len(f.Games) == 1 })
	equal(t, tick.Games[0].Watchers, 1)
	// Its first ticks may be of the time before the others came.
	tick = crowd[0].until(func(f watch.Frame) bool {
		return f.T == "tick" && len(f.Games) == 1 && f.Games[0].Watchers >= len(crowd)
	})
	equal(t, tick.Games[0].Watchers, 3)
}

func TestTheAddressOfThePeer(t *testing.T) {
	t.Parallel()
	// strike shows credentials that are nobody's until it is made to wait, or for a while.
	strike := func(c *customs, forward func(n int) string) int {
		for n := range 3 * strikesAtOnce {
			answer, _ := c.ask(http.MethodGet, "/v1/tenants/open/games", "nonsense", "", "X-Forwarded-For", forward(n))
			if answer.StatusCode == http.StatusTooManyRequests {
				equal(t, answer.Header.Get("Retry-After"), "1")
				return n
			}
		}
		return -1
	}
	forged := func(n int) string { return netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}).String() }

	t.Run("IsNotWhatAStrangerSays", func(t *testing.T) {
		t.Parallel()
		c := newCustoms(t, nil)
		c.limits.strikes = strikesAtOnce
		if n := strike(c, forged); n < strikesAtOnce {
			t.Errorf("was stopped after %d", n)
		}
		if said := c.log.String(); strings.Contains(said, "10.0.0.") || !strings.Contains(said, "peer=127.0.0.1") {
			t.Errorf("logged %s", said)
		}
	})
	t.Run("IsWhatATrustedProxySaysAndOnlyTheLastHop", func(t *testing.T) {
		t.Parallel()
		c := newCustoms(t, func(config *Config) { config.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} })
		c.limits.strikes = strikesAtOnce
		if n := strike(c, func(n int) string { return forged(n) + ", 192.0.2.7" }); n < strikesAtOnce {
			t.Errorf("was stopped after %d", n)
		}
		if answer, _ := c.ask(http.MethodGet, "/v1/tenants/open/games", "nonsense", "", "X-Forwarded-For", "192.0.2.8"); answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("another peer of the proxy: %d", answer.StatusCode)
		}
		if said := c.log.String(); !strings.Contains(said, "peer=192.0.2.7") {
			t.Errorf("logged %s", said)
		}
	})
	t.Run("IsNotWhatANeighbourOfAProxySays", func(t *testing.T) {
		t.Parallel()
		c := newCustoms(t, func(config *Config) { config.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")} })
		c.limits.strikes = strikesAtOnce
		if n := strike(c, forged); n < strikesAtOnce {
			t.Errorf("was stopped after %d", n)
		}
	})
}
