package render

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codemojex/feedrenderer/consumer"
	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/timeline"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
	"github.com/codemojex/feedrenderer/migrations"
)

// step hands events to a worker as their entries, all in one batch, and expects them all to be acknowledged.
func (s *scene) step(w *Worker, events ...feed.Event) {
	s.t.Helper()
	batch := make([]consumer.Message, len(events))
	for i, e := range events {
		batch[i] = consumer.Message{Stream: e.Game.Stream(), EntryID: e.ID.EntryID(), Attempts: 1}
		for name, value := range e.Fields.All() {
			batch[i].Fields = append(batch[i].Fields, consumer.Field{Name: name, Value: value})
		}
	}
	for i, verdict := range w.Step(s.t.Context(), batch) {
		if verdict.Kind() != consumer.KindAck {
			s.t.Errorf("%s: %v", events[i].Kind, verdict)
		}
	}
}

func TestTheEndIsTheSameInEveryOrder(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	w := s.worker(s.writer, s.doorbell)
	original := eventID
	events := []feed.Event{
		event("joined", "player", "ann"),
		event("corrected", "target", original.String(), "fields", `{"player":"bea"}`),
		event("retracted", "target", original.String(), "reason", "spam"),
		event("corrected", "target", original.String(), "fields", `{"player":"eve","balance":"9"}`, "reason", "it was eve"),
	}
	var want []feed.View
	n := 0
	permute(len(events), func(order []int) {
		game := feed.GameKey{Tenant: s.game.Tenant, Game: feed.GameID(fmt.Sprint("p", n))}
		n++
		for range 3 {
			for _, i := range order {
				e := events[i]
				e.Game, e.ID = game, original+feed.ID(i)
				s.step(w, e)
			}
		}
		page, err := s.reader.Page(t.Context(), game, timeline.PageQuery{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Lines {
			page.Lines[i].Ver = 0 // which write was the last is a matter of the order
		}
		if want == nil {
			want = page.Lines
		}
		if diff := cmp.Diff(want, page.Lines, cmp.Comparer(func(a, b feed.Instant) bool { return a == b })); diff != "" {
			t.Errorf("in the order %v %s", order, diff)
		}
	})
	if len(want) != 1 || want[0].Text != "eve joined" || want[0].State != feed.Corrected || want[0].Reason != "it was eve" || len(want[0].Fields) != 1 {
		t.Errorf("got %+v", want)
	}
}

func permute(n int, each func(order []int)) {
	order := make([]int, 0, n)
	var place func(left []int)
	place = func(left []int) {
		if len(left) == 0 {
			each(order)
		}
		for i := range left {
			order = append(order, left[i])
			place(append(append([]int{}, left[:i]...), left[i+1:]...))
			order = order[:len(order)-1]
		}
	}
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	place(all)
}

func TestAScoreOfABlindGameIsNeverShownEarlyAndAlwaysInTheEnd(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	w := s.worker(s.writer, s.doorbell)
	at := func(n int, e feed.Event) feed.Event {
		e.Game, e.ID = s.game, eventID+feed.ID(n)
		return e
	}
	opened := at(0, event("opened", "mode", "blind"))
	scored := at(1, event("scored", "player", "ann", "pct", "50", "eff", "300"))
	revealed := at(2, event("revealed", "commitment", "c", "secret", "s", "nonce", "n"))
	kinds := func() (kinds []string) {
		for _, line := range s.lines() {
			kinds = append(kinds, line.Kind)
		}
		return kinds
	}
	for _, moment := range []struct {
		event feed.Event
		want  string
	}{
		{scored, ""},
		{opened, "opened"},
		{scored, "opened"},
		{revealed, "revealed scored opened"},
		{scored, "revealed scored opened"},
		{opened, "revealed scored opened"},
		{revealed, "revealed scored opened"},
	} {
		s.step(w, moment.event)
		if got := strings.Join(kinds(), " "); got != moment.want {
			t.Errorf("after %s: %q, want %q", moment.event.Kind, got, moment.want)
		}
	}
}

func TestEntriesAtTheEdge(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	add := func(id string, pairs ...string) {
		t.Helper()
		s.appended++
		if id == "own" {
			id = s.appended.String()
		}
		command := append([]string{"XADD", s.game.Stream(), s.appended.EntryID(), "id", id}, pairs...)
		if id == "" {
			command = append(command[:3], pairs...)
		}
		if err := s.client.Do(t.Context(), s.client.B().Arbitrary(command...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	many := func(n int) (pairs []string) {
		for i := range n {
			pairs = append(pairs, fmt.Sprint("f", i), "v")
		}
		return append(pairs, "kind", fmt.Sprint("many", n))
	}
	megabyte := strings.Repeat("x", 1<<20)
	for _, entry := range [][]string{ // of the last nine each is a line, the others are dead letters
		{"GAM" + eventID.String()[3:], "kind", "notice"},
		{eventID.String(), "kind", "notice"},
		{"EVT", "kind", "notice"},
		{"own", "kind", "notice", "text", "\xff"},
		{"own", "kind", "notice", "text", "\x00"},
		{"own", "kind", "corrected", "target", "nonsense"},
		{"own", "kind", strings.Repeat("k", 100)},
		{"own", "kind", "notice", "text", megabyte},

		{"own"},
		{"own", "kind", "notice", "other", "\xff\x00"},
		{"own", "kind", "notice", "other", megabyte},
		append([]string{"own"}, many(500)...),
		append([]string{"own"}, many(10_000)...),
		{"own", "kind", "notice", "kind", "joined", "text", "first", "text", "second"},
		{"own", "kind", "notice", "id", "a second id", "text", "kept"},
		{"", "event", "joined", "player", "a stranger"},
		{"", "kind", "opened", "mode", "classic"},
	} {
		add(entry[0], entry[1:]...)
	}
	s.consume(s.address, s.worker(s.writer, s.doorbell).Step, nil)
	until(t, "nothing is pending", s.settled)
	var got []string
	for _, line := range s.lines() {
		got = append(got, line.Text)
	}
	want := []string{"classic game opened in -", "a stranger joined", "kept", "first", "many10000", "many500", "-", "-", "event"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := s.deadLetters(); n != 8 {
		t.Errorf("%d dead letters, want 8", n)
	}
}

func TestOneBadRowCostsThatRow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, field   string
		lines, graves int
	}{
		{"InAShownField", "text", 499, 1},
		{"InAFieldNobodyIsShown", "hidden", 500, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			for i := range 500 {
				if i == 250 {
					s.append("notice", test.field, "a\x00")
				} else {
					s.append("notice", "text", "fine")
				}
			}
			var most atomic.Int64
			handler := s.worker(s.writer, s.doorbell).Step
			s.consume(s.address, func(ctx context.Context, batch []consumer.Message) []consumer.Verdict {
				for _, m := range batch {
					most.Store(max(most.Load(), m.Attempts))
				}
				return handler(ctx, batch)
			}, nil)
			until(t, "nothing is pending", s.settled)
			if n := len(s.lines()); n != test.lines {
				t.Errorf("%d lines, want %d", n, test.lines)
			}
			if n := s.deadLetters(); n != int64(test.graves) {
				t.Errorf("%d dead letters, want %d", n, test.graves)
			}
			if most.Load() != 1 {
				t.Errorf("%d attempts", most.Load())
			}
		})
	}
}

func TestWhileTheStoreIsDownNothingIsLostAndNothingCounted(t *testing.T) {
	t.Parallel()
	postgres := serverstest.OwnPostgres(t)
	if err := migrations.Up(t.Context(), postgres.URL); err != nil {
		t.Fatal(err)
	}
	s := newSceneOn(t, serverstest.Valkey(t), postgres.URL)
	var failures, most atomic.Int64
	worker := s.worker(applied(func(ctx context.Context, lines []feed.Line) (timeline.Applied, error) {
		out, err := s.writer.Apply(ctx, lines)
		if err != nil {
			failures.Add(1)
		}
		return out, err
	}), s.doorbell)
	s.consume(s.address, func(ctx context.Context, batch []consumer.Message) []consumer.Verdict {
		for _, m := range batch {
			most.Store(max(most.Load(), m.Attempts))
		}
		return worker.Step(ctx, batch)
	}, func(cfg *consumer.Config) { cfg.MaxAttempts = 2 })

	for range 20 {
		s.append("notice", "text", "before")
	}
	until(t, "the first are there", s.settled)
	if err := postgres.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		s.append("notice", "text", "meanwhile")
	}
	until(t, "the store was missed a few times", func() bool { return failures.Load() >= 4 })
	if s.settled() {
		t.Error("acknowledged without a store")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := postgres.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	until(t, "all are there", s.settled)
	if n := len(s.lines()); n != 40 {
		t.Errorf("%d lines, want 40", n)
	}
	if n := s.deadLetters(); n != 0 || most.Load() != 1 {
		t.Errorf("%d dead letters, up to %d attempts", n, most.Load())
	}
}

func TestTheStreamOrItsGroupGoesAway(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string][]string{
		"TheStream": {"DEL"},
		"TheGroup":  {"XGROUP", "DESTROY"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.consume(s.address, s.worker(s.writer, s.doorbell).Step, nil)
			s.append("notice", "text", "before")
			until(t, "the first is there", s.settled)
			command := append(lose, s.game.Stream())
			if len(lose) == 2 {
				command = append(command, ofGroup)
			}
			if n := s.count(command...); n != 1 {
				t.Fatalf("%v: %d", command, n)
			}
			for range 3 {
				s.append("notice", "text", "after")
			}
			until(t, "the next three are there", func() bool { return len(s.lines()) == 4 && s.settled() })
		})
	}
}

func TestAGameThatNobodyAnnouncedIsRendered(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	reader, _ := s.consume(s.address, s.worker(s.writer, s.doorbell).Step, func(cfg *consumer.Config) { cfg.Streams = nil })
	discovery := NewDiscovery(DiscoveryConfig{
		Client: s.client, Group: ofGroup, Streams: reader, Tenants: &knownTenants{ids: []feed.TenantID{s.game.Tenant}},
		Pause: 20 * time.Millisecond,
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := discovery.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer cancel()
	s.append("opened", "mode", "classic")
	until(t, "its line is there", s.settled)
	if lines := s.lines(); len(lines) != 1 || lines[0].Text != "classic game opened in -" {
		t.Errorf("%+v", lines)
	}
}
