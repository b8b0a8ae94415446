package main

import (
	"strings"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/consumer"
	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
	"github.com/codemojex/feedrenderer/web"
)

func TestARendererReports(t *testing.T) {
	t.Parallel()
	const tenant = feed.TenantID("reporting")
	s := newSystem(t, serverstest.OwnValkey(t).URL)
	renderer := s.serve("render", "--tenants", string(tenant), "--name", "r1").ready()
	for range 30 {
		s.run("append", string(tenant)+"/g1", "kind=notice", "text=one")
	}
	g := newGroup(s.client, "feedrenderer", 0)
	look := func() web.GroupHealth {
		t.Helper()
		h, err := g.look(t.Context(), feed.GameKey{Tenant: tenant})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}

	t.Run("WhatItDidForEachTenant", func(t *testing.T) {
		until(t, "its report has all events", func() bool {
			h := look()
			return len(h.Reports) == 1 && h.Reports[0].Work[tenant].Settled == 30
		})
		r := look().Reports[0]
		var timed int64
		for _, n := range r.Work[tenant].Commit {
			timed += n
		}
		if r.Name != "r1" || timed != 30 || len(r.Work[tenant].Commit) != len(r.Bounds)+1 || len(r.Bounds) < 5 || r.StoreAway != nil || time.Since(time.UnixMilli(r.Started)) > time.Hour {
			t.Errorf("it reports %+v", r)
		}
		if said := s.run("status", string(tenant), "--json"); strings.Contains(said, "Work") || strings.Contains(said, "Commit") {
			t.Errorf("others are told %s", said)
		}
	})

	t.Run("ThatItsStoreIsAway", func(t *testing.T) {
		stub := &reporter{
			client: s.client, group: "feedrenderer", started: time.Now(), rendered: newState().registry,
			stats: func() consumer.Stats {
				return consumer.Stats{Name: "r1", Breaker: true, BreakerSince: time.Now(), BreakerReason: "postgres.internal refused"}
			},
		}
		until(t, "it is seen, though the renderer itself says otherwise every now and then", func() bool {
			if err := stub.report(t.Context()); err != nil {
				t.Fatal(err)
			}
			said := s.run("status", string(tenant))
			if strings.Contains(said, "internal") {
				t.Errorf("it tells where its store is: %s", said)
			}
			return strings.Contains(said, "r1 cannot write lines since") && strings.Contains(s.run("status", string(tenant), "--json"), `"store_away_since":"`)
		})
	})

	t.Run("NoMoreOnceItIsGone", func(t *testing.T) {
		renderer.stop()
		until(t, "nobody is alive", func() bool { return len(look().Reports) == 0 })
		if ttl, err := s.client.Do(t.Context(), s.client.B().Pttl().Key(reportKey("feedrenderer", "r1")).Build()).AsInt64(); err != nil || ttl > reportKept.Milliseconds() || ttl == -1 {
			t.Errorf("its report is kept for %d ms, %v", ttl, err)
		}
	})
}
