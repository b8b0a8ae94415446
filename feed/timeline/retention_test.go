package timeline

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/codemojex/feedrenderer/feed"
)

// ended is a classic game of two players that was settled at at(5).
func (l line) ended() []feed.Line {
	return []feed.Line{
		l.opened(at(0), feed.ModeClassic), l.sets(at(1), feed.RegisterTitle, "the first"),
		l.scored(at(2), "ann", "50"), l.scored(at(3), "bob", "90"), l.corrects(at(4), at(2), map[string]string{"pct": "60"}),
		l.sets(at(5), feed.RegisterStatus, "settled"),
	}
}

// expire expects the lines of a game from before an id to end, and empties the table of them.
func (s *store) expire(t testing.TB, game feed.GameKey, before feed.ID) feed.Change {
	t.Helper()
	changes, err := s.Expire(t.Context(), game, before.Time())
	if err != nil || len(changes) != 1 {
		t.Fatalf("got %+v, %v", changes, err)
	}
	return changes[0]
}

// untouched expects that applying some lines writes nothing and rings for nothing.
func (s *store) untouched(t testing.TB, game feed.GameKey, lines ...feed.Line) {
	t.Helper()
	before := s.tuples(t, game)
	for _, change := range s.apply(t, lines...) {
		if change.From != change.To || len(change.Lines) > 0 {
			t.Errorf("rings %+v", change)
		}
	}
	if after := s.tuples(t, game); after != before {
		t.Errorf("wrote\n%s\nin place of\n%s", after, before)
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	tests := map[string]func(*testing.T, line){
		"TheHeaderOfAnExpiredGameStaysAndNothingElse": func(t *testing.T, g line) {
			s.apply(t, g.ended()...)
			before := s.game(t, g.key())
			change := s.expire(t, g.key(), at(6))
			after := s.game(t, g.key())
			if change.Epoch == before.Cursor.Epoch || change.From != change.To || after.Cursor != (feed.Cursor{Epoch: change.Epoch, Ver: change.To}) {
				t.Errorf("rings %+v for a game at %s that was at %s", change, after.Cursor, before.Cursor)
			}
			if after.Title != "the first" || after.Status != feed.StatusSettled || after.EndedAt == nil || after.StartedAt == nil || !after.Released ||
				after.Counts != (feed.Counts{}) || len(after.Board) != 0 || before.Counts.Players != 2 {
				t.Errorf("got %+v after %+v", after, before)
			}
			expect(t, s.texts(t, g.key()))
			if _, err := s.Line(t.Context(), g.key(), at(3)); !errors.Is(err, ErrNotFound) {
				t.Errorf("its line: %v", err)
			}
			if _, err := s.Changes(t.Context(), g.key(), before.Cursor, 9); !errors.Is(err, ErrEpoch) {
				t.Errorf("changes since before: %v", err)
			}
			changes, err := s.Changes(t.Context(), g.key(), feed.Cursor{Epoch: change.Epoch}, 9)
			if err != nil || len(changes.Lines) > 0 {
				t.Errorf("changes since ever: %+v, %v", changes, err)
			}
			for name, q := range map[string]PageQuery{"kind": {Kind: "scored"}, "actor": {Actor: "ann"}, "q": {Q: "ann"}, "after": {After: new(feed.ID)}} {
				q.Limit = 9
				if page, err := s.Page(t.Context(), g.key(), q); err != nil || len(page.Lines) > 0 {
					t.Errorf("a page by %s: %+v, %v", name, page.Lines, err)
				}
			}
		},
		"ReplayBringsNothingBack": func(t *testing.T, g line) {
			s.apply(t, g.ended()...)
			s.expire(t, g.key(), at(6))
			s.untouched(t, g.key(), g.ended()...)
			for more := true; more; {
				var err error
				if _, more, err = s.Drop(t.Context(), g.Tenant, 2); err != nil {
					t.Fatal(err)
				}
			}
			for _, event := range g.ended() {
				s.untouched(t, g.key(), event, again(event, 7))
			}
		},
		"WhatIsReadForTheFirstTimeBelowTheFloorHasNoSay": func(t *testing.T, g line) {
			s.apply(t, g.notice(at(2), "a"), g.sets(at(5), feed.RegisterStatus, "voided"))
			s.expire(t, g.key(), at(6))
			s.apply(t, g.scored(at(7), "ann", "50"))
			s.untouched(t, g.key(), g.opened(at(0), feed.ModeClassic), g.sets(at(1), feed.RegisterPool, "9"), g.revealed(at(4), "code"), g.notice(at(1), "b"))
			game := s.game(t, g.key())
			if game.Released || game.Mode != feed.ModeUnknown || game.Pool != "" || game.StartedAt != nil {
				t.Errorf("got %+v", game)
			}
			s.apply(t, g.opened(at(8), feed.ModeBlind), g.retracts(at(9), at(8), "a mistake"), g.revealed(at(4), "code"))
			if game := s.game(t, g.key()); game.Released || game.Mode != feed.ModeBlind || game.StartedAt != nil || game.Counts.Lines != 0 {
				t.Errorf("opened anew: %+v", game)
			}
			expect(t, s.texts(t, g.key()), "retracted: a mistake")
		},
		"AnAmendmentOfAnExpiredLineIsIgnored": func(t *testing.T, g line) {
			s.apply(t, g.ended()...)
			s.expire(t, g.key(), at(6))
			s.untouched(t, g.key(), g.corrects(at(8), at(2), map[string]string{"pct": "70"}), g.retracts(at(9), at(3), "late"))
			expect(t, s.texts(t, g.key()))
		},
		"WhatComesAboveTheFloorIsALineLikeAnother": func(t *testing.T, g line) {
			s.apply(t, g.ended()...)
			s.apply(t, g.notice(at(8), "after all"))
			s.expire(t, g.key(), at(6))
			s.apply(t, g.scored(at(9), "cyd", "10"), g.opened(at(1), feed.ModeBlind))
			expect(t, s.texts(t, g.key()), "cyd scored 10 %", "after all")
			if game := s.game(t, g.key()); game.Counts.Lines != 2 || game.Mode != feed.ModeClassic || len(game.Board) != 1 {
				t.Errorf("got %+v", game)
			}
			s.expire(t, g.key(), at(9))
			expect(t, s.texts(t, g.key()), "cyd scored 10 %")
			s.expire(t, g.key(), at(10))
			expect(t, s.texts(t, g.key()))
		},
		"TheReleaseOfAGameWithAFloorShowsWhatIsAboveIt": func(t *testing.T, g line) {
			s.apply(t, g.opened(at(0), feed.ModeBlind), g.scored(at(2), "ann", "50"), g.sets(at(3), feed.RegisterStatus, "settled"))
			s.expire(t, g.key(), at(6))
			s.apply(t, g.scored(at(7), "bob", "60"))
			expect(t, s.texts(t, g.key()))
			var shown []feed.ID
			for _, change := range s.apply(t, g.revealed(at(8), "code")) {
				for _, changed := range change.Lines {
					shown = append(shown, changed.Evt)
				}
			}
			if slices.Contains(shown, at(2)) || !slices.Contains(shown, at(7)) {
				t.Errorf("rings for %v", shown)
			}
			expect(t, s.texts(t, g.key()), "the code was code", "bob scored 60 %")
		},
		"ARendererOfTheVersionBeforeReleasesAsItDid": func(t *testing.T, g line) {
			s.apply(t, g.opened(at(0), feed.ModeBlind), g.scored(at(2), "ann", "50"))
			for _, reveals := range []bool{false, true} {
				if _, err := s.Writer.pool.Exec(t.Context(), `select release_game($1, $2, $3::boolean)`, string(g.Tenant), string(g.Game), reveals); err != nil {
					t.Fatal(err)
				}
				if released := s.game(t, g.key()).Released; released != reveals {
					t.Errorf("asked to reveal %v: %v", reveals, released)
				}
			}
		},
		"AGameThatGoesOnOrEndedLaterOrHasNothingOldIsLeftAlone": func(t *testing.T, g line) {
			s.apply(t, g.notice(at(1), "a"), g.sets(at(2), feed.RegisterStatus, "open"))
			other := line{g.Tenant, g.Game + "-later"}
			s.apply(t, other.notice(at(1), "a"), other.sets(at(8), feed.RegisterStatus, "settled"))
			young := line{g.Tenant, g.Game + "-young"}
			s.apply(t, young.notice(at(7), "a"), young.sets(at(2), feed.RegisterStatus, "settled"))
			expired, _, err := s.Expired(t.Context(), g.Tenant, at(6).Time(), "", 9)
			if err != nil || len(expired) > 0 {
				t.Errorf("to expire: %v, %v", expired, err)
			}
			for _, key := range []feed.GameKey{g.key(), other.key(), young.key()} {
				before := s.tuples(t, key)
				changes, err := s.Expire(t.Context(), key, at(6).Time())
				if err != nil || len(changes) > 0 || s.tuples(t, key) != before {
					t.Errorf("%s: %+v, %v", key, changes, err)
				}
			}
		},
		"ExpiredGamesAreListedInPagesAndLeaveTheListOnceTheyAreExpired": func(t *testing.T, g line) {
			list := func(after feed.GameID, most int) (string, feed.GameID) {
				t.Helper()
				keys, next, err := s.Expired(t.Context(), g.Tenant, at(6).Time(), after, most)
				if err != nil {
					t.Fatal(err)
				}
				var names []string
				for _, key := range keys {
					names = append(names, string(key.Game))
				}
				return strings.Join(names, " "), next
			}
			all := games(g.Tenant, 4)
			for _, each := range all {
				s.apply(t, each.ended()...)
			}
			s.expire(t, all[1].key(), at(6))
			for _, page := range []struct {
				after, next feed.GameID
				games       string
			}{{"", "g0001", "g0000"}, {"g0001", "g0003", "g0002 g0003"}, {"g0003", "", ""}} {
				if got, next := list(page.after, 2); got != page.games || next != page.next {
					t.Errorf("behind %s: %s, then behind %s; want %+v", page.after, got, next, page)
				}
			}
			for _, each := range []line{all[0], all[2], all[3]} {
				s.expire(t, each.key(), at(6))
			}
			if got, next := list("", 9); got != "" || next != "" {
				t.Errorf("got %s, then behind %s", got, next)
			}
		},
		"RowsLeaveInSmallSteps": func(t *testing.T, g line) {
			for _, each := range games(g.Tenant, 2) {
				s.apply(t, each.ended()...)
				s.apply(t, each.notice(at(8), "after all"))
				s.expire(t, each.key(), at(6))
			}
			for step, want := range []int64{2, 1, 2, 1, 0} {
				dropped, more, err := s.Drop(t.Context(), g.Tenant, 2)
				if err != nil || dropped != want || more != (step < 4) {
					t.Errorf("step %d: %d, %v, %v", step, dropped, more, err)
				}
			}
			for _, each := range games(g.Tenant, 2) {
				expect(t, s.texts(t, each.key()), "after all")
			}
		},
	}
	n := 0
	for name, test := range tests {
		n++
		g := line{feed.TenantID(fmt.Sprint("t", n)), feed.GameID(name[:min(len(name), 50)])}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, g)
		})
	}
}

