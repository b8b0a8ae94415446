package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

const ofGroup = "renderers"

// readers is the consumer of a test: what it was told to read.
type readers struct {
	mu      sync.Mutex
	streams map[string]bool
	joins   int
	joined  chan string // where set, each stream that is joined
}

func (r *readers) Join(streams ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range streams {
		r.streams[s] = true
		r.joins++
		if r.joined != nil {
			r.joined <- s
		}
	}
}

func (r *readers) Leave(streams ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range streams {
		delete(r.streams, s)
	}
}

func (r *readers) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.streams))
}

// knownTenants are the tenants of a test; err is what asking for them gives.
type knownTenants struct {
	ids []feed.TenantID
	err error
}

func (k *knownTenants) List(context.Context) ([]tenants.Tenant, error) {
	list := make([]tenants.Tenant, len(k.ids))
	for i, id := range k.ids {
		list[i].ID = id
	}
	return list, k.err
}

// standings are the statuses of the games of a test.
type standings struct {
	status map[feed.GameID]feed.Status
	err    error
}

func (s *standings) Statuses(_ context.Context, games []feed.GameKey) ([]feed.Status, error) {
	out := make([]feed.Status, len(games))
	for i, game := range games {
		out[i] = s.status[game.Game]
	}
	return out, s.err
}

// place is a Valkey of a test's own, and a Discovery over it.
type place struct {
	*Discovery
	t       testing.TB
	client  valkey.Client
	readers *readers
	tenants *knownTenants
	games   *standings
	log     bytes.Buffer
}

func newPlace(t testing.TB, adjust func(*DiscoveryConfig)) *place {
	t.Helper()
	return newPlaceAt(t, clientOf(t, serverstest.OwnValkey(t).URL), adjust)
}

func newPlaceAt(t testing.TB, client valkey.Client, adjust func(*DiscoveryConfig)) *place {
	t.Helper()
	p := &place{
		t: t, client: client,
		readers: &readers{streams: make(map[string]bool)},
		tenants: &knownTenants{ids: []feed.TenantID{"acme"}},
		games:   &standings{status: make(map[feed.GameID]feed.Status)},
	}
	cfg := DiscoveryConfig{
		Client: client, Group: ofGroup, Streams: p.readers, Tenants: p.tenants, Games: p.games,
		Logger: slog.New(slog.NewTextHandler(&p.log, nil)),
	}
	if adjust != nil {
		adjust(&cfg)
	}
	p.Discovery = NewDiscovery(cfg)
	return p
}

func clientOf(t testing.TB, url string) valkey.Client {
	t.Helper()
	options, err := valkey.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	options.DisableCache = true
	client, err := valkey.NewClient(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func (p *place) do(command ...string) {
	p.t.Helper()
	if err := p.client.Do(p.t.Context(), p.client.B().Arbitrary(command...).Build()).Error(); err != nil && !valkey.IsValkeyNil(err) {
		p.t.Fatalf("%v: %v", command, err)
	}
}

// add appends an entry, at once or some time ago.
func (p *place) add(key string, ago time.Duration) {
	p.t.Helper()
	p.do("XADD", key, fmt.Sprintf("%d-*", time.Now().Add(-ago).UnixMilli()), "kind", "notice")
}

// read reads a stream to its end, as the group does, and acknowledges.
func (p *place) read(key string) {
	p.t.Helper()
	if err := p.client.Do(p.t.Context(), p.client.B().Arbitrary("XGROUP", "CREATE", key, ofGroup, "0", "MKSTREAM").Build()).Error(); err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
		p.t.Fatal(err)
	}
	entries, err := p.client.Do(p.t.Context(), p.client.B().Xreadgroup().Group(ofGroup, "c").Streams().Key(key).Id(">").Build()).AsXRead()
	if err != nil && !valkey.IsValkeyNil(err) {
		p.t.Fatal(err)
	}
	for _, entry := range entries[key] {
		p.do("XACK", key, ofGroup, entry.ID)
	}
}

func (p *place) passes() {
	p.t.Helper()
	if err := p.Pass(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) wantRead(want ...string) {
	p.t.Helper()
	if diff := cmp.Diff(want, p.readers.list()); diff != "" {
		p.t.Error(diff)
	}
}

func (p *place) wantKeys(state string, want float64) {
	p.t.Helper()
	if got := testutil.ToFloat64(p.metrics.keys.WithLabelValues(state)); got != want {
		p.t.Errorf("%g keys are %s, want %g", got, state, want)
	}
}

// until waits for a condition.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for tick := time.NewTicker(5 * time.Millisecond); !holds(); {
		select {
		case <-deadline:
			t.Fatalf("not in 20 s: %s", what)
		case <-tick.C:
		}
	}
}

