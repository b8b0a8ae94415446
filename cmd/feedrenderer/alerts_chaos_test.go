//go:build chaos

package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/timeline"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
	"github.com/codemojex/feedrenderer/migrations"
)

// The alerts whose faults are processes and servers that are away, or that wait for a window to pass. One system goes
// through all of it and ends well.
func TestAlertsOfServersAndProcessesFireOnTheirFaultsAndClearOnceMended(t *testing.T) {
	t.Parallel()
	valkey, postgres := serverstest.OwnValkey(t), serverstest.OwnPostgres(t)
	s := newSystem(t, valkey.URL)
	s.database = postgres.URL
	if err := migrations.Up(t.Context(), s.database); err != nil {
		t.Fatal(err)
	}
	m := startMonitor(t, s, 8)
	game := feed.GameKey{Tenant: "acme", Game: "g1"}
	serveWeb := func() *program {
		return m.serve("web", "--tenants", "acme", "--degraded-after", "3s")
	}
	serveRenderer := func() *program {
		return m.serve("render", "--tenants", "acme", "--min-idle", "1s")
	}
	site, renderer := serveWeb(), serveRenderer()
	s.notices(game, "before", 10)
	shown := 10

	// fault has alerts fire by a cause and clear by a mending.
	fault := func(name string, alerts []string, cause, mend func()) {
		t.Helper()
		begun := time.Now()
		cause()
		for _, alert := range alerts {
			m.fires(t, alert)
		}
		fired := time.Since(begun)
		begun = time.Now()
		mend()
		for _, alert := range alerts {
			m.clears(t, alert)
		}
		t.Logf("%s: %s after %v, cleared after %v", name, strings.Join(alerts, ", "), fired.Round(100*time.Millisecond), time.Since(begun).Round(100*time.Millisecond))
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	fault("nobody reads", []string{"FeedrendererEventsUnread/acme", "FeedrendererNoRenderer"}, func() {
		renderer.stop()
		s.notices(game, "unread", 10)
		shown += 10
	}, func() { renderer = serveRenderer() })

	fault("trimmed unread", []string{"FeedrendererEventsLost/acme"}, func() {
		renderer.stop()
		s.notices(game, "lost", 10)
		must(s.client.Do(t.Context(), s.client.B().Xtrim().Key(game.Stream()).Maxlen().Threshold("0").Build()).Error())
	}, func() {
		renderer = serveRenderer()
		s.notices(game, "after the loss", 10)
		shown += 10
	})

	fault("no web process", []string{"FeedrendererNoWeb"}, func() { site.stop() }, func() { site = serveWeb() })

	fault("valkey is gone", []string{"FeedrendererValkeyAway", "FeedrendererNoWeb"}, func() { must(valkey.Kill()) },
		func() { must(valkey.Restart(t.Context())) })

	fault("valkey is frozen", []string{"FeedrendererValkeyAway", "FeedrendererNoWeb"}, func() { must(valkey.Pause()) },
		func() { must(valkey.Resume()) })

	rule := func(rule string) {
		must(s.client.Do(t.Context(), s.client.B().AclSetuser().Username("default").Rule(rule).Build()).Error())
	}
	fault("valkey does not let itself be asked", []string{"FeedrendererValkeyAway"}, func() { rule("-scan") }, func() { rule("+scan") })

	fault("postgres is gone", []string{"FeedrendererPostgresAway", "FeedrendererRenderingPaused", "FeedrendererNoWeb"}, func() {
		must(postgres.Kill())
		s.notices(game, "while postgres is gone", 10)
		shown += 10
	}, func() { must(postgres.Restart(t.Context())) })

	// Somebody holds a lock, so that pings are answered and lines cannot be written. The runbook names who and ends it.
	owner := s.owner()
	lock, err := owner.Acquire(t.Context())
	must(err)
	defer lock.Release()
	fault("a lock is held", []string{"FeedrendererRenderingPaused"}, func() {
		for _, sql := range []string{`BEGIN`, `LOCK TABLE lines IN SHARE MODE`} {
			_, err := lock.Exec(t.Context(), sql)
			must(err)
		}
		s.notices(game, "while locked", 10)
		shown += 10
	}, func() {
		var ended int
		must(owner.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid = ANY (SELECT unnest(pg_blocking_pids(pid)) FROM pg_stat_activity)`).Scan(&ended))
		if ended != 1 {
			t.Errorf("%d sessions blocked others, want 1", ended)
		}
	})

	fault("a renderer is killed with its hands full", []string{"FeedrendererEventsPending/acme", "FeedrendererNoRenderer"}, func() {
		must(postgres.Pause())
		s.notices(game, "in hand", 10)
		shown += 10
		until(t, "they are in hand", func() bool { pending, _ := s.standing(game); return pending > 0 })
		renderer.signal(syscall.SIGKILL)
		must(postgres.Resume())
	}, func() { renderer = serveRenderer() })

	until(t, "every line is there", func() bool { return len(lines(t, timeline.NewReader(s.pool(timeline.RoleWeb)), game)) == shown })
	if left := m.firing(); len(left) > 0 {
		t.Errorf("all is well, and %v fire", left)
	}
}
