package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
	"github.com/codemojex/feedrenderer/feed/timeline"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
	"github.com/codemojex/feedrenderer/watch"
)

// TestTenantsWithTheSameGameNeverSeeEachOther is about the running system: REST, sockets and the doorbell between.
func TestTenantsWithTheSameGameNeverSeeEachOther(t *testing.T) {
	t.Parallel()
	s := newSystem(t, serverstest.Valkey(t))
	ours, theirs := feed.GameKey{Tenant: "same-a", Game: "g1"}, feed.GameKey{Tenant: "same-b", Game: "g1"}
	secret := feed.GameKey{Tenant: theirs.Tenant, Game: "only-theirs"}
	const both = "same-a,same-b"
	s.serve("render", "--tenants", both).ready()
	webs := []*program{s.serve("web", "--tenants", both).ready(), s.serve("web", "--tenants", both).ready()}

	for _, key := range []feed.GameKey{ours, theirs, secret} {
		s.run("append", key.String(), "kind=opened", "mode=classic", "room="+string(key.Tenant))
		until(t, key.String()+" is there", func() bool {
			status, _ := get(t, gameURL(webs[0], key))
			return status == http.StatusOK
		})
	}
	watchers := map[feed.GameKey][]*watcher{}
	for _, web := range webs {
		for _, key := range []feed.GameKey{ours, theirs} {
			watchers[key] = append(watchers[key], follow(t, web, key))
		}
	}
	for key, text := range map[feed.GameKey]string{ours: "of a", theirs: "of b"} {
		for range 20 {
			if _, err := s.producer.Append(t.Context(), key, feed.Fields{{Name: "kind", Value: "notice"}, {Name: "text", Value: text}}); err != nil {
				t.Fatal(err)
			}
		}
	}

	for key, text := range map[feed.GameKey]string{ours: "of a", theirs: "of b"} {
		for _, w := range watchers[key] {
			until(t, "a watcher of "+key.String()+" has all lines", func() bool {
				held, _ := w.holds()
				return len(held) == 21
			})
			held, _ := w.holds()
			for _, line := range held[:20] {
				if line.Text != text {
					t.Errorf("%s: %q", key, line.Text)
				}
			}
			w.mu.Lock()
			for heard := range w.heard {
				if heard != text && !strings.Contains(heard, string(key.Tenant)) {
					t.Errorf("%s heard %q", key, heard)
				}
			}
			w.mu.Unlock()
		}
		for _, web := range webs {
			status, body := get(t, gameURL(web, key)+"/timeline?limit=500")
			if status != http.StatusOK || strings.Count(body, text) < 20 {
				t.Errorf("%s: %d %s", key, status, body)
			}
			for _, foreign := range []string{"of a", "of b"} {
				if foreign != text && strings.Contains(body, foreign) {
					t.Errorf("%s shows %q", key, foreign)
				}
			}
		}
	}

	t.Run("AForeignGameIsAnsweredAsOneThatDoesNotExist", func(t *testing.T) {
		status, body := get(t, gameURL(webs[0], feed.GameKey{Tenant: ours.Tenant, Game: secret.Game}))
		unknown, same := get(t, gameURL(webs[0], feed.GameKey{Tenant: ours.Tenant, Game: "never-was"}))
		if status != http.StatusNotFound || unknown != status || strings.ReplaceAll(body, "only-theirs", "never-was") != same {
			t.Errorf("%d %s\n%d %s", status, body, unknown, same)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		conn, err := watch.Dial(ctx, "ws://"+webs[0].public+"/v1/tenants/same-a/live")
		if err != nil {
			t.Fatal(err)
		}
		for _, game := range []feed.GameID{secret.Game, "never-was"} {
			if err := conn.Subscribe(ctx, game, feed.Cursor{}, 0); err != nil {
				t.Fatal(err)
			}
			frame, err := conn.Read(ctx)
			if err != nil || frame.T != "err" || frame.Code != "not_found" {
				t.Errorf("%s: %+v, %v", game, frame, err)
			}
		}
		if err := conn.CloseNow(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestTheModeOfAnUnknownTenantsGameIsNotStated(t *testing.T) {
	t.Parallel()
	s := newSystem(t, serverstest.Valkey(t))
	arguments, environ := []string{"mode", "nobody/g1", "classic"}, []string{"VALKEY_URL=" + s.valkey, "DATABASE_URL=" + s.database}
	if err := run(t.Context(), arguments, environ, io.Discard, t.Output()); !errors.Is(err, tenants.ErrUnknown) {
		t.Errorf("got %v", err)
	}
	if _, err := s.reader().Game(t.Context(), feed.GameKey{Tenant: "nobody", Game: "g1"}); !errors.Is(err, timeline.ErrNotFound) {
		t.Errorf("its game: %v", err)
	}
}

func gameURL(web *program, key feed.GameKey) string {
	return "http://" + web.public + "/v1/tenants/" + string(key.Tenant) + "/games/" + string(key.Game)
}

// median of durations.
func median(of []time.Duration) time.Duration {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}