const (
	retryKey = "emq:{acme}:retry"
	g1, g2   = "emq:{acme}:stream:g1", "emq:{acme}:stream:g2"
)

func TestGamesAppearByThemselves(t *testing.T) {
	t.Parallel()

	t.Run("StreamsOfKnownTenantsAreJoinedAndTheirRetryStreams", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, nil)
		p.add(g1, 0)
		p.add("emq:{other}:stream:g1", 0)
		p.passes()
		p.wantRead(retryKey, g1)
		p.wantKeys("joined", 1)
		p.wantKeys("unknown_tenant", 1)

		p.tenants.ids = append(p.tenants.ids, "other")
		p.add(g2, 0)
		p.passes()
		p.wantRead(retryKey, g1, g2, "emq:{other}:retry", "emq:{other}:stream:g1")
		p.wantKeys("unknown_tenant", 0)
		if p.readers.joins != 5 {
			t.Errorf("%d joins of 5 streams", p.readers.joins)
		}
	})

	t.Run("TheStreamsOfATenantThatIsGoneAreLeft", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, nil)
		p.tenants.ids = []feed.TenantID{"acme", "other"}
		p.add(g1, 0)
		p.add("emq:{other}:stream:g1", 0)
		p.passes()
		p.tenants.ids = p.tenants.ids[1:]
		p.passes()
		p.wantRead("emq:{other}:retry", "emq:{other}:stream:g1")
	})

	t.Run("OtherKeysAreIgnoredAndCounted", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, nil)
		for _, key := range []string{
			"emq:{ACME}:stream:g1", "emq:{acme}:stream:g 1", "emq:{acme}:stream:", "emq:{}:stream:g1", "emq:{acme}:stream:a:b",
			"emq:{" + strings.Repeat("a", 41) + "}:stream:g1", "emq:{acme}:stream:" + strings.Repeat("g", 65),
		} {
			p.add(key, 0)
		}
		for _, key := range []string{"emq:{acme}:stream:g1:archived", "emq:{acme}:meta", "emq:acme:stream:g1", "{emq}:version", "other"} {
			p.do("SET", key, "1")
		}
		p.add("emq:{acme}:dead:g1", 0)
		p.passes()
		p.wantRead(retryKey)
		p.wantKeys("malformed", 7)
		p.wantKeys("wrong_type", 0)
	})

	t.Run("AKeyOfAnotherTypeIsNamedOnceAndTheOtherGamesGoOn", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, nil)
		p.do("SET", g1, "a string")
		p.add(g2, 0)
		p.passes()
		p.passes()
		p.wantRead(retryKey, g2)
		p.wantKeys("wrong_type", 1)
		if n := strings.Count(p.log.String(), g1); n != 1 || !strings.Contains(p.log.String(), "level=ERROR") {
			t.Errorf("named %d times:\n%s", n, &p.log)
		}
		p.do("DEL", g1)
		p.add(g1, 0)
		p.passes()
		p.wantRead(retryKey, g1, g2)
		p.wantKeys("wrong_type", 0)
	})

	t.Run("AKeyspaceFullOfThemDoesNotFillTheLog", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, nil)
		for i := range 200 {
			p.do("SET", fmt.Sprint("emq:{acme}:stream:s", i), "1")
		}
		p.passes()
		p.passes()
		p.wantKeys("wrong_type", 200)
		if n := strings.Count(p.log.String(), "\n"); n != maxNamed+1 {
			t.Errorf("%d lines in the log, want %d", n, maxNamed+1)
		}
	})

	t.Run("ManyPages", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, nil)
		want := []string{retryKey}
		for i := range 3 * pageKeys {
			want = append(want, fmt.Sprintf("emq:{acme}:stream:g%04d", i))
			p.add(want[len(want)-1], 0)
		}
		p.passes()
		p.wantRead(want...)
	})

	t.Run("AGameThatIsNamedIsJoinedAtOnce", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, func(cfg *DiscoveryConfig) { cfg.Pause = time.Hour })
		p.readers.joined = make(chan string, 100)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.Run(ctx) }()
		if key := <-p.readers.joined; key != retryKey {
			t.Errorf("joined %s", key)
		}
		until(t, "the first pass", func() bool { return testutil.ToFloat64(p.metrics.duration) > 0 })
		p.add(g1, 0)
		p.Look(feed.GameKey{Tenant: "acme", Game: "never"})
		p.Look(feed.GameKey{Tenant: "other", Game: "g1"})
		p.Look(feed.GameKey{Tenant: "acme", Game: "g1"})
		if key := <-p.readers.joined; key != g1 {
			t.Errorf("joined %s", key)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		p.wantRead(retryKey, g1)
		if n, err := p.client.Do(t.Context(), p.client.B().Exists().Key("emq:{acme}:stream:never").Build()).AsInt64(); n != 0 || err != nil {
			t.Errorf("naming a game made its stream (%v)", err)
		}
	})

	t.Run("LookingNeverWaits", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, nil)
		for range 2 * maxLooks {
			p.Look(feed.GameKey{Tenant: "acme", Game: "g1"})
		}
	})

	t.Run("WhileTenantsOrTheServerAreOutOfReachItIsSaidOnce", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, func(cfg *DiscoveryConfig) { cfg.Pause = time.Millisecond })
		p.readers.joined = make(chan string, 100)
		p.tenants.err = errors.New("no database")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.Run(ctx) }()
		until(t, "five failures", func() bool { return testutil.ToFloat64(p.metrics.failures) >= 5 })
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		p.tenants.err = nil
		p.add(g1, 0)
		p.report(t.Context(), p.Pass(t.Context()))
		p.wantRead(retryKey, g1)
		if got := strings.Count(p.log.String(), "\n"); got != 2 || strings.Count(p.log.String(), "no database") != 1 {
			t.Errorf("%d lines, want the first failure and the end of it:\n%s", got, &p.log)
		}
	})
}