// Floors rise at random moments among first deliveries and redeliveries; after each step the table is what the model says.
func TestNoLineAtOrBelowAFloorIsEverShownWhateverComesWhen(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	random := rand.New(rand.NewPCG(5, 5)) //nolint:gosec // no secret
	expired := 0
	for i, g := range games("acme", 40) {
		events := history(g, random.IntN)
		for range 2 {
			events = append(events, g.sets(at(random.IntN(20))+7, feed.RegisterStatus, string(feed.StatusSettled)))
		}
		events = append(events, delivered(events, random.IntN)...)
		want := newModel()
		for rest := delivered(events[:len(events)/2+random.IntN(len(events)/2)], random.IntN); len(rest) > 0; {
			n := min(len(rest), 1+random.IntN(9))
			s.apply(t, rest[:n]...)
			for j := range rest[:n] {
				want.apply(&rest[j])
			}
			rest = rest[n:]
			if random.IntN(2) > 0 {
				continue
			}
			before := at(random.IntN(20))
			changes, err := s.Expire(t.Context(), g.key(), before.Time())
			if rises := want.expire(before); err != nil || (len(changes) == 1) != rises {
				t.Fatalf("game %d rises to %s: %v, %+v, %v", i, before, rises, changes, err)
			}
			expired += len(changes)
			if random.IntN(3) == 0 {
				if _, _, err := s.Drop(t.Context(), g.Tenant, 1+random.IntN(3)); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.differs(t, g.key(), want); err != nil {
				t.Fatalf("game %d: %v", i, err)
			}
		}
	}
	if expired < 20 {
		t.Errorf("floors rose only %d times", expired)
	}
}

// Floors rise and rows go while writers deliver the same games over and over: nobody waits in a circle, and in the end
// there is of each game what is above its floor.
func TestFloorsRiseAmongWritersWithoutADeadlock(t *testing.T) {
	t.Parallel()
	const rounds, writers, perGame = 8, 4, 60
	s := newStore(t)
	all := games("acme", 6)
	var events []feed.Line
	for _, g := range all {
		events = append(events, g.sets(at(0), feed.RegisterStatus, "voided"))
		for i := range perGame {
			events = append(events, g.notice(at(i), "a"), g.corrects(at(i)+9, at(i), map[string]string{"text": "b"}))
		}
	}
	s.apply(t, events...)
	var written, raised, dropped atomic.Int64
	var work errgroup.Group
	for w := range writers {
		random := rand.New(rand.NewPCG(6, uint64(w))) //nolint:gosec // no secret
		work.Go(func() error {
			for round := range rounds {
				batch := slices.Clone(events)
				random.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
				for i := range batch { // newer than what is there, so that each is a write
					batch[i].KindVersion = 2 + round
				}
				for part := range slices.Chunk(batch, 200) {
					if _, err := s.Apply(t.Context(), part); err != nil {
						return err
					}
				}
				written.Add(int64(len(batch)))
			}
			return nil
		})
	}
	for range 2 { // two renderers see to the same games
		work.Go(func() error {
			for minute := 0; minute <= perGame/2 && written.Load() < writers*rounds*int64(len(events)); minute++ {
				for _, g := range all {
					changes, err := s.Expire(t.Context(), g.key(), at(minute).Time())
					if err != nil {
						return err
					}
					raised.Add(int64(len(changes)))
				}
				for more := true; more; {
					n, left, err := s.Drop(t.Context(), "acme", 3)
					if err != nil {
						return err
					}
					more = left
					dropped.Add(n)
				}
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d events written while %d floors rose and %d rows went", written.Load(), raised.Load(), dropped.Load())
	if raised.Load() < int64(len(all)) || dropped.Load() == 0 {
		t.Errorf("%d floors rose, %d rows went", raised.Load(), dropped.Load())
	}
	for _, g := range all {
		var floor, below int64
		if err := s.owner(t).QueryRow(t.Context(), `
select floor, (select count(*) from lines where tenant = $1 and game = $2 and evt <= g.floor) from games as g where tenant = $1 and game = $2`,
			string(g.Tenant), string(g.Game)).Scan(&floor, &below); err != nil {
			t.Fatal(err)
		}
		rows := s.rows(t, g.key())
		if lowest := rows[len(rows)-1].Evt; below != 0 || int64(lowest) <= floor || len(rows) != perGame-int(lowest.Time().Sub(at(0).Time())/time.Minute) {
			t.Errorf("%s: %d rows below its floor, %d lines shown from %s on", g.key(), below, len(rows), lowest)
		}
	}
}
