package render

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
)

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
