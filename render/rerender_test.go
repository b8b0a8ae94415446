package render

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codemojex/feedrenderer/consumer"
	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

// cheered is a kind in one of its versions.
func cheered(version int, text, visibility string) map[string]string {
	return map[string]string{"cheered.toml": fmt.Sprintf(`
[kind.cheered]
version = %d
line = "opens"
text = "%s"
icon = "megaphone"
tone = "good"
actor = "player"
show = ["player"]
visibility = "%s"

[kind.amended]
version = %d
line = "corrects"
`, version, text, visibility, version)}
}

// bell is a doorbell that remembers.
type bell struct {
	mu   sync.Mutex
	rung []feed.Change // guarded by mu
}

func (b *bell) Publish(_ context.Context, changes []feed.Change) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rung = append(b.rung, changes...)
	return nil
}

// rerender renders the stored lines of the scene's tenant anew, by kinds of these files, in small pages.
func (s *scene) rerender(files map[string]string, doorbell Doorbell, of feed.GameKey, kind, from string) Progress {
	s.t.Helper()
	kinds := load(s.t, files)
	source, err := NewStoredSource(s.writer, kinds, of, kind, from)
	if err != nil {
		s.t.Fatal(err)
	}
	so, err := NewReplay(ReplayConfig{
		WorkerConfig: WorkerConfig{Kinds: kinds, Timeline: s.writer, Doorbell: doorbell},
		Source:       source,
		Rate:         1000,
		OnReject:     func(entry consumer.Message, reason string) { s.t.Logf("%s: %s", entry.EntryID, reason) },
	}).Run(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return so
}

func (s *scene) texts() (texts []string) {
	s.t.Helper()
	for _, line := range s.lines() {
		texts = append(texts, line.Text)
	}
	return texts
}

func TestLinesOfANewerKindAreRenderedAnewOnceEach(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	at := func(n int, e feed.Event) feed.Event {
		e.Game, e.ID = s.game, eventID+feed.ID(n)
		own, payload := feed.Field{Name: "id", Value: e.ID.String()}, feed.Field{Name: "id", Value: "of the payload"}
		e.Fields = append(append(feed.Fields{own}, e.Fields...), payload)
		return e
	}
	old := NewWorker(WorkerConfig{Kinds: load(t, cheered(1, "{player} cheers", "public")), Timeline: s.writer, Doorbell: s.doorbell})
	s.step(old,
		at(0, event("opened", "mode", "classic", "room", "r")),
		at(1, event("cheered", "player", "ann")),
		at(2, event("cheered", "player", "bob")),
		at(3, event("amended", "target", (eventID+2).String(), "fields", `{"player":"bea"}`)),
		at(4, event("cheered", "player", "cyd")),
		at(5, event("retracted", "target", (eventID+4).String(), "reason", "spam")),
		at(6, event("amended", "target", (eventID+1).String(), "text", "ann is amended")),
		at(7, event("unheard-of", "player", "dan")))
	before, err := s.reader.Head(t.Context(), s.game)
	if err != nil {
		t.Fatal(err)
	}

	newer := cheered(2, "{player} cheers loudly", "public")
	rung := &bell{}
	so := s.rerender(newer, rung, feed.GameKey{Tenant: s.game.Tenant}, "", "")
	if so.Read != 5 || so.Written != 5 || so.Share != 1 || so.At != fmt.Sprintf("%s/%s", s.game.Game, eventID+7) {
		t.Errorf("got %+v, want the three that cheered and the two that amended", so)
	}
	want := []string{"unheard-of", "", "bea cheers loudly", "ann is amended", "classic game opened in r"}
	if diff := cmp.Diff(want, s.texts()); diff != "" {
		t.Error(diff)
	}
	told := map[feed.ID]int{}
	for _, change := range rung.rung {
		if change.Epoch != before.Cursor.Epoch {
			t.Errorf("the epoch changed: %+v", change)
		}
		for _, line := range change.Lines {
			told[line.Evt]++
		}
	}
	if diff := cmp.Diff(map[feed.ID]int{eventID + 1: 1, eventID + 2: 1, eventID + 4: 1}, told); diff != "" {
		t.Errorf("watchers are told of each line once: %s", diff)
	}

	t.Run("AgainChangesNothing", func(t *testing.T) {
		if so := s.rerender(newer, rung, s.game, "", ""); so.Read != 0 || so.Share != 1 {
			t.Errorf("got %+v", so)
		}
	})
	t.Run("OneKindOfOneGameFromAPlaceOn", func(t *testing.T) {
		third := cheered(3, "{player} cheers a third time", "public")
		so := s.rerender(third, rung, s.game, "cheered", fmt.Sprintf("%s/%s", s.game.Game, eventID+1))
		if so.Read != 2 || so.Written != 2 { // bob's and cyd's
			t.Errorf("got %+v", so)
		}
		if other := s.rerender(third, rung, feed.GameKey{Tenant: s.game.Tenant, Game: "g0"}, "", ""); other != (Progress{}) {
			t.Errorf("of a game that is not there: %+v", other)
		}
		if texts := s.texts(); !slices.Contains(texts, "bea cheers a third time") {
			t.Errorf("got %q", texts)
		}
	})
	t.Run("AKindThatIsDescribedAtLast", func(t *testing.T) {
		files := map[string]string{"late.toml": "[kind.unheard-of]\nversion = 1\nline = \"opens\"\ntext = \"{player} was heard\"\nicon = \"flag\"\ntone = \"plain\"\nshow = [\"player\"]\nvisibility = \"public\"\n"}
		if so := s.rerender(files, rung, s.game, "unheard-of", ""); so.Written != 1 {
			t.Errorf("got %+v", so)
		}
		if texts := s.texts(); texts[0] != "dan was heard" {
			t.Errorf("got %q", texts)
		}
	})
}

// Watchers would keep what they were shown, so that they must begin anew.
func TestLinesThatAreHiddenByRenderingAnewChangeTheEpoch(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	e := event("cheered", "player", "ann")
	e.Game = s.game
	old := NewWorker(WorkerConfig{Kinds: load(t, cheered(1, "{player} cheers", "public")), Timeline: s.writer, Doorbell: s.doorbell})
	s.step(old, e)
	before, err := s.reader.Head(t.Context(), s.game)
	if err != nil {
		t.Fatal(err)
	}
	if so := s.rerender(cheered(2, "{player} cheers", "score"), s.doorbell, s.game, "", ""); so.Read != 1 {
		t.Errorf("got %+v", so)
	}
	after, err := s.reader.Head(t.Context(), s.game)
	if err != nil {
		t.Fatal(err)
	}
	if after.Cursor.Epoch == before.Cursor.Epoch || len(s.texts()) != 0 {
		t.Errorf("got %s after %s, and %q is shown", after.Cursor, before.Cursor, s.texts())
	}
}

// flaky is a timeline that is away for the first few batches.
type flaky struct {
	Timeline
	left int
}

func (f *flaky) Apply(ctx context.Context, lines []feed.Line) (timeline.Applied, error) {
	if f.left--; f.left >= 0 {
		return timeline.Applied{}, context.DeadlineExceeded
	}
	return f.Timeline.Apply(ctx, lines)
}

func TestAReplayOutlastsAStoreThatIsAway(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	id := s.append("notice", "text", "hello")
	s.append("notice", "text", "again")
	s.append("corrected", "target", "nonsense")
	replay := func(store Timeline, from, to string) (Progress, error) {
		return NewReplay(ReplayConfig{
			WorkerConfig: WorkerConfig{Kinds: load(t, nil), Timeline: store, Doorbell: s.doorbell},
			Source:       NewStreamSource(s.client, s.game, from, to),
		}).Run(t.Context())
	}
	so, err := replay(&flaky{s.writer, 2}, "", "")
	if want := (Progress{Read: 3, Written: 2, Rejected: 1, At: s.appended.EntryID(), Share: 1}); err != nil || so != want {
		t.Errorf("got %+v, %v, want %+v", so, err, want)
	}
	so, err = replay(s.writer, id.EntryID(), id.EntryID())
	if want := (Progress{Read: 1, Same: 1, At: id.EntryID(), Share: 1}); err != nil || so != want {
		t.Errorf("got %+v, %v, want %+v", so, err, want)
	}
	if n := s.deadLetters(); n != 0 {
		t.Errorf("%d dead letters: the live reader makes those", n)
	}
}

func TestAReplayGivesUpOnAStoreThatStaysAway(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.append("notice", "text", "hello")
	so, err := NewReplay(ReplayConfig{
		WorkerConfig: WorkerConfig{Kinds: load(t, nil), Timeline: &flaky{s.writer, 1000}, Doorbell: s.doorbell},
		Source:       NewStreamSource(s.client, s.game, "", ""),
		Patience:     50 * time.Millisecond,
	}).Run(t.Context())
	if !errors.Is(err, context.DeadlineExceeded) || so.Read != 0 || so.At != "" {
		t.Errorf("got %+v, %v", so, err)
	}
}
