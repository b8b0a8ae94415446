package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/web"
)

// shownMetrics shows one look.
type shownMetrics struct {
	*groupMetrics
	health web.GroupHealth
}

func (s shownMetrics) Collect(ch chan<- prometheus.Metric) { s.show(ch, s.health) }

func TestGroupMetrics(t *testing.T) {
	t.Parallel()
	some := func(n int64) *int64 { return &n }
	// compare compares the metrics of these names, without their help.
	compare := func(t *testing.T, m *groupMetrics, streams []web.StreamHealth, want string, names ...string) {
		t.Helper()
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(shownMetrics{m, web.GroupHealth{Streams: streams}})
		for i := range names {
			names[i] = "feedrenderer_group_" + names[i]
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			want = strings.ReplaceAll(want, "TYPE "+family.GetName()+" ", "HELP "+family.GetName()+" "+family.GetHelp()+"\n# TYPE "+family.GetName()+" ")
		}
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
			t.Error(err)
		}
	}

	t.Run("AreOfTenants", func(t *testing.T) {
		t.Parallel()
		a, b := web.ConsumerHealth{Name: "a", Alive: true}, web.ConsumerHealth{Name: "b"}
		compare(t, newGroupMetrics(nil, 2*time.Minute), []web.StreamHealth{
			{Tenant: "acme", Game: "g1", Pending: 3, OldestPending: 120, OldestUnread: 7, Lag: some(4), Degraded: true, DeadLetters: 2, Consumers: []web.ConsumerHealth{a, b}},
			{Tenant: "acme", Game: "g2", Pending: 1, OldestPending: 1, OldestUnread: 119, Consumers: []web.ConsumerHealth{a}},
			{Tenant: "globex", Game: "g1", Fault: "no stream", Consumers: []web.ConsumerHealth{b}},
		}, `
# TYPE feedrenderer_group_consumers gauge
feedrenderer_group_consumers{state="alive",tenant="acme"} 1
feedrenderer_group_consumers{state="alive",tenant="globex"} 0
feedrenderer_group_consumers{state="dead",tenant="acme"} 1
feedrenderer_group_consumers{state="dead",tenant="globex"} 1
# TYPE feedrenderer_group_dead_letters gauge
feedrenderer_group_dead_letters{tenant="acme"} 2
feedrenderer_group_dead_letters{tenant="globex"} 0
# TYPE feedrenderer_group_degraded_pending_entries gauge
feedrenderer_group_degraded_pending_entries{game="g1",tenant="acme"} 3
# TYPE feedrenderer_group_degraded_streams gauge
feedrenderer_group_degraded_streams{tenant="acme",waits="pending"} 1
feedrenderer_group_degraded_streams{tenant="acme",waits="unread"} 0
feedrenderer_group_degraded_streams{tenant="globex",waits="pending"} 0
feedrenderer_group_degraded_streams{tenant="globex",waits="unread"} 0
# TYPE feedrenderer_group_fault_streams gauge
feedrenderer_group_fault_streams{tenant="acme"} 0
feedrenderer_group_fault_streams{tenant="globex"} 1
# TYPE feedrenderer_group_oldest_pending_age_seconds gauge
feedrenderer_group_oldest_pending_age_seconds{tenant="acme"} 120
feedrenderer_group_oldest_pending_age_seconds{tenant="globex"} 0
# TYPE feedrenderer_group_oldest_unread_age_seconds gauge
feedrenderer_group_oldest_unread_age_seconds{tenant="acme"} 119
feedrenderer_group_oldest_unread_age_seconds{tenant="globex"} 0
# TYPE feedrenderer_group_pending_entries gauge
feedrenderer_group_pending_entries{tenant="acme"} 4
feedrenderer_group_pending_entries{tenant="globex"} 0
# TYPE feedrenderer_group_replicas gauge
feedrenderer_group_replicas{state="alive"} 1
feedrenderer_group_replicas{state="dead"} 1
`, "consumers", "dead_letters", "degraded_pending_entries", "degraded_streams", "fault_streams", "oldest_pending_age_seconds", "oldest_unread_age_seconds",
			"pending_entries", "replicas")
	})

	t.Run("HaveNoLagWhereNobodyKnowsIt", func(t *testing.T) {
		t.Parallel()
		compare(t, newGroupMetrics(nil, time.Minute), []web.StreamHealth{
			{Tenant: "acme", Game: "g1", Lag: some(0)}, {Tenant: "acme", Game: "g2", Lag: some(4)}, {Tenant: "acme", Game: "g3"}, {Tenant: "globex", Game: "g1"},
		}, `
# TYPE feedrenderer_group_lag_entries gauge
feedrenderer_group_lag_entries{tenant="acme"} 4
# TYPE feedrenderer_group_lag_unknown_streams gauge
feedrenderer_group_lag_unknown_streams{tenant="acme"} 1
feedrenderer_group_lag_unknown_streams{tenant="globex"} 1
`, "lag_entries", "lag_unknown_streams")
	})

	t.Run("CountWhatIsLostThoughAStreamForgetsItOrGoes", func(t *testing.T) {
		t.Parallel()
		m := newGroupMetrics(nil, time.Minute)
		stream := func(name string, lost *int64) web.StreamHealth {
			return web.StreamHealth{Tenant: "acme", Stream: name, Lost: lost}
		}
		for _, look := range []struct {
			streams []web.StreamHealth
			want    int
		}{
			{[]web.StreamHealth{stream("a", some(0)), stream("b", some(3))}, 3},
			{[]web.StreamHealth{stream("a", some(2)), stream("b", some(3))}, 5},
			{[]web.StreamHealth{stream("a", nil), stream("b", some(3))}, 5},
			{[]web.StreamHealth{stream("a", some(0))}, 5},
			{[]web.StreamHealth{stream("a", some(1))}, 6},
		} {
			// A registry gathers twice to compare; the second time finds nothing new.
			compare(t, m, look.streams, fmt.Sprintf("# TYPE feedrenderer_group_lost_entries_total counter\nfeedrenderer_group_lost_entries_total{tenant=\"acme\"} %d\n", look.want), "lost_entries_total")
		}
	})

	t.Run("HaveBoundedLabels", func(t *testing.T) {
		t.Parallel()
		var streams []web.StreamHealth
		for i := range 2 * tenantLabels {
			streams = append(streams, web.StreamHealth{Tenant: feed.TenantID(fmt.Sprintf("t%05d", i)), Game: "g", OldestPending: float64(i), Degraded: true})
		}
		shown := shownMetrics{newGroupMetrics(nil, time.Minute), web.GroupHealth{Streams: streams}}
		if n := testutil.CollectAndCount(shown, "feedrenderer_group_streams"); n != tenantLabels+1 {
			t.Errorf("%d tenants have labels", n)
		}
		if n := testutil.CollectAndCount(shown, "feedrenderer_group_degraded_oldest_pending_age_seconds"); n != gameLabels {
			t.Errorf("%d games have labels", n)
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(shown)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() != "feedrenderer_group_degraded_oldest_pending_age_seconds" {
				continue
			}
			for _, metric := range family.GetMetric() {
				if metric.GetGauge().GetValue() < float64(len(streams)-gameLabels) {
					t.Errorf("%v is not among the oldest", metric)
				}
			}
		}
	})
}
