package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

// configure changes a setting of the server of the streams.
func (s *system) configure(name, value string) {
	s.t.Helper()
	if err := s.client.Do(s.t.Context(), s.client.B().ConfigSet().ParameterValue().ParameterValue(name, value).Build()).Error(); err != nil {
		s.t.Fatal(err)
	}
}

// metrics is what a process shows to Prometheus.
func (p *program) metrics() string {
	p.t.Helper()
	var text string
	until(p.t, "a process shows its metrics", func() bool {
		status, body := get(p.t, "http://"+p.private+"/metrics")
		text = body
		return status == 200
	})
	return text
}

// checkMetrics has promtool look at what a process shows.
func checkMetrics(t *testing.T, text string) {
	t.Helper()
	cmd := exec.Command("promtool", "check", "metrics")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// A real Prometheus with the shipped rules and the dashboard's queries. Here are the alerts that need no server to be away;
// the others, which take longer, are in the heavy form of the tests.
func TestAlertsFireOnTheirFaultsAndClearOnceMendedAndTheDashboardHasData(t *testing.T) {
	t.Parallel()
	s := newSystem(t, serverstest.OwnValkey(t).URL)
	m := startMonitor(t, s, 2)
	game := feed.GameKey{Tenant: "acme", Game: "g1"}

	// Read by processes long gone, never settled, and nobody runs.
	site := m.serve("web", "--tenants", "acme", "--degraded-after", "3s")
	s.orphans(game, 952, 17)
	left := time.Now()
	since := m.fires(t, "FeedrendererEventsPending/acme")
	t.Logf("952 orphans, long past the threshold, scraped every %v: fires after %v", scrapeEvery, since.Sub(left).Round(time.Millisecond))
	m.fires(t, "FeedrendererNoRenderer")
	text := site.metrics()
	for _, want := range []string{
		`feedrenderer_group_pending_entries{tenant="acme"} 952`, `feedrenderer_group_consumers{state="dead",tenant="acme"} 17`,
		`feedrenderer_group_degraded_pending_entries{game="g1",tenant="acme"} 952`, `feedrenderer_group_replicas{state="alive"} 0`,
		`feedrenderer_group_lag_entries{tenant="acme"} 0`, `feedrenderer_ready{role="web"} 1`, `feedrenderer_check_ok{check="postgres"} 1`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("%s is not among the metrics", want)
		}
	}
	if table := s.run("status"); !strings.Contains(table, "acme/g1  DEGRADED  952 ") {
		t.Errorf("status says\n%s", table)
	}
	checkMetrics(t, text)

	renderer := m.serve("render", "--tenants", "acme", "--min-idle", "1s")
	t.Logf("cleared %v after a renderer was ready", m.clears(t, "FeedrendererEventsPending/acme").Round(time.Millisecond))
	m.clears(t, "FeedrendererNoRenderer")
	if n := len(lines(t, s.reader(), game)); n != 952 {
		t.Errorf("%d lines of 952", n)
	}
	checkMetrics(t, renderer.metrics())

	s.xadd(game.Stream(), "kind", "corrected") // of nothing
	m.fires(t, "FeedrendererDeadLetters/acme")
	s.configure("maxmemory-policy", "allkeys-lru")
	m.fires(t, "FeedrendererServerEvicts")
	if table := s.run("status"); !strings.Contains(table, "maxmemory-policy is allkeys-lru") {
		t.Errorf("status says\n%s", table)
	}
	s.run("dead", "drop", game.String(), "--all")
	s.configure("maxmemory-policy", "noeviction")
	m.clears(t, "FeedrendererDeadLetters/acme")
	m.clears(t, "FeedrendererServerEvicts")
	if firing := m.firing(); len(firing) > 0 {
		t.Errorf("all is well, and %v fire", firing)
	}
	m.fillsTheDashboard(site, game)
}
