package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

// kindsDir is a folder with one kind in one of its versions.
func kindsDir(t *testing.T, version int, text string) string {
	t.Helper()
	dir := t.TempDir()
	said := fmt.Sprintf("[kind.cheered]\nversion = %d\nline = \"opens\"\ntext = %q\nicon = \"megaphone\"\ntone = \"good\"\nshow = [\"player\"]\nvisibility = \"public\"\n", version, text)
	if err := os.WriteFile(filepath.Join(dir, "kinds.toml"), []byte(said), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestANewTextOfAKindReachesThoseWhoWatchOnce renders a tenant's lines anew while a renderer that knows the old text
// goes on.
func TestANewTextOfAKindReachesThoseWhoWatchOnce(t *testing.T) {
	t.Parallel()
	const tenant, n = feed.TenantID("anew"), 150
	s := newSystem(t, serverstest.Valkey(t))
	p := s.serve("render,web", "--tenants", string(tenant), "--kinds", kindsDir(t, 1, "{player} cheers")).ready()
	games := []feed.GameKey{{Tenant: tenant, Game: "g1"}, {Tenant: tenant, Game: "g2"}}
	cheer := func(game feed.GameKey, from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			s.xadd(game.Stream(), "kind", "cheered", "player", fmt.Sprint("p", i))
		}
	}
	members := make([]*counting, len(games))
	for i, game := range games {
		cheer(game, 0, n)
		s.settled(game)
		members[i] = s.counting(p, game)
	}

	newer := kindsDir(t, 2, "{player} cheers loudly")
	shown := parseCounts(t, s.run("rerender", string(tenant), "--kinds", newer, "--rate", "500")+"\n")
	if want := (counts{read: 2 * n, changed: 2 * n}); shown != want {
		t.Errorf("got %+v, want %+v", shown, want)
	}
	if again := parseCounts(t, s.run("rerender", games[0].String(), "--kinds", newer)+"\n"); again != (counts{}) {
		t.Errorf("again: %+v", again)
	}
	for i, game := range games {
		cheer(game, n, n+1)
		m := members[i]
		until(t, "the watcher holds the new texts and the line that came since", func() bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			loudly := 0
			for _, line := range m.lines {
				if strings.HasSuffix(line.Text, " loudly") {
					loudly++
				}
			}
			return loudly == 99 && m.lines[0].Text == fmt.Sprintf("p%d cheers", n) // it keeps a hundred
		})
		m.mu.Lock()
		if m.twice > 0 || m.snaps != 1 || m.sent != 100+n+1 {
			t.Errorf("%s: %d lines twice, %d snapshots, %d lines sent, want %d", game, m.twice, m.snaps, m.sent, 100+n+1)
		}
		m.mu.Unlock()
	}
}