func TestFinalGamesAreLeft(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	always := func(cfg *DiscoveryConfig) { cfg.IdleCheck = time.Nanosecond }
	soon := func(cfg *DiscoveryConfig) { cfg.IdleCheck, cfg.IdleAfter = time.Nanosecond, 20*time.Millisecond }

	t.Run("OneThatWasOverBeforeWeStartedIsNotEvenJoined", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, always)
		p.add(g1, hour)
		p.read(g1)
		p.games.status["g1"] = feed.StatusSettled
		p.passes()
		p.wantRead(retryKey)
		p.wantKeys("left", 1)

		p.add(g1, 0)
		p.passes()
		p.wantRead(retryKey, g1)
		p.wantKeys("left", 0)
	})

	t.Run("OneThatIsNamedSinceItHasGrownIsJoinedAtOnce", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, always)
		p.add(g1, hour)
		p.read(g1)
		p.games.status["g1"] = feed.StatusVoided
		p.passes()
		look := func() {
			if err := p.look(t.Context(), feed.GameKey{Tenant: "acme", Game: "g1"}); err != nil {
				t.Fatal(err)
			}
		}
		look()
		p.wantRead(retryKey)
		p.add(g1, 0)
		look()
		p.wantRead(retryKey, g1)
	})

	t.Run("WhatIsJoined", func(t *testing.T) {
		t.Parallel()
		for name, test := range map[string]struct {
			status feed.Status
			make   func(p *place)
		}{
			"WithoutAGroup":           {feed.StatusSettled, func(p *place) { p.add(g1, hour) }},
			"NotFinal":                {feed.StatusOpen, func(p *place) { p.add(g1, hour); p.read(g1) }},
			"OfNoStatus":              {feed.StatusUnknown, func(p *place) { p.add(g1, hour); p.read(g1) }},
			"WithEntriesNotDelivered": {feed.StatusSettled, func(p *place) { p.add(g1, hour); p.read(g1); p.add(g1, hour/2) }},
			"WithEntriesPending": {feed.StatusSettled, func(p *place) {
				p.add(g1, hour)
				p.read(g1)
				p.add(g1, hour/2)
				p.do("XREADGROUP", "GROUP", ofGroup, "c", "STREAMS", g1, ">")
			}},
			"NotSilentForLong": {feed.StatusSettled, func(p *place) { p.add(g1, time.Minute); p.read(g1) }},
			"AheadOfTheClock":  {feed.StatusSettled, func(p *place) { p.add(g1, -hour); p.read(g1) }},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t, always)
				test.make(p)
				p.games.status["g1"] = test.status
				p.passes()
				p.passes()
				p.wantRead(retryKey, g1)
			})
		}
	})

	t.Run("OneThatEndsWhileItIsReadIsLeftOnceItWasSilent", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, soon)
		p.add(g1, 2*hour)
		p.add(g2, 0)
		p.passes()
		p.wantRead(retryKey, g1, g2)
		p.read(g1)
		p.read(g2)
		p.games.status["g1"] = feed.StatusSettled
		p.games.status["g2"] = feed.StatusOpen
		until(t, "g1 is left", func() bool { p.passes(); return !slices.Contains(p.readers.list(), g1) })
		p.wantRead(retryKey, g2)

		p.add(g1, hour) // under an id of the past, above the top all the same
		p.passes()
		p.wantRead(retryKey, g1, g2)
		p.read(g1)
		until(t, "g1 is left again", func() bool { p.passes(); return !slices.Contains(p.readers.list(), g1) })
	})

	t.Run("OneWhoseEntriesBearOldIDsIsSilentByOurClockToo", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, always)
		p.add(g1, 2*hour)
		p.passes()
		p.games.status["g1"] = feed.StatusSettled
		p.read(g1)
		p.passes()
		p.wantRead(retryKey, g1)
	})

	t.Run("ADeletedStreamIsForgotten", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, always)
		p.add(g1, hour)
		p.read(g1)
		p.games.status["g1"] = feed.StatusSettled
		p.passes()
		p.do("DEL", g1)
		p.passes()
		p.wantKeys("left", 0)
		p.add(g1, 2*hour)
		p.passes()
		p.wantRead(retryKey, g1)
	})

	t.Run("WhereNobodyCanSayHowGamesStandAllAreRead", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, always)
		p.add(g1, hour)
		p.read(g1)
		p.games.err = errors.New("no database")
		if err := p.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "no database") {
			t.Errorf("got %v", err)
		}
		p.wantRead(retryKey, g1)
	})

	t.Run("NoneIfNobodyIsThereToSay", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, func(cfg *DiscoveryConfig) { always(cfg); cfg.Games = nil })
		p.add(g1, hour)
		p.read(g1)
		p.passes()
		p.wantRead(retryKey, g1)
	})
}

