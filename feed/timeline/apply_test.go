package timeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codemojex/feedrenderer/feed"
)

func TestApply(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	tests := map[string]func(t *testing.T, g line){
		"ALateOriginalFillsInItsBaseAndLeavesTheCorrection": func(t *testing.T, g line) {
			s.apply(t, g.corrects(at(5), at(1), map[string]string{"text": "right"}))
			s.apply(t, g.notice(at(1), "wrong"))
			expect(t, s.texts(t, g.key()), "right")
		},
		"ACorrectionWithoutItsOriginalShowsNothing": func(t *testing.T, g line) {
			changes := s.apply(t, g.corrects(at(5), at(1), map[string]string{"text": "right"}))
			expect(t, s.texts(t, g.key()))
			if len(changes) != 1 || len(changes[0].Lines) != 0 || s.game(t, g.key()).Counts.Lines != 0 {
				t.Errorf("shown: %+v", changes)
			}
			if _, err := s.Line(t.Context(), g.key(), at(1)); !errors.Is(err, ErrNotFound) {
				t.Errorf("line: got %v, want ErrNotFound", err)
			}
		},
		"ALateOriginalGetsAVersionOfItsOwn": func(t *testing.T, g line) {
			first := s.apply(t, g.corrects(at(5), at(1), map[string]string{"text": "right"}))[0]
			second := s.apply(t, g.notice(at(1), "wrong"))[0]
			if len(second.Lines) != 1 || second.Lines[0].Ver <= first.To {
				t.Errorf("got %+v after version %d", second, first.To)
			}
		},
		"ANewerAmendmentStandsAlone": func(t *testing.T, g line) {
			s.apply(t, g.scored(at(1), "ann", "10"), g.opened(at(0), feed.ModeClassic))
			s.apply(t, g.corrects(at(3), at(1), map[string]string{"player": "bob"}))
			s.apply(t, g.corrects(at(4), at(1), map[string]string{"pct": "20"}))
			s.apply(t, g.corrects(at(2), at(1), map[string]string{"pct": "30"}))
			expect(t, s.texts(t, g.key()), "ann scored 20 %", "classic game opened")
		},
		"ACorrectionAfterARetractionBringsTheLineBack": func(t *testing.T, g line) {
			s.apply(t, g.notice(at(1), "a"), g.retracts(at(2), at(1), "slip"))
			expect(t, s.texts(t, g.key()), "retracted: slip")
			s.apply(t, g.corrects(at(3), at(1), map[string]string{"text": "b"}))
			expect(t, s.texts(t, g.key()), "b")
		},
		"ARetractedLineGivesOutNothingButStateAndReason": func(t *testing.T, g line) {
			s.apply(t, g.notice(at(1), "a"), g.retracts(at(2), at(1), "slip"))
			when := feed.Instant(at(2).Time())
			want := feed.View{
				Evt: at(1), Ver: 1, At: feed.Instant(at(1).Time()), Fields: map[string]string{}, State: feed.Retracted, Reason: "slip", AmendedAt: &when,
			}
			if diff := cmp.Diff([]feed.View{want}, s.rows(t, g.key()), compareInstants); diff != "" {
				t.Error(diff)
			}
		},
		"ACorrectionSmugglesNoFieldOut": func(t *testing.T, g line) {
			s.apply(t, g.notice(at(1), "a"), g.corrects(at(2), at(1), map[string]string{"guess": "secret"}))
			if got := s.rows(t, g.key())[0].Fields["guess"]; got != "" {
				t.Errorf("guess %q is given out", got)
			}
		},
		"ANewerKindVersionRendersAnew": func(t *testing.T, g line) {
			s.apply(t, again(g.notice(at(1), "second"), 2))
			s.apply(t, g.notice(at(1), "first"))
			expect(t, s.texts(t, g.key()), "second")
		},
		"AnAmendmentOfTheSameEventRendersAnew": func(t *testing.T, g line) {
			s.apply(t, g.notice(at(1), "a"), again(g.corrects(at(2), at(1), map[string]string{"text": "second"}), 2))
			s.apply(t, g.corrects(at(2), at(1), map[string]string{"text": "first"}))
			expect(t, s.texts(t, g.key()), "second")
		},
		"ALateStatusIsNotLostBehindANewerPool": func(t *testing.T, g line) {
			s.apply(t, g.sets(at(9), feed.RegisterPool, "500"))
			s.apply(t, g.sets(at(1), feed.RegisterStatus, "revealing"))
			if game := s.game(t, g.key()); game.Status != "revealing" || game.Pool != "500" {
				t.Errorf("got status %q, pool %q", game.Status, game.Pool)
			}
		},
		"AnOlderStatusIsStale": func(t *testing.T, g line) {
			s.apply(t, g.sets(at(9), feed.RegisterStatus, "settled"))
			before := s.game(t, g.key())
			change := s.apply(t, g.sets(at(1), feed.RegisterStatus, "revealing"))[0]
			if after := s.game(t, g.key()); after.Status != "settled" || change.From != change.To || after.Cursor != before.Cursor {
				t.Errorf("got %+v after %+v", after, before)
			}
		},
		"AGameStartedWithItsFirstOpenAndEndedWithItsFinalStatus": func(t *testing.T, g line) {
			s.apply(t, g.sets(at(9), feed.RegisterStatus, "settled"), g.sets(at(5), feed.RegisterStatus, "open"))
			s.apply(t, g.sets(at(2), feed.RegisterStatus, "open"), g.sets(at(1), feed.RegisterStatus, "gathering"))
			game := s.game(t, g.key())
			if !game.StartedAt.Time().Equal(at(2).Time()) || !game.EndedAt.Time().Equal(at(9).Time()) {
				t.Errorf("got %v .. %v", game.StartedAt, game.EndedAt)
			}
		},
		"AnUnreadableEndIsNoEnd": func(t *testing.T, g line) {
			s.apply(t, g.sets(at(1), feed.RegisterEndsAt, "1772366400000"), g.sets(at(2), feed.RegisterEndsAt, "soon"))
			if got := s.game(t, g.key()).EndsAt; got.String() != "2026-03-01T12:00:00.000Z" {
				t.Errorf("got %v", got)
			}
		},
		"VersionsGoByTheNumberOfEventsNotByWhatTheySay": func(t *testing.T, g line) {
			change := s.apply(t, g.notice(at(1), "a"), g.scored(at(2), "ann", "3"), g.sets(at(3), feed.RegisterPool, "5"), g.notice(at(1), "a"))[0]
			if change.From != 0 || change.To != 4 || len(change.Lines) != 2 || change.Lines[0].Ver != 1 || change.Lines[1].Ver != 2 {
				t.Errorf("got %+v", change)
			}
		},
		"AChangeHoldsTheStoredPartsWhereAnAmendmentComesAlone": func(t *testing.T, g line) {
			s.apply(t, g.notice(at(1), "a"))
			change := s.apply(t, g.corrects(at(2), at(1), map[string]string{"text": "b"}))[0]
			if views := change.Views(); len(views) != 1 || views[0].Text != "b" || views[0].Ver != change.To {
				t.Errorf("got %+v", views)
			}
		},
		"AChangeHoldsTheStoredPartsWhereAnOriginalComesLate": func(t *testing.T, g line) {
			s.apply(t, g.amends(at(2), at(1), feed.Amendment{Text: "b"}))
			if views := s.apply(t, g.notice(at(1), "a"))[0].Views(); len(views) != 1 || views[0].Text != "b" {
				t.Errorf("got %+v", views)
			}
		},
		"EveryGameOfABatchAnswersInOrder": func(t *testing.T, g line) {
			other := line{Tenant: g.Tenant + "x", Game: g.Game}
			s.apply(t, g.notice(at(1), "a"))
			changes := s.apply(t, other.notice(at(1), "b"), g.notice(at(1), "a"))
			if len(changes) != 2 || changes[0].Game != g.key() || changes[0].From != 1 || changes[0].To != 1 || changes[1].To != 1 {
				t.Errorf("got %+v", changes)
			}
		},
		"AnEmptyBatchIsNothing": func(t *testing.T, _ line) {
			if changes := s.apply(t); len(changes) != 0 {
				t.Errorf("got %+v", changes)
			}
		},
		"TwoTenantsMayUseTheSameGame": func(t *testing.T, g line) {
			other := line{Tenant: g.Tenant + "x", Game: g.Game}
			s.apply(t, g.notice(at(1), "a"), other.notice(at(1), "b"))
			expect(t, s.texts(t, g.key()), "a")
			expect(t, s.texts(t, other.key()), "b")
		},
		"AStaleBatchWritesNothing": func(t *testing.T, g line) {
			batch := []feed.Line{
				g.opened(at(0), feed.ModeClassic), g.scored(at(1), "ann", "5"), g.corrects(at(2), at(1), map[string]string{"pct": "6"}),
				g.sets(at(3), feed.RegisterPool, "9"), g.revealed(at(4), "code"), g.retracts(at(9), at(8), "of nothing"),
			}
			s.apply(t, batch...)
			before := s.tuples(t, g.key())
			changes := s.apply(t, batch...)
			if after := s.tuples(t, g.key()); after != before {
				t.Errorf("rows were written anew: %s, before %s", after, before)
			}
			if len(changes) != 1 || changes[0].From != changes[0].To || len(changes[0].Lines) != 0 {
				t.Errorf("got %+v", changes)
			}
		},
		"WhatIsAtOrBelowTheFloorIsGoneForGood": func(t *testing.T, g line) {
			lines := []feed.Line{g.opened(at(0), feed.ModeClassic), g.scored(at(1), "ann", "5"), g.scored(at(2), "bob", "6")}
			s.apply(t, lines...)
			s.exec(t, `update games set floor = $3 where tenant = $1 and game = $2`, string(g.Tenant), string(g.Game), int64(at(1)))
			before := s.game(t, g.key())
			if before.Counts.Lines != 1 || len(before.Board) != 1 || before.Board[0].Player != "bob" {
				t.Errorf("got %+v", before)
			}
			expect(t, s.texts(t, g.key()), "bob scored 6 %")
			s.exec(t, `delete from lines where tenant = $1 and game = $2 and evt <= $3`, string(g.Tenant), string(g.Game), int64(at(1)))
			change := s.apply(t, lines...)[0]
			expect(t, s.texts(t, g.key()), "bob scored 6 %")
			if change.From != change.To || s.game(t, g.key()).Cursor != before.Cursor {
				t.Errorf("a replay below the floor moved the game: %+v", change)
			}
			s.apply(t, append(lines, g.scored(at(3), "cyd", "7"))...)
			expect(t, s.texts(t, g.key()), "cyd scored 7 %", "bob scored 6 %")
			changes, err := s.Changes(t.Context(), g.key(), feed.Cursor{Epoch: before.Cursor.Epoch}, 10)
			if err != nil || len(changes.Lines) != 2 {
				t.Errorf("changes: %+v, %v", changes, err)
			}
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, line{Tenant: feed.TenantID("t" + fmt.Sprint(len(name))), Game: feed.GameID(name[:min(len(name), 64)])})
		})
	}
}

