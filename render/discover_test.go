package render

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
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

	t.Run("InAClusterEveryPrimaryIsAskedAndNoReplica", func(t *testing.T) {
		t.Parallel()
		a, b, replica := serverstest.OwnValkey(t), serverstest.OwnValkey(t), serverstest.OwnValkey(t)
		nodes := make(map[string]valkey.Client)
		for _, server := range []string{a.URL, b.URL, replica.URL} {
			nodes[server] = clientOf(t, server)
		}
		p := newPlaceAt(t, clusterOf{nodes[a.URL], nodes}, nil)
		p.add(g1, 0)
		p.add("emq:{acme}:stream:", 0)
		p.client = nodes[b.URL]
		p.add("emq:{other}:stream:g1", 0)
		p.tenants.ids = append(p.tenants.ids, "other")
		p.client = nodes[replica.URL]
		p.add("emq:{acme}:stream:", 0)
		p.add(g2, 0)
		p.do("REPLICAOF", "127.0.0.1", "1") // of nobody who answers: it keeps what it has
		p.passes()
		p.wantRead(retryKey, g1, "emq:{other}:retry", "emq:{other}:stream:g1")
		p.wantKeys("malformed", 1)
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