// A pass over 100 000 streams, to be done within 2 s: new ones, then the same when they are known, then left.
func BenchmarkPass100kStreams(b *testing.B) {
	p := newPlace(b, func(cfg *DiscoveryConfig) { cfg.IdleCheck = time.Hour })
	old := time.Now().Add(-time.Hour).UnixMilli()
	for page := range 100 {
		var commands []valkey.Completed
		for i := range 1000 {
			key := fmt.Sprintf("emq:{acme}:stream:g%06d", page*1000+i)
			commands = append(commands,
				p.client.B().Xadd().Key(key).Id(fmt.Sprint(old, "-1")).FieldValue().FieldValue("kind", "notice").Build(),
				p.client.B().Arbitrary("XGROUP", "CREATE", key, ofGroup, "$").Build())
		}
		for _, reply := range p.client.DoMulti(b.Context(), commands...) {
			if err := reply.Error(); err != nil {
				b.Fatal(err)
			}
		}
	}
	pass := func(b *testing.B, d *Discovery, want int) {
		b.Helper()
		if err := d.Pass(b.Context()); err != nil {
			b.Fatal(err)
		}
		if len(d.found) != want {
			b.Fatalf("found %d", len(d.found))
		}
	}
	b.Run("New", func(b *testing.B) {
		for b.Loop() {
			pass(b, NewDiscovery(p.cfg), 100_000)
		}
	})
	b.Run("Joined", func(b *testing.B) {
		d := NewDiscovery(p.cfg)
		pass(b, d, 100_000)
		for b.Loop() {
			pass(b, d, 100_000)
		}
	})
	b.Run("Left", func(b *testing.B) {
		for i := range 100_000 {
			p.games.status[feed.GameID(fmt.Sprintf("g%06d", i))] = feed.StatusSettled
		}
		d := NewDiscovery(p.cfg)
		pass(b, d, 100_000)
		for b.Loop() {
			pass(b, d, 100_000)
		}
	})
}
