package render

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
)

// turn gives some tenants to each who asks, once.
type turn []tenants.Tenant

func (c *turn) Claim(context.Context, time.Duration, int) ([]tenants.Tenant, error) {
	due := *c
	*c = nil
	return due, nil
}

// chimes keeps what was rung for.
type chimes []feed.Change

func (r *chimes) Publish(_ context.Context, changes []feed.Change) error {
	*r = append(*r, changes...)
	return nil
}

// upkeep clears up after the scene's tenant once, as its limits say.
func (s *scene) upkeep(u *Upkeep, limits tenants.Limits) {
	s.t.Helper()
	u.cfg.Tenants = &turn{{ID: s.game.Tenant, Limits: limits}}
	if err := u.Pass(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) newUpkeep(doorbell Doorbell, logs *strings.Builder) *Upkeep {
	return NewUpkeep(UpkeepConfig{
		Client: s.client, Group: ofGroup, Timeline: s.writer, Doorbell: doorbell, Logger: slog.New(slog.NewTextHandler(logs, nil)), Grace: time.Hour,
	})
}

// play renders and settles a game of so many days ago: three lines, the last of which ends it.
func (s *scene) play(game feed.GameKey, daysPast int) {
	s.t.Helper()
	s.game, s.appended = game, feed.IDAt(daysAgo(daysPast))
	s.append("opened", "mode", "classic")
	s.append("scored", "player", "ann", "pct", "50")
	s.append("settled", "winner", "ann")
	_, stop := s.consume(s.address, s.worker(s.writer, s.doorbell).Step, nil)
	s.waitFor("all of it is settled", s.settled)
	stop()
}

func (s *scene) waitFor(what string, condition func() bool) {
	s.t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatalf("not in time: %s", what)
		}
	}
}

func (s *scene) inStream() int64 { return s.count("XLEN", s.game.Stream()) }

func TestUpkeepOfLines(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	old, young := s.game, feed.GameKey{Tenant: s.game.Tenant, Game: "g2"}
	s.play(old, 40)
	s.play(young, 20)
	var rings chimes
	u := s.newUpkeep(&rings, &strings.Builder{})
	shown := func(game feed.GameKey) int {
		t.Helper()
		snapshot, err := s.reader.Snapshot(t.Context(), game, 10)
		if err != nil || snapshot.Game.Status != feed.StatusSettled {
			t.Fatalf("%+v, %v", snapshot.Game, err)
		}
		return len(snapshot.Lines)
	}

	s.upkeep(u, tenants.Limits{})
	if shown(old) != 3 || shown(young) != 3 || len(rings) != 0 {
		t.Fatal("lines that are kept for ever are gone")
	}
	s.upkeep(u, tenants.Limits{RetentionDays: 30})
	if shown(old) != 0 || shown(young) != 3 {
		t.Errorf("after 30 days: %d lines of 40 days ago, %d of 20", shown(old), shown(young))
	}
	if len(rings) != 1 || rings[0].Game != old || rings[0].From != rings[0].To || len(rings[0].Lines) != 0 {
		t.Errorf("rung for %+v", rings)
	}
	tenant := string(old.Tenant)
	if n := testutil.ToFloat64(u.metrics.dropped.WithLabelValues(tenant)); n != 3 {
		t.Errorf("%v rows were deleted", n)
	}
	s.upkeep(u, tenants.Limits{RetentionDays: 30})
	if n := testutil.ToFloat64(u.metrics.expired.WithLabelValues(tenant)); n != 1 || len(rings) != 1 {
		t.Errorf("again: expired %v times, rung for %+v", n, rings)
	}

	// The entries are still in the stream: read from the head by another group, they change nothing.
	head, err := s.reader.Head(t.Context(), old)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := s.client.Do(t.Context(), s.client.B().Xrange().Key(old.Stream()).Start("-").End("+").Build()).AsXRange()
	if err != nil || len(entries) != 3 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	var again []feed.Event
	for _, entry := range entries {
		id, err := feed.IDOfEntry(entry.ID)
		if err != nil {
			t.Fatal(err)
		}
		again = append(again, feed.Event{Game: old, ID: id, Fields: payload(entry)})
	}
	s.step(s.worker(s.writer, &rings), again...)
	after, err := s.reader.Head(t.Context(), old)
	if err != nil || after != head || shown(old) != 0 {
		t.Errorf("after a replay: %+v, before it %+v, %v", after, head, err)
	}
	for _, ring := range rings[1:] {
		if ring.From != ring.To || len(ring.Lines) > 0 {
			t.Errorf("the replay rang for %+v", ring)
		}
	}
}

func payload(entry valkey.XRangeEntry) (fields feed.Fields) {
	for name, value := range entry.FieldValues {
		fields = append(fields, feed.Field{Name: name, Value: value})
	}
	slices.SortFunc(fields, func(a, b feed.Field) int { return strings.Compare(a.Name, b.Name) })
	return fields
}

