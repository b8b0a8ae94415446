package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
	"github.com/codemojex/feedrenderer/watch"
)

// witnessed is every frame that one socket was sent of one game but ticks, as it comes.
type witnessed struct {
	t      *testing.T
	conn   *watch.Conn
	frames []watch.Frame
}

// witness subscribes to a game, and waits for the answer.
func witness(t *testing.T, web *program, game feed.GameKey, since feed.Cursor) *witnessed {
	t.Helper()
	o := &witnessed{t: t}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	if o.conn, err = watch.Dial(ctx, "ws://"+web.public+"/v1/tenants/"+string(game.Tenant)+"/live"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.conn.CloseNow() })
	if err := o.conn.Subscribe(ctx, game.Game, since, 0); err != nil {
		t.Fatal(err)
	}
	o.until("the answer", func(f watch.Frame) bool { return f.T == "snap" || f.T == "delta" })
	return o
}

// until reads frames up to one.
func (o *witnessed) until(what string, last func(watch.Frame) bool) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), patience)
	defer cancel()
	for {
		frame, err := o.conn.Read(ctx)
		if err != nil {
			o.t.Fatalf("%s: %v", what, err)
		}
		if frame.T == "tick" {
			continue
		}
		o.frames = append(o.frames, frame)
		if last(frame) {
			return
		}
	}
}

// hears reads up to a line.
func (o *witnessed) hears(id feed.ID) {
	o.t.Helper()
	o.until("line "+id.String(), func(f watch.Frame) bool {
		for _, line := range f.Lines {
			if line.Evt == id {
				return true
			}
		}
		return false
	})
}

// story is the kinds of the frames, with how many lines each had; headers are left out, which come at their own pace.
func (o *witnessed) story() string {
	var out []string
	for _, f := range o.frames {
		switch f.T {
		case "game":
		case "reset":
			out = append(out, "reset:"+f.Reason)
		default:
			out = append(out, fmt.Sprint(f.T, len(f.Lines)))
		}
	}
	return strings.Join(out, " ")
}

// TestLinesOfAGameLongOverLeaveForGoodInOneReset is about the running system, with watchers before it.
func TestLinesOfAGameLongOverLeaveForGoodInOneReset(t *testing.T) {
	t.Parallel()
	s := newSystem(t, serverstest.Valkey(t))
	game := feed.GameKey{Tenant: "retains", Game: "g1"}
	begun := time.Now().UTC().AddDate(0, 0, -40)
	for i, event := range []feed.Fields{
		{{Name: "kind", Value: "opened"}, {Name: "mode", Value: "classic"}, {Name: "room", Value: "r"}},
		{{Name: "kind", Value: "scored"}, {Name: "player", Value: "ann"}, {Name: "pct", Value: "50"}},
		{{Name: "kind", Value: "settled"}, {Name: "winner", Value: "ann"}, {Name: "pot", Value: "9"}},
	} {
		if err := feed.AppendEvent(t.Context(), s.client, game, feed.IDAt(begun.Add(time.Duration(i)*time.Minute)), event); err != nil {
			t.Fatal(err)
		}
	}
	both := s.serve("render,web", "--tenants", string(game.Tenant), "--upkeep", "1s").ready()
	webs := []*program{both, s.serve("web", "--tenants", string(game.Tenant)).ready()}
	reader := s.reader()
	until(t, "the game is rendered", func() bool {
		_, err := reader.Head(t.Context(), game)
		return err == nil && len(lines(t, reader, game)) == 3
	})
	before, err := reader.Head(t.Context(), game)
	if err != nil {
		t.Fatal(err)
	}
	watchers := []*witnessed{witness(t, webs[0], game, feed.Cursor{}), witness(t, webs[1], game, feed.Cursor{})}

	s.run("tenant", "change", string(game.Tenant), "--retention-days", "30")
	for _, w := range watchers {
		w.until("a new snapshot", func(f watch.Frame) bool { return f.T == "snap" })
		if last := w.frames[len(w.frames)-1]; last.Header == nil || last.Header.Status != feed.StatusSettled || last.Header.Counts.Lines != 0 || last.Older {
			t.Errorf("got %+v", last)
		}
	}
	if status, body := get(t, gameURL(webs[1], game)+"/timeline"); status != http.StatusOK || !strings.Contains(body, `"lines":[]`) {
		t.Errorf("timeline: %d %s", status, body)
	}
	if status, body := get(t, gameURL(webs[1], game)+"/changes?since="+before.Cursor.String()); status != http.StatusGone {
		t.Errorf("changes since before: %d %s", status, body)
	}
	owner := s.owner()
	until(t, "the rows are gone", func() bool {
		var rows int
		if err := owner.QueryRow(t.Context(), `select count(*) from lines where tenant = $1`, string(game.Tenant)).Scan(&rows); err != nil {
			t.Fatal(err)
		}
		return rows == 0
	})
	watchers = append(watchers, witness(t, webs[1], game, before.Cursor))

	// Another group reads all from the head: what is long over changes nothing, and rings for nothing that anybody sees.
	s.serve("render", "--group", "again").ready()
	until(t, "the other group has read everything", func() bool { return s.allSettled(game, 2) })
	sentinel, err := s.producer.Append(t.Context(), game, feed.Fields{{Name: "kind", Value: "notice"}, {Name: "text", Value: "still here"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"snap3 reset:epoch snap0 lines1", "snap3 reset:epoch snap0 lines1", "reset:epoch snap0 lines1"}
	for i, w := range watchers {
		w.hears(sentinel)
		if got := w.story(); got != want[i] {
			t.Errorf("watcher %d was sent %s, want %s", i, got, want[i])
		}
	}
	if held := lines(t, reader, game); len(held) != 1 || held[0].Evt != sentinel {
		t.Errorf("in the end there is %+v", held)
	}

	// And its entries go once both groups have settled them.
	s.run("tenant", "change", string(game.Tenant), "--stream-days", "30")
	until(t, "the old entries are trimmed away", func() bool {
		entries, err := s.client.Do(t.Context(), s.client.B().Xrange().Key(game.Stream()).Start("-").End("+").Build()).AsXRange()
		return err == nil && len(entries) == 1 && entries[0].ID == sentinel.EntryID()
	})
	if _, body := get(t, "http://"+both.private+"/metrics"); !strings.Contains(body, `feedrenderer_upkeep_`) {
		t.Error("no metrics of upkeep")
	}
	if listed := s.run("tenant", "list"); !strings.Contains(listed, "30 days") {
		t.Errorf("listed as %s", listed)
	}
}

// allSettled reports whether there are so many groups on a stream, each of which was given everything and has nothing pending.
func (s *system) allSettled(game feed.GameKey, groups int) bool {
	s.t.Helper()
	list, err := s.client.Do(s.t.Context(), s.client.B().XinfoGroups().Key(game.Stream()).Build()).ToArray()
	if err != nil || len(list) != groups {
		return false
	}
	for i := range list {
		info, err := list[i].AsMap()
		if err != nil {
			s.t.Fatal(err)
		}
		pending, lag := info["pending"], info["lag"]
		if n, err := pending.AsInt64(); err != nil || n != 0 {
			return false
		}
		if n, err := lag.AsInt64(); err != nil || n != 0 {
			return false
		}
	}
	return true
}
