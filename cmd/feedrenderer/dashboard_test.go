package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
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

func TestEachQueryOfTheDashboardGivesData(t *testing.T) {
	t.Parallel()
	s := newSystem(t, serverstest.Valkey(t))
	m := startMonitor(t, s, 2)
	const tenant = feed.TenantID("charted")
	game := feed.GameKey{Tenant: tenant, Game: "g1"}
	// Nobody knows this tenant: its game is degraded.
	s.xadd("emq:{charted-by-nobody}:stream:g1", "kind", "notice")
	site := m.serve("web", "--tenants", string(tenant), "--degraded-after", "1s")
	m.serve("render", "--tenants", string(tenant))
	s.notices(game, "first", 1)
	w := follow(t, site, game)
	w.sees(t, "first0")

	missing := queries(t)
	if len(missing) < 25 {
		t.Fatalf("the dashboard asks only %d things", len(missing))
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("without data: %s", strings.Join(slices.Sorted(maps.Keys(missing)), "; "))
		}
	})
	round := 0
	until(t, "each query gives data", func() bool {
		round++
		s.notices(game, fmt.Sprint("round ", round, ", "), 5)
		get(t, gameURL(site, game))
		for name, query := range missing {
			if len(m.values(query)) > 0 {
				delete(missing, name)
			}
		}
		return len(missing) == 0
	})
}
