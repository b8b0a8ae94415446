package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
)

// TestAnUpgradeOfEveryProcessCostsNobodyALine replaces two renderers and two web processes one by one, as an upgrade
// does, while lines are written and a hundred watch.
func TestAnUpgradeOfEveryProcessCostsNobodyALine(t *testing.T) {
	t.Parallel()
	const tenant = feed.TenantID("upgraded")
	c := newCrowd(t, tenant, 100)
	renderers := []*program{c.first, c.serve("render", "--tenants", string(tenant)).ready()}
	stop := c.talk()
	for i := range renderers { // the new one first: nothing waits for it
		next := c.serve("render", "--tenants", string(tenant)).ready()
		renderers[i].stop()
		renderers[i] = next
	}
	for i, web := range c.webs { // in place: it has the address that watchers know
		web.stop()
		c.webs[i] = c.serveAt(web, "web", "--tenants", string(tenant)).ready()
	}
	pauses := stop()
	c.allHoldAll()
	slices.Sort(pauses)
	t.Logf("%d lines of each game; a watcher's longest pause without a line: median %v, longest %v",
		c.said, pauses[len(pauses)/2], pauses[len(pauses)-1])
}

// talk appends a line to each game, several times a second. stop ends that and says how long each member was without a
// line at the longest.
func (c *crowd) talk() (stop func() (pauses []time.Duration)) {
	ctx, end := context.WithCancel(c.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		beat := time.NewTicker(200 * time.Millisecond)
		defer beat.Stop()
		for ctx.Err() == nil {
			for _, game := range c.games {
				text := feed.Fields{{Name: "kind", Value: "notice"}, {Name: "text", Value: fmt.Sprint("line ", c.said)}}
				if _, err := c.producer.Append(c.t.Context(), game, text); err != nil {
					c.t.Error(err)
				}
			}
			c.said++
			<-beat.C
		}
	})
	pauses, counts, since := make([]time.Duration, len(c.members)), make([]int, len(c.members)), make([]time.Time, len(c.members))
	look := func(now time.Time) {
		for i, m := range c.members {
			m.mu.Lock()
			n := len(m.held)
			m.mu.Unlock()
			if n > counts[i] {
				counts[i], since[i] = n, now
			}
			pauses[i] = max(pauses[i], now.Sub(since[i]))
		}
	}
	look(time.Now())
	running.Go(func() {
		beat := time.NewTicker(20 * time.Millisecond)
		defer beat.Stop()
		for ctx.Err() == nil {
			look(<-beat.C)
		}
	})
	stop = func() []time.Duration {
		end()
		running.Wait()
		return pauses
	}
	c.t.Cleanup(func() { stop() })
	return stop
}

// serveAt starts a serve process at the addresses of one that has ended.
func (s *system) serveAt(gone *program, roles string, arguments ...string) *program {
	s.t.Helper()
	p := start(s.t, []string{"VALKEY_URL=" + s.valkey, "DATABASE_URL=" + s.database},
		append([]string{"serve", "--roles", roles, "--listen", gone.public, "--private-listen", gone.private}, arguments...)...)
	p.public, p.private = gone.public, gone.private
	s.t.Cleanup(p.stop)
	return p
}