func expect(t testing.TB, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// tuples names the physical rows of a game: they change with every write, though it write the same values.
func (s *store) tuples(t testing.TB, key feed.GameKey) string {
	t.Helper()
	var tuples string
	err := s.owner(t).QueryRow(t.Context(), `
select string_agg(t, ' ') from (
  select ctid || '/' || xmin || '/' || xmax from games where tenant = $1 and game = $2
  union all select ctid || '/' || xmin || '/' || xmax from lines where tenant = $1 and game = $2) as t (t)`,
		string(key.Tenant), string(key.Game)).Scan(&tuples)
	if err != nil {
		t.Fatal(err)
	}
	return tuples
}

// exec runs SQL as the login that migrated.
func (s *store) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := s.owner(t).Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// An original, two corrections and a retraction, each three times, in every order.
func TestEveryOrderOfAnOriginalAndItsAmendmentsEndsTheSame(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	orders := permutations(4)
	for i, g := range games("acme", 3*len(orders)) {
		events := []feed.Line{
			g.notice(at(1), "original"), g.corrects(at(2), at(1), map[string]string{"text": "first"}),
			g.retracts(at(3), at(1), "slip"), g.corrects(at(4), at(1), map[string]string{"text": "second"}),
		}
		var deliveries []feed.Line
		for round := range 3 {
			for _, n := range orders[i/3] {
				switch i % 3 {
				case 0: // three rounds in the same order
					deliveries = append(deliveries, events[n])
				case 1: // each thrice in a row
					if round == 0 {
						deliveries = append(deliveries, events[n], events[n], events[n])
					}
				case 2: // another order in each round
					deliveries = append(deliveries, events[(n+round)%4])
				}
			}
		}
		for batch := range slices.Chunk(deliveries, 1+i%5) {
			s.apply(t, batch...)
		}
		rows := s.rows(t, g.key())
		if len(rows) != 1 || rows[0].Text != "second" || rows[0].State != feed.Corrected || rows[0].Kind != "notice" {
			t.Errorf("order %v: got %+v", orders[i/3], rows)
		}
	}
}

func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for _, rest := range permutations(n - 1) {
		for i := range n {
			all = append(all, slices.Insert(slices.Clone(rest), i, n-1))
		}
	}
	return all
}

