package timeline

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/codemojex/feedrenderer/feed"
)

func TestRelease(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	tests := map[string]func(t *testing.T, g line){
		"ScoresOfAnUnknownModeAreHidden": func(t *testing.T, g line) {
			changes := s.apply(t, g.scored(at(1), "ann", "50"), g.notice(at(2), "hello"))
			expect(t, s.texts(t, g.key()), "hello")
			if views := changes[0].Views(); len(views) != 1 || changes[0].To != 2 {
				t.Errorf("pushed %+v", views)
			}
			if game := s.game(t, g.key()); game.Counts != (feed.Counts{Lines: 1}) || len(game.Board) != 0 || game.Released {
				t.Errorf("got %+v", game)
			}
			if _, err := s.Line(t.Context(), g.key(), at(1)); !errors.Is(err, ErrNotFound) {
				t.Errorf("line: got %v, want ErrNotFound", err)
			}
			page, err := s.Page(t.Context(), g.key(), PageQuery{Limit: 9, Q: "ann"})
			if err != nil || len(page.Lines) != 0 {
				t.Errorf("search: got %+v, %v", page, err)
			}
		},
		"AModeThatIsNotBlindReleases": func(t *testing.T, g line) {
			s.apply(t, g.scored(at(1), "ann", "50"))
			changes := s.apply(t, g.opened(at(0), feed.ModeGolden))
			expect(t, s.texts(t, g.key()), "ann scored 50 %", "golden game opened")
			if len(changes) != 2 || !changes[1].Released || changes[1].From != changes[0].To || len(changes[1].Views()) != 1 {
				t.Errorf("pushed %+v", changes)
			}
		},
		"ABlindModeDoesNot": func(t *testing.T, g line) {
			s.apply(t, g.opened(at(0), feed.ModeBlind), g.scored(at(1), "ann", "50"))
			expect(t, s.texts(t, g.key()), "blind game opened")
		},
		"AModeThatWeDoNotKnowDoesNot": func(t *testing.T, g line) {
			s.apply(t, g.opened(at(0), "turbo"), g.scored(at(1), "ann", "50"))
			expect(t, s.texts(t, g.key()), "turbo game opened")
		},
		"TheRevealReleasesInOrderAndLateScoresArePublicAtOnce": func(t *testing.T, g line) {
			s.apply(t, g.opened(at(0), feed.ModeBlind), g.scored(at(2), "bob", "2"))
			s.apply(t, g.scored(at(1), "ann", "1"))
			changes := s.apply(t, g.revealed(at(5), "code"))
			if len(changes) != 2 {
				t.Fatalf("got %+v", changes)
			}
			var order []feed.ID
			for _, line := range changes[1].Lines {
				order = append(order, line.Evt)
			}
			if !slices.Equal(order, []feed.ID{at(2), at(1)}) { // as they were committed
				t.Errorf("released in order %v", order)
			}
			late := s.apply(t, g.scored(at(3), "cyd", "3"))
			if len(late[0].Views()) != 1 {
				t.Errorf("pushed %+v", late)
			}
			expect(t, s.texts(t, g.key()), "the code was code", "cyd scored 3 %", "bob scored 2 %", "ann scored 1 %", "blind game opened")
		},
		"ARetractedRevealHidesNothingAgain": func(t *testing.T, g line) {
			s.apply(t, g.scored(at(1), "ann", "1"), g.revealed(at(5), "code"))
			s.apply(t, g.retracts(at(6), at(5), "slip"))
			expect(t, s.texts(t, g.key()), "retracted: slip", "ann scored 1 %")
		},
		"TheLatchHoldsWhenTheModeTurnsBlind": func(t *testing.T, g line) {
			s.apply(t, g.opened(at(0), feed.ModeClassic), g.scored(at(1), "ann", "1"))
			s.apply(t, g.opened(at(2), feed.ModeBlind))
			expect(t, s.texts(t, g.key()), "blind game opened", "ann scored 1 %", "classic game opened")
		},
		"ACrashBetweenApplyAndReleaseHealsOnRedelivery": func(t *testing.T, g line) {
			score, reveal := g.scored(at(1), "ann", "1"), g.revealed(at(5), "code")
			s.apply(t, score)
			s.apply(t, g.opened(at(0), feed.ModeBlind))
			s.applyAndDie(t, score, reveal)
			expect(t, s.texts(t, g.key()), "the code was code", "blind game opened")
			changes := s.apply(t, score, reveal)
			if len(changes) != 2 || changes[0].From != changes[0].To || changes[1].From != changes[0].To || !changes[1].Released {
				t.Errorf("got %+v", changes)
			}
			views := changes[1].Views()
			if n := len(slices.DeleteFunc(views, func(v feed.View) bool { return v.Kind != "scored" })); n != 1 {
				t.Errorf("the score was pushed %d times", n)
			}
			expect(t, s.texts(t, g.key()), "the code was code", "ann scored 1 %", "blind game opened")
		},
		"AReleaseThatIsDoneWritesNothing": func(t *testing.T, g line) {
			batch := []feed.Line{g.opened(at(0), feed.ModeBlind), g.scored(at(1), "ann", "1"), g.revealed(at(5), "code")}
			s.apply(t, batch...)
			before := s.tuples(t, g.key())
			if changes := s.apply(t, batch...); len(changes) != 1 || s.tuples(t, g.key()) != before {
				t.Errorf("got %+v", changes)
			}
		},
		"AnAmendmentWithoutOriginalIsNotReleased": func(t *testing.T, g line) {
			s.apply(t, g.corrects(at(2), at(1), map[string]string{"pct": "9"}))
			changes := s.apply(t, g.opened(at(0), feed.ModeClassic))
			if views := changes[len(changes)-1].Views(); len(views) != 0 {
				t.Errorf("pushed %+v", views)
			}
			s.apply(t, g.scored(at(1), "ann", "1"))
			expect(t, s.texts(t, g.key()), "ann scored 9 %", "classic game opened")
		},
		"FieldsOfOneModeAreShownInThatModeAlone": func(t *testing.T, g line) {
			s.apply(t, g.revealed(at(5), "code"))
			expect(t, s.texts(t, g.key()), "the code was -")
			before := s.rows(t, g.key())[0].Ver
			changes := s.apply(t, g.opened(at(0), feed.ModeBlind))
			expect(t, s.texts(t, g.key()), "the code was code", "blind game opened")
			views := changes[len(changes)-1].Views()
			if len(views) != 1 || views[0].Text != "the code was code" || views[0].Ver <= before {
				t.Errorf("pushed %+v, the line had version %d", views, before)
			}
			s.apply(t, g.opened(at(1), feed.ModeClassic))
			expect(t, s.texts(t, g.key()), "the code was -", "classic game opened", "blind game opened")
		},
		"ALineStampedUnderAnotherModeHealsOnRedelivery": func(t *testing.T, g line) {
			s.apply(t, g.revealed(at(5), "code"))
			s.applyAndDie(t, g.opened(at(0), feed.ModeBlind))
			before := s.rows(t, g.key())[0].Ver
			s.apply(t, g.opened(at(0), feed.ModeBlind))
			if after := s.rows(t, g.key())[0].Ver; after <= before {
				t.Errorf("the line kept version %d", after)
			}
		},
		"AModeThatTurnsOftenDoesNotUseVersionsUp": func(t *testing.T, g line) {
			s.apply(t, g.revealed(at(0), "code"))
			for i := range 80 {
				s.apply(t, g.opened(at(1+i), []feed.Mode{feed.ModeBlind, feed.ModeClassic}[i%2]))
			}
			if ver := s.game(t, g.key()).Cursor.Ver; ver > 1000 {
				t.Errorf("version %d after 81 events", ver)
			}
		},
		"AnOperatorStatesTheModeOfAGameThatIsNotThere": func(t *testing.T, g line) {
			changes, err := s.SetMode(t.Context(), g.key(), feed.ModeClassic)
			if err != nil || len(changes) != 2 || !changes[1].Released {
				t.Errorf("got %+v, %v", changes, err)
			}
			assertChain(t, changes)
			if game := s.game(t, g.key()); game.Mode != feed.ModeClassic || !game.Released {
				t.Errorf("got %+v", game)
			}
			s.apply(t, g.scored(at(1), "ann", "1"))
			expect(t, s.texts(t, g.key()), "ann scored 1 %")
		},
		"AnOperatorReleasesWhatIsHidden": func(t *testing.T, g line) {
			s.apply(t, g.scored(at(1), "ann", "1"))
			changes, err := s.SetMode(t.Context(), g.key(), feed.ModeGolden)
			if err != nil || len(changes) != 2 || len(changes[1].Views()) != 1 {
				t.Errorf("got %+v, %v", changes, err)
			}
		},
		"AnOperatorIsNewerThanTheEventsSoFarAndOlderThanThoseToCome": func(t *testing.T, g line) {
			const top = feed.ID(1<<63 - 2) // a mint far ahead of the clock
			s.apply(t, g.opened(top, feed.ModeBlind))
			if _, err := s.SetMode(t.Context(), g.key(), feed.ModeClassic); err != nil {
				t.Fatal(err)
			}
			if mode := s.game(t, g.key()).Mode; mode != feed.ModeClassic {
				t.Errorf("the operator's word is lost behind a mint that is ahead: %q", mode)
			}
			s.apply(t, again(g.opened(top+1, feed.ModeGolden), 1))
			if mode := s.game(t, g.key()).Mode; mode != feed.ModeGolden {
				t.Errorf("got %q", mode)
			}
		},
		"AnOperatorCannotStateAnUnknownMode": func(t *testing.T, g line) {
			if _, err := s.SetMode(t.Context(), g.key(), feed.ModeUnknown); err == nil {
				t.Error("got no error")
			}
		},
		"ARenderingThatHidesALineChangesTheEpoch": func(t *testing.T, g line) {
			before := s.apply(t, g.notice(at(1), "a"))[0]
			hides := again(g.notice(at(1), "a"), 2)
			hides.Base.Visibility = feed.Score
			after := s.apply(t, hides)[0]
			if after.Epoch == before.Epoch || after.Epoch != s.game(t, g.key()).Cursor.Epoch {
				t.Errorf("epoch %s, before %s", after.Epoch, before.Epoch)
			}
			expect(t, s.texts(t, g.key()))
			if again := s.apply(t, hides)[0]; again.Epoch != after.Epoch {
				t.Errorf("epoch %s, before %s", again.Epoch, after.Epoch)
			}
		},
		"InAReleasedGameItHidesNothing": func(t *testing.T, g line) {
			before := s.apply(t, g.opened(at(0), feed.ModeClassic), g.notice(at(1), "a"))[0]
			hides := again(g.notice(at(1), "b"), 2)
			hides.Base.Visibility = feed.Score
			if after := s.apply(t, hides)[0]; after.Epoch != before.Epoch {
				t.Errorf("epoch %s, before %s", after.Epoch, before.Epoch)
			}
			expect(t, s.texts(t, g.key()), "b", "classic game opened")
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, line{Tenant: feed.TenantID("t" + fmt.Sprint(len(name))), Game: feed.GameID(name[:min(len(name), 64)])})
		})
	}
}

// applyAndDie applies a batch and ends before the release.
func (s *store) applyAndDie(t testing.TB, lines ...feed.Line) {
	t.Helper()
	texts, inputs := make([]encoded, len(lines)), make([]int, len(lines))
	for i := range lines {
		var err error
		if texts[i], err = encode(&lines[i]); err != nil {
			t.Fatal(err)
		}
		inputs[i] = i
	}
	if _, err := s.store(t.Context(), newBatch(lines, texts, inputs)); err != nil {
		t.Fatal(err)
	}
}
