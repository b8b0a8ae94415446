package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
)

// queries are what the panels of the dashboard ask, as Grafana asks it with all tenants chosen.
func queries(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/grafana/dashboards/feedrenderer.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			out[panel.Title+" "+target.RefID] = strings.NewReplacer("$__rate_interval", fmt.Sprint(10*scrapeEvery), "$tenant", ".*").Replace(target.Expr)
		}
	}
	return out
}

// fillsTheDashboard checks that each query of the dashboard gives data, of a system in which a renderer and this web
// process run.
func (m *monitor) fillsTheDashboard(site *program, game feed.GameKey) {
	t, s := m.t, m.s
	t.Helper()
	// Nobody knows this tenant: its game is degraded.
	s.xadd("emq:{nobody}:stream:g1", "kind", "notice")
	s.notices(game, "first", 1)
	follow(t, site, game).sees(t, "first0")
	missing := queries(t)
	if len(missing) < 25 {
		t.Fatalf("the dashboard asks only %d things", len(missing))
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("without data: %s", strings.Join(slices.Sorted(maps.Keys(missing)), "; "))
		}
	})
	begun, round := time.Now(), 0
	until(t, "each query of the dashboard gives data", func() bool {
		round++
		s.notices(game, fmt.Sprint("round ", round, ", "), 1)
		get(t, gameURL(site, game))
		for name, query := range missing {
			if len(m.values(query)) > 0 {
				delete(missing, name)
			}
		}
		return len(missing) == 0
	})
	t.Logf("each query of the dashboard gives data, %v after the first line", time.Since(begun).Round(time.Millisecond))
}