func TestUpkeepOfStreams(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var logs strings.Builder
	u := s.newUpkeep(s.doorbell, &logs)
	unread := feed.GameKey{Tenant: s.game.Tenant, Game: "unread"}
	s.game, s.appended = unread, feed.IDAt(daysAgo(9))
	s.append("opened")
	s.play(feed.GameKey{Tenant: s.game.Tenant, Game: "g2"}, 9)

	s.upkeep(u, tenants.Limits{})
	if n := s.inStream(); n != 3 {
		t.Fatalf("%d entries of those that are kept for ever", n)
	}
	if _, err := s.client.Do(t.Context(), s.client.B().XgroupCreate().Key(s.game.Stream()).Group("others").Id("0").Build()).ToString(); err != nil {
		t.Fatal(err)
	}
	s.count("XGROUP", "CREATECONSUMER", s.game.Stream(), "others", "c")
	s.upkeep(u, tenants.Limits{StreamDays: 7})
	if n := s.inStream(); n != 3 || logs.Len() > 0 {
		t.Fatalf("%d entries where another group has read none; %s", n, &logs)
	}
	tenant := string(s.game.Tenant)
	if n := testutil.ToFloat64(u.metrics.held.WithLabelValues(tenant, "others")); n != 1 {
		t.Errorf("held %v times", n)
	}
	u.cfg.Grace = 10 * time.Millisecond
	s.waitFor("the other group is dead", func() bool {
		s.upkeep(u, tenants.Limits{StreamDays: 7})
		return s.inStream() == 0
	})
	for range 2 {
		s.append("notice", "text", "new")
		s.upkeep(u, tenants.Limits{StreamDays: 1})
	}
	if n := testutil.ToFloat64(u.metrics.passed.WithLabelValues(tenant, "others")); n < 1 || strings.Count(logs.String(), "group=others") != 1 {
		t.Errorf("passed over %v times; logs: %s", n, &logs)
	}
	if n := testutil.ToFloat64(u.metrics.trimmed.WithLabelValues(tenant)); n != 3 {
		t.Errorf("%v entries were removed", n)
	}
	if n := s.count("XLEN", unread.Stream()); n != 1 {
		t.Errorf("%d entries of a stream that our group has not read, however long it is away", n)
	}
}

func TestUpkeepOfARetryStreamNeedsNoSetting(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	key := s.game.Tenant.RetryStream()
	add := func(id string) {
		t.Helper()
		if err := s.client.Do(t.Context(), s.client.B().Xadd().Key(key).Id(id).FieldValue().FieldValue("f:kind", "notice").Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	add(feed.IDAt(daysAgo(3)).EntryID())
	add(feed.IDAt(daysAgo(2)).EntryID())
	add("*")
	if _, err := s.client.Do(t.Context(), s.client.B().XgroupCreate().Key(key).Group(ofGroup).Id("0").Build()).ToString(); err != nil {
		t.Fatal(err)
	}
	u := s.newUpkeep(s.doorbell, &strings.Builder{})
	settle := func(n int64) {
		t.Helper()
		read := s.client.B().Xreadgroup().Group(ofGroup, "c").Count(n).Noack().Streams().Key(key).Id(">").Build()
		if err := s.client.Do(t.Context(), read).Error(); err != nil {
			t.Fatal(err)
		}
		s.upkeep(u, tenants.Limits{})
	}
	for step, want := range []int64{2, 1, 1} {
		settle(1)
		if n := s.count("XLEN", key); n != want {
			t.Errorf("%d entries with %d of 3 settled, want %d", n, step+1, want)
		}
	}
}

// broken is a store that fails for one tenant, or is down.
type broken struct {
	Expiry
	fails feed.TenantID
	err   error
	asked []feed.TenantID
}

func (b *broken) Drop(_ context.Context, tenant feed.TenantID, _ int) (int64, bool, error) {
	b.asked = append(b.asked, tenant)
	if tenant == b.fails {
		return 0, false, b.err
	}
	return 0, false, nil
}

func TestUpkeepGoesOnAfterTheFaultOfATenantAndWaitsWhileTheStoreIsDown(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for name, test := range map[string]struct {
		err   error
		asked string
	}{
		"a fault":          {errors.New("of this one"), "[a b c]"},
		"the store's down": {fmt.Errorf("drop: %w", context.DeadlineExceeded), "[a b]"},
	} {
		store := &broken{fails: "b", err: test.err}
		u := NewUpkeep(UpkeepConfig{Client: s.client, Group: ofGroup, Timeline: store, Doorbell: s.doorbell, Tenants: &turn{{ID: "a"}, {ID: "b"}, {ID: "c"}}})
		if err := u.Pass(t.Context()); !errors.Is(err, test.err) || fmt.Sprint(store.asked) != test.asked {
			t.Errorf("%s: %v, asked for %v", name, err, store.asked)
		}
	}
}
