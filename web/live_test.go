package web

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/watch"
)

func TestLive(t *testing.T) {
	t.Parallel()

	t.Run("ASnapshotComesFirstThenWhatIsCommittedAfterIt", func(t *testing.T) {
		t.Parallel()
		m := newModel(acme)
		for i := range 5 {
			m.say(acme, evt(i), text(i))
		}
		w := serve(t, m, nil).dial(t, "acme")
		w.sub("g1", feed.Cursor{}, 3)
		snap := w.next()
		equal(t, texts(snap.Lines), []string{"line 4", "line 3", "line 2"})
		if snap.T != "snap" || !snap.Older || snap.To != 5 || snap.Epoch != "e1" || snap.Header == nil || snap.Game != "g1" {
			t.Errorf("snap = %+v", snap)
		}
		m.say(acme, evt(9), "after")
		m.say(acme, evt(2), "corrected")
		first := w.next()
		if first.T != "lines" || first.From != 5 {
			t.Errorf("first live frame = %+v", first)
		}
		last := first
		got := first.Lines
		for last.To < 7 {
			next := w.next()
			if next.From != last.To {
				t.Errorf("frame from %d after one to %d", next.From, last.To)
			}
			last, got = next, append(got, next.Lines...)
		}
		equal(t, texts(got), []string{"after", "corrected"})
	})

	t.Run("AnUnknownGameAndAnUnknownTenantAndABadNameGetOneAnswer", func(t *testing.T) {
		t.Parallel()
		m := newModel(acme)
		seen := make(chan feed.GameKey, 10)
		s := serve(t, m, func(c *Config) { c.OnUnseen = func(key feed.GameKey) { seen <- key } })
		for tenant, game := range map[string]feed.GameID{"acme": "nope", "nobody": "g1", "secret": "g1"} {
			w := s.dial(t, tenant)
			w.sub(game, feed.Cursor{}, 0)
			f := w.next()
			equal(t, f, watch.Frame{T: "err", Code: errNotFound, Msg: msgNotFound, Game: game})
		}
		w := s.dial(t, "acme")
		w.sub("bad name!", feed.Cursor{}, 0)
		equal(t, w.next(), watch.Frame{T: "err", Code: errNotFound, Msg: msgNotFound, Game: "bad name!"})
		if key := <-seen; key != (feed.GameKey{Tenant: "acme", Game: "nope"}) || len(seen) != 0 {
			t.Errorf("told of %v and %d more", key, len(seen))
		}
	})

	t.Run("AGameThatComesLaterIsThereWhenAskedAgain", func(t *testing.T) {
		t.Parallel()
		m := newModel()
		w := serve(t, m, nil).dial(t, "acme")
		w.sub("g1", feed.Cursor{}, 0)
		if f := w.next(); f.T != "err" {
			t.Fatalf("got %+v", f)
		}
		m.create(acme)
		m.say(acme, evt(1), "first")
		w.sub("g1", feed.Cursor{}, 0)
		equal(t, texts(w.next().Lines), []string{"first"})
	})

	t.Run("AGameThatGoesIsSaidToBeGone", func(t *testing.T) {
		t.Parallel()
		m := newModel(acme)
		w := serve(t, m, nil).dial(t, "acme")
		w.sub("g1", feed.Cursor{}, 0)
		w.next()
		m.set(func(m *model) { delete(m.games, acme) })
		equal(t, w.next().Code, errNotFound)
	})

	t.Run("FiveGamesShareASocketAndResumeOnTheNext", func(t *testing.T) {
		t.Parallel()
		games := []feed.GameID{"a", "b", "c", "d", "e"}
		m := newModel()
		for _, game := range games {
			m.create(feed.GameKey{Tenant: "acme", Game: game})
		}
		s := serve(t, m, nil)
		w := s.dial(t, "acme")
		cursors := map[feed.GameID]feed.Cursor{}
		for _, game := range games {
			w.sub(game, feed.Cursor{}, 0)
		}
		for range games {
			f := w.next()
			cursors[f.Game] = feed.Cursor{Epoch: f.Epoch, Ver: f.To}
		}
		_ = w.conn.CloseNow()
		for i, game := range games {
			m.say(feed.GameKey{Tenant: "acme", Game: game}, evt(i), string(game))
		}
		w = s.dial(t, "acme")
		for _, game := range games {
			w.sub(game, cursors[game], 0)
		}
		got := map[feed.GameID][]string{}
		for range games {
			f := w.next()
			if f.T != "delta" {
				t.Errorf("got %+v", f)
			}
			got[f.Game] = texts(f.Lines)
		}
		for _, game := range games {
			equal(t, got[game], []string{string(game)})
		}
	})

	t.Run("NoLineIsSentAgainToOneWhoResumesFiveTimes", func(t *testing.T) {
		t.Parallel()
		m := newModel(acme)
		m.say(acme, evt(1), "once")
		s := serve(t, m, nil)
		w := s.dial(t, "acme")
		w.sub("g1", feed.Cursor{}, 0)
		snap := w.next()
		at := feed.Cursor{Epoch: snap.Epoch, Ver: snap.To}
		for range 5 {
			_ = w.conn.CloseNow()
			w = s.dial(t, "acme")
			w.sub("g1", at, 0)
			f := w.next()
			if f.T != "delta" || f.From != at.Ver || f.To != at.Ver || len(f.Lines) != 0 {
				t.Errorf("got %+v", f)
			}
		}
		if n := m.count("changes"); n > 1 {
			t.Errorf("%d queries, the memory of the hub answers all", n)
		}
	})

	t.Run("ACursorThatLeadsNowhereIsResetAndFollowedByASnapshot", func(t *testing.T) {
		t.Parallel()
		m := newModel(acme)
		m.say(acme, evt(1), "one")
		s := serve(t, m, nil)
		for _, open := range []bool{false, true} { // with the hub unopened, and with it at work
			for _, since := range []string{"e0:1", "e1:2", "e1:99999", "garbage", "e1:-1", "e1:"} {
				w := s.dial(t, "acme")
				if open {
					w.sub("g1", feed.Cursor{}, 0)
					w.next()
				}
				w.raw(`{"t":"sub","g":"g1","since":"` + since + `"}`)
				if f := w.next(); f.T != "reset" || f.Reason == "" {
					t.Errorf("since %s: got %+v", since, f)
				}
				if f := w.next(); f.T != "snap" || len(f.Lines) != 1 {
					t.Errorf("since %s: got %+v", since, f)
				}
				_ = w.conn.CloseNow()
			}
		}
	})

	t.Run("ANewEpochResetsAllWhoWatch", func(t *testing.T) {
		t.Parallel()
		m := newModel(acme)
		m.say(acme, evt(1), "old")
		s := serve(t, m, nil)
		w := s.dial(t, "acme")
		w.sub("g1", feed.Cursor{}, 0)
		w.next()
		m.set(func(m *model) {
			m.games[acme] = &modelGame{epoch: "e2", ver: 1, lines: map[feed.ID]feed.View{evt(2): {Evt: evt(2), Ver: 1, Text: "new"}}}
		})
		equal(t, w.next(), watch.Frame{T: "reset", Game: "g1", Reason: resetEpoch})
		snap := w.next()
		equal(t, texts(snap.Lines), []string{"new"})
		equal(t, snap.Epoch, "e2")
		m.say(acme, evt(3), "live")
		equal(t, texts(w.next().Lines), []string{"live"})
	})

	t.Run("OneWhoWasAwayForTwentyThousandChangesGetsAFreshSnapshotOrTheTail", func(t *testing.T) {
		t.Parallel()
		m := newModel(acme)
		s := serve(t, m, nil)
		for _, behind := range []int{1000, 20_000} {
			w := s.dial(t, "acme")
			w.sub("g1", feed.Cursor{}, 0)
			snap := w.next()
			at := feed.Cursor{Epoch: snap.Epoch, Ver: snap.To}
			_ = w.conn.CloseNow()
			m.set(func(m *model) { m.drop = 1 })
			for i := range behind {
				m.say(acme, evt(i), text(i))
			}
			m.set(func(m *model) { m.drop = 0 })
			w = s.dial(t, "acme")
			w.sub("g1", at, 0)
			f := w.next()
			state := watch.State{Game: "g1", Cursor: at}
			for {
				if f.T == "err" {
					t.Fatalf("got %+v", f)
				}
				if state.Apply(f) {
					t.Fatalf("gap before %+v", f)
				}
				if state.Cursor.Ver == at.Ver+int64(behind) {
					break
				}
				f = w.next()
			}
			m.mu.Lock()
			table, _ := m.games[acme].newest(len(state.Lines))
			m.mu.Unlock()
			if len(state.Lines) < defaultLimit || !slices.EqualFunc(state.Lines, table, sameLine) {
				t.Errorf("%d changes behind: %d lines, which the table has otherwise", behind, len(state.Lines))
			}
			_ = w.conn.CloseNow()
		}
	})

	t.Run("ALostTailIsFoundByTheSweepAndShownByTheTick", func(t *testing.T) {
		t.Parallel()
		m := newModel(acme)
		s := serve(t, m, nil)
		w := s.dial(t, "acme")
		w.sub("g1", feed.Cursor{}, 0)
		w.next()
		m.set(func(m *model) { m.drop = 1 })
		m.say(acme, evt(1), "unheard")
		equal(t, texts(w.next().Lines), []string{"unheard"})
		tick := w.until(func(f watch.Frame) bool { return f.T == "tick" })
		equal(t, tick.Games, []watch.TickGame{{Game: "g1", To: 1, Watchers: 1}})
	})

	t.Run("AHeaderIsSentWhereItSaysSomethingNew", func(t *testing.T) {
		t.Parallel()
		m := newModel(acme)
		w := serve(t, m, nil).dial(t, "acme")
		w.sub("g1", feed.Cursor{}, 0)
		w.next()
		m.set(func(m *model) { m.games[acme].title = "finals" })
		m.say(acme, evt(1), "one")
		w.header(func(game *feed.Game) bool { return game.Title == "finals" && game.Cursor.Ver == 1 })
	})

	t.Run("AnUnsubscribedGameIsSilent", func(t *testing.T) {
		t.Parallel()
		m := newModel(acme)
		w := serve(t, m, nil).dial(t, "acme")
		w.sub("g1", feed.Cursor{}, 0)
		w.next()
		w.do(func(ctx context.Context) error { return w.conn.Unsubscribe(ctx, "g1") })
		w.do(w.conn.Ping)
		w.until(func(f watch.Frame) bool { return f.T == "pong" })
		m.say(acme, evt(1), "unheard")
		w.do(w.conn.Ping)
		equal(t, w.next().T, "pong")
	})

	t.Run("WhoComesToAGameThatCannotBeCountedIsSentTheLastHeader", func(t *testing.T) {
		t.Parallel()
		m := newModel(acme)
		table := &uncounted{model: m}
		s := serve(t, m, func(c *Config) { c.Timeline = table })
		m.say(acme, evt(1), "one")
		w := s.dial(t, "acme")
		w.sub("g1", feed.Cursor{}, 0)
		w.header(func(game *feed.Game) bool { return game.Cursor.Ver == 1 })
		table.off.Store(true)
		m.say(acme, evt(2), "two")
		equal(t, texts(w.next().Lines), []string{"two"})
		eventually(t, "it was tried twice", func() bool { return table.tries.Load() >= 2 })
		late := s.dial(t, "acme")
		late.sub("g1", feed.Cursor{}, 0)
		equal(t, texts(late.next().Lines), []string{"two", "one"})
		equal(t, late.game.Cursor.Ver, int64(1))
	})

	t.Run("ManyWhoComeAtOnceCostOneQuery", func(t *testing.T) {
		t.Parallel()
		m := newModel(acme)
		m.say(acme, evt(1), "one")
		come := func(s *site, since func(int) feed.Cursor) []*wire {
			all := make([]*wire, 50)
			for i := range all {
				all[i] = s.dial(t, "acme")
			}
			m.set(func(m *model) {
				m.during = func() { eventually(t, "all wait", func() bool { return s.watching(acme) == len(all) }) }
			})
			for i, w := range all {
				w.sub("g1", since(i), 0)
			}
			return all
		}
		for _, w := range come(serve(t, m, nil), func(int) feed.Cursor { return feed.Cursor{} }) {
			equal(t, texts(w.next().Lines), []string{"one"})
		}
		if n := m.count("snapshot"); n != 1 {
			t.Errorf("%d snapshots read for 50 watchers", n)
		}
		// The same when all resume, each from a place of its own, on a hub that has forgotten.
		for i := range 100 {
			m.say(acme, evt(2+i), text(i))
		}
		other := serve(t, m, nil)
		before := m.count("changes")
		for i, w := range come(other, func(i int) feed.Cursor { return feed.Cursor{Epoch: "e1", Ver: int64(100 - i)} }) {
			f := w.next()
			if f.T != "delta" || len(f.Lines) != 1+i {
				t.Errorf("resumed at %d by %s of %d lines", 100-i, f.T, len(f.Lines))
			}
		}
		if n := m.count("changes") - before; n > 3 { // whoever was first, then all the others
			t.Errorf("%d queries for 50 who resume", n)
		}
	})
}

// uncounted is a table that knows everything, and at times cannot say the counts of a game alone: they take longer than a
// read may.
type uncounted struct {
	*model
	off   atomic.Bool
	tries atomic.Int64
}

func (u *uncounted) Game(ctx context.Context, key feed.GameKey) (feed.Game, error) {
	if u.off.Load() {
		u.tries.Add(1)
		return feed.Game{}, context.DeadlineExceeded
	}
	return u.model.Game(ctx, key)
}
