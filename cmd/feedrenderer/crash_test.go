package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
	"github.com/codemojex/feedrenderer/watch"
)

// watcher follows one game, as a browser would.
type watcher struct {
	mu    sync.Mutex
	lines []feed.View // held at last; guarded by mu
	at    feed.Cursor
	heard map[string]bool // every text that ever came
}

func (w *watcher) take(state *watch.State, frame watch.Frame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines, w.at = append(w.lines[:0:0], state.Lines...), state.Cursor
	for _, line := range frame.Lines {
		w.heard[line.Text] = true
	}
}

func (w *watcher) holds() (lines []feed.View, at feed.Cursor) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines, w.at
}

// follow watches a game over a web process until the test ends.
func follow(t *testing.T, web *program, game feed.GameKey) *watcher {
	t.Helper()
	w := &watcher{heard: map[string]bool{}}
	client := watch.New(watch.Config{
		URLs:    []string{"ws://" + web.public + "/v1/tenants/" + string(game.Tenant) + "/live"},
		Games:   []watch.Game{{ID: game.Game}},
		OnFrame: w.take,
		Backoff: 100 * time.Millisecond,
	})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := client.Run(ctx); ctx.Err() == nil {
			t.Errorf("a watcher of %s was sent away: %v", game, err)
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return w
}

// TestEveryEventIsOneLineThoughRenderersDieAndFreeze is the promise of the whole: three renderers, two web processes.
func TestEveryEventIsOneLineThoughRenderersDieAndFreeze(t *testing.T) {
	t.Parallel()
	const (
		tenant  = feed.TenantID("crash")
		games   = 50
		rounds  = 20
		atOnce  = 20 // events of a game in a round: 20 000 in all
		minIdle = 3 * time.Second
	)
	s := newSystem(t, serverstest.Valkey(t))
	renderers := make([]*program, 3)
	for i := range renderers {
		renderers[i] = s.serve("render", "--tenants", string(tenant), "--min-idle", minIdle.String())
	}
	webs := []*program{s.serve("web", "--tenants", string(tenant)), s.serve("web", "--tenants", string(tenant))}
	for _, p := range append(webs, renderers...) {
		p.ready()
	}

	reader := s.reader()
	keys := make([]feed.GameKey, games)
	watchers := make([]*watcher, games)
	appended := make([]map[feed.ID]string, games) // the text of each line by its id
	for i := range keys {
		keys[i] = feed.GameKey{Tenant: tenant, Game: feed.GameID(fmt.Sprintf("g%d", i+1))}
		id, err := s.producer.Append(t.Context(), keys[i], feed.Fields{{Name: "kind", Value: "opened"}, {Name: "mode", Value: "classic"}, {Name: "room", Value: "r"}})
		if err != nil {
			t.Fatal(err)
		}
		appended[i] = map[feed.ID]string{id: "classic game opened in r"}
	}
	until(t, "all games are there", func() bool {
		for _, key := range keys {
			if _, err := reader.Head(t.Context(), key); err != nil {
				return false
			}
		}
		return true
	})
	for i, key := range keys {
		watchers[i] = follow(t, webs[i%len(webs)], key)
	}
	until(t, "all watchers have begun, with no line below what they hold", func() bool {
		for _, w := range watchers {
			if _, at := w.holds(); at == (feed.Cursor{}) {
				return false
			}
		}
		return true
	})

	begun := time.Now()
	frozen := time.AfterFunc(time.Hour, func() {})
	for round := range rounds {
		switch round {
		case 5:
			renderers[0].signal(syscall.SIGKILL)
		case 8:
			renderers[1].signal(syscall.SIGSTOP)
			frozen = time.AfterFunc(2*minIdle, func() { renderers[1].signal(syscall.SIGCONT) })
		}
		for i, key := range keys {
			batch := make([]feed.Fields, atOnce)
			for j := range batch {
				player, pct := fmt.Sprintf("p%d", j), fmt.Sprint(round)
				batch[j] = feed.Fields{{Name: "kind", Value: "scored"}, {Name: "player", Value: player}, {Name: "pct", Value: pct}}
			}
			receipts, err := s.producer.AppendAll(t.Context(), key, batch)
			if err != nil {
				t.Fatal(err)
			}
			for j, receipt := range receipts {
				if receipt.Err != nil {
					t.Fatal(receipt.Err)
				}
				appended[i][receipt.ID] = fmt.Sprintf("p%d scored %d %%", j, round)
			}
		}
	}
	t.Cleanup(func() { frozen.Stop() })
	t.Logf("%d events appended after %v", games*rounds*atOnce, time.Since(begun))

	until(t, "the group has read everything and has nothing pending", func() bool {
		for _, key := range keys {
			if pending, lag := s.standing(key); pending != 0 || lag != 0 {
				return false
			}
		}
		return true
	})
	t.Logf("all of them settled after %v", time.Since(begun))
	for i, key := range keys {
		table := lines(t, reader, key)
		got := make(map[feed.ID]string, len(table))
		for _, line := range table {
			got[line.Evt] = line.Text
		}
		if len(table) != len(got) {
			t.Errorf("%s: %d rows for %d lines", key, len(table), len(got))
		}
		if diff := cmp.Diff(appended[i], got); diff != "" {
			t.Fatalf("%s: %s", key, diff)
		}
		until(t, fmt.Sprintf("the watcher of %s holds the table", key), func() bool {
			held, at := watchers[i].holds()
			head, err := reader.Head(t.Context(), key)
			return err == nil && at == head.Cursor && cmp.Equal(table, held, views)
		})
	}
	t.Logf("all %d watchers equal the table after %v", games, time.Since(begun))
}

// views compares lines as they are sent.
var views = cmp.Comparer(func(a, b feed.View) bool {
	one, err1 := json.Marshal(a)
	other, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(one, other)
})

// standing is what the group has on a stream: entries pending, and not yet read.
func (s *system) standing(key feed.GameKey) (pending, lag int64) {
	s.t.Helper()
	groups, err := s.client.Do(s.t.Context(), s.client.B().XinfoGroups().Key(key.Stream()).Build()).ToArray()
	if err != nil || len(groups) != 1 {
		s.t.Fatalf("groups of %s: %d, %v", key, len(groups), err)
	}
	info, err := groups[0].AsMap()
	if err != nil {
		s.t.Fatal(err)
	}
	for name, into := range map[string]*int64{"pending": &pending, "lag": &lag} {
		value := info[name]
		if *into, err = value.AsInt64(); err != nil {
			s.t.Fatalf("%s of %s: %v", name, key, err)
		}
	}
	return pending, lag
}