// assertChain expects the changes of each game to follow on each other.
func assertChain(t *testing.T, changes []feed.Change) {
	t.Helper()
	top := make(map[feed.GameKey]int64)
	for _, change := range changes {
		if change.From != top[change.Game] || change.To < change.From {
			t.Errorf("%s: change %d..%d after version %d", change.Game, change.From, change.To, top[change.Game])
		}
		top[change.Game] = change.To
	}
}

func TestAHugeBatchIsWrittenInSeveralStatements(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var lines []feed.Line
	for i := range 40 {
		lines = append(lines, g1.notice(at(i), strings.Repeat("x", 1<<20)))
	}
	assertChain(t, s.apply(t, lines...))
	if game := s.game(t, g1.key()); game.Counts.Lines != 40 {
		t.Errorf("got %+v", game)
	}
}

func TestALockedGameHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	free := line{"acme", "free"}
	s.apply(t, g1.notice(at(1), "a"))
	owner := s.owner(t)
	tx, err := owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `select from games where game = 'g1' for update`); err != nil {
		t.Fatal(err)
	}
	lines := []feed.Line{free.notice(at(1), "b"), g1.notice(at(2), "c"), free.notice(at(3), "d"), g1.notice(at(4), "e")}
	_, err = s.Apply(t.Context(), lines)
	var busy *BusyError
	if !errors.As(err, &busy) || !slices.Equal(busy.Indexes, []int{1, 3}) || !Unavailable(err) {
		t.Errorf("got %v, want the lines of g1 to be busy", err)
	}
	expect(t, s.texts(t, free.key()), "d", "b")
	expect(t, s.texts(t, g1.key()), "a")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.apply(t, lines...)
	expect(t, s.texts(t, g1.key()), "e", "c", "a")
}

func TestAMigrationUnderAnOpenConnectionIsNotAnError(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.apply(t, g1.sets(at(1), feed.RegisterTitle, "a"))
	s.game(t, g1.key())
	s.exec(t, `alter table games alter column title type varchar(40)`) // a statement that was prepared before now answers 0A000
	s.apply(t, g1.sets(at(2), feed.RegisterTitle, "b"))
	if got := s.game(t, g1.key()).Title; got != "b" {
		t.Errorf("got title %q", got)
	}
}
