package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
	"github.com/codemojex/feedrenderer/migrations"
)

// TestARestoredDumpIsOneResetAndReplayBringsTheRest restores a dump into place while a web process and its watchers go on.
func TestARestoredDumpIsOneResetAndReplayBringsTheRest(t *testing.T) {
	t.Parallel()
	const tenant, before, after = feed.TenantID("restored"), 300, 200
	postgres := serverstest.OwnPostgres(t)
	s := newSystem(t, serverstest.Valkey(t))
	s.database = postgres.URL
	if err := migrations.Up(t.Context(), s.database); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"--tenants", string(tenant)}
	renderer, web := s.serve("render", arguments...).ready(), s.serve("web", arguments...).ready()
	game := feed.GameKey{Tenant: tenant, Game: "g1"}
	ids := s.appendMany(game, before)
	s.settled(game)
	members := make([]*counting, 10)
	for i := range members {
		members[i] = s.counting(web, game)
	}

	dump := filepath.Join(t.TempDir(), "dump")
	if said, err := postgresTool(t, "pg_dump", "--format=custom", "--file="+dump, s.database); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	ids = append(ids, s.appendMany(game, after)...) // settled, and then lost of the table
	s.settled(game)
	last := map[feed.ID]bool{ids[len(ids)-1]: true}
	for _, m := range members {
		until(t, "a watcher has what came after the dump", func() bool { return m.has(last) })
	}

	renderer.stop()
	begun := time.Now()
	until(t, "the dump is restored", func() bool {
		said, err := postgresTool(t, "pg_restore", "--clean", "--if-exists", "--single-transaction", "--dbname="+s.database, dump)
		if err != nil && !strings.Contains(said, "deadlock detected") {
			t.Fatalf("%v: %s", err, said)
		}
		return err == nil // a deadlock changed nothing: it is run again
	})
	took := time.Since(begun)
	for i, m := range members {
		until(t, "a watcher begins anew", func() bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.snaps > 1
		})
		m.mu.Lock()
		if held := m.lines; len(held) != 100 || held[0].Evt != ids[before-1] {
			t.Errorf("watcher %d holds %d lines, the newest %s, want %s", i, len(held), held[0].Evt, ids[before-1])
		}
		m.held, m.twice = map[feed.ID]int64{}, 0 // the snapshot is of another epoch
		m.mu.Unlock()
	}
	t.Logf("restored in %v; all watchers began anew within %v", took, time.Since(begun))

	s.serve("render", arguments...).ready()
	said := parseCounts(t, s.run("replay", game.String(), "--from", ids[before-1].String())+"\n")
	if want := (counts{read: after + 1, changed: after, same: 1}); said != want {
		t.Errorf("the replay says %+v, want %+v", said, want)
	}
	table := lines(t, s.reader(), game)
	var got []feed.ID
	for _, line := range table {
		got = append(got, line.Evt)
	}
	slices.Reverse(got)
	if !slices.Equal(got, ids) {
		t.Errorf("%d lines in the table, want %d", len(got), len(ids))
	}
	for i, m := range members {
		until(t, "a watcher has what the replay brought", func() bool { return m.has(last) })
		m.mu.Lock()
		if m.twice > 0 || m.snaps != 2 {
			t.Errorf("watcher %d: %d lines twice, %d snapshots, want the first and one more", i, m.twice, m.snaps)
		}
		m.mu.Unlock()
	}
	web.ready()
}

// postgresTool runs a program that comes with the newest Postgres there is, and gives what it said.
func postgresTool(t *testing.T, name string, arguments ...string) (said string, err error) {
	t.Helper()
	if found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name); err == nil && len(found) > 0 {
		name = found[len(found)-1]
	}
	cmd := exec.CommandContext(t.Context(), name, arguments...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
