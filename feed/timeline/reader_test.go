package timeline

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codemojex/feedrenderer/feed"
)

func TestPage(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for i := range 10 {
		s.apply(t, g1.notice(at(i), fmt.Sprint("n", i)))
	}
	id := func(n int) *feed.ID {
		v := at(n)
		return &v
	}
	tests := map[string]struct {
		query PageQuery
		want  []string
		more  bool
	}{
		"TheNewestFirst":                     {PageQuery{Limit: 3}, []string{"n9", "n8", "n7"}, true},
		"BeforeALine":                        {PageQuery{Limit: 3, Before: id(3)}, []string{"n2", "n1", "n0"}, false},
		"BeforeALineAndThereIsMore":          {PageQuery{Limit: 2, Before: id(3)}, []string{"n2", "n1"}, true},
		"BeforeTheFirst":                     {PageQuery{Limit: 2, Before: id(0)}, nil, false},
		"AfterALineTheNearestNewestFirst":    {PageQuery{Limit: 3, After: id(3)}, []string{"n6", "n5", "n4"}, true},
		"AfterALineToTheEnd":                 {PageQuery{Limit: 3, After: id(6)}, []string{"n9", "n8", "n7"}, false},
		"BetweenTwoLines":                    {PageQuery{Limit: 9, After: id(3), Before: id(6)}, []string{"n5", "n4"}, false},
		"FromAndToAreInclusive":              {PageQuery{Limit: 9, From: at(3).Time(), To: at(5).Time()}, []string{"n5", "n4", "n3"}, false},
		"ToTakesTheWholeMillisecond":         {PageQuery{Limit: 9, From: at(9).Time().Add(-time.Millisecond), To: at(9).Time()}, []string{"n9"}, false},
		"BeforeTheEpochOfIdsThereIsNothing":  {PageQuery{Limit: 9, To: time.Unix(0, 0)}, nil, false},
		"BehindTheLastInstantThereIsNothing": {PageQuery{Limit: 9, From: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)}, nil, false},
		"UpToTheEndOfTime":                   {PageQuery{Limit: 1, To: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)}, []string{"n9"}, true},
		"AfterTheLastId":                     {PageQuery{Limit: 1, After: func() *feed.ID { v := feed.ID(1<<63 - 1); return &v }()}, nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page, err := s.Page(t.Context(), g1.key(), test.query)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, view := range page.Lines {
				got = append(got, view.Text)
			}
			if !slices.Equal(got, test.want) || page.More != test.more || page.Cursor.Ver != 10 {
				t.Errorf("got %q, more %v, cursor %s; want %q, more %v", got, page.More, page.Cursor, test.want, test.more)
			}
		})
	}
	t.Run("OfAnUnknownGame", func(t *testing.T) {
		t.Parallel()
		if _, err := s.Page(t.Context(), feed.GameKey{Tenant: "acme", Game: "none"}, PageQuery{Limit: 1}); !errors.Is(err, ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
	})
}

// Late lines come in while somebody pages through history.
func TestPagingNeitherRepeatsNorSkipsALineThatWasThere(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for i := range 60 {
		s.apply(t, g1.notice(at(2*i), fmt.Sprint(i)))
	}
	seen := make(map[feed.ID]int)
	query := PageQuery{Limit: 7}
	for round, more := 0, true; more; round++ {
		page, err := s.Page(t.Context(), g1.key(), query)
		if err != nil {
			t.Fatal(err)
		}
		for _, view := range page.Lines {
			seen[view.Evt]++
		}
		more = page.More
		query.Before = &page.Lines[len(page.Lines)-1].Evt
		s.apply(t, g1.notice(at(2*round+1), "late"), g1.notice(at(119-2*round), "late"), g1.notice(at(200+round), "new"))
	}
	for i := range 60 {
		if n := seen[at(2*i)]; n != 1 {
			t.Errorf("line %d came %d times", i, n)
		}
	}
}

// Filters go by what a line shows, in SQL as in Go.
func TestFiltersAgreeWithWhatLinesShow(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	random := rand.New(rand.NewPCG(11, 11)) //nolint:gosec // no secret
	queries := []PageQuery{
		{Kind: "scored"},
		{Kind: "revealed"},
		{Kind: "none"},
		{Actor: "ann"},
		{Actor: "Cyd"},
		{Actor: "bob", Kind: "scored"},
		{Q: "ANN"},
		{Q: "smuggled"},
		{Q: "5"},
		{Q: "secret"},
		{Q: "%"},
		{Q: "cyd", Actor: "Cyd"},
		{Q: "said"},
	}
	for _, g := range games("acme", 60) {
		events := history(g, random.IntN)
		s.apply(t, delivered(events, random.IntN)...)
		want := newModel(events...)
		for _, query := range queries {
			query.Limit = everything
			page, err := s.Page(t.Context(), g.key(), query)
			if err != nil {
				t.Fatal(err)
			}
			for i := range page.Lines {
				page.Lines[i].Ver = 0
			}
			if diff := cmp.Diff(want.matching(query), page.Lines, compareInstants); diff != "" {
				t.Fatalf("%s, %+v (-model +table):\n%s", g.key(), query, diff)
			}
		}
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for i := range 5 {
		s.apply(t, g1.notice(at(i), fmt.Sprint("n", i)))
	}
	s.apply(t, g1.corrects(at(9), at(1), map[string]string{"text": "anew"}), g1.sets(at(10), feed.RegisterPool, "5"))
	head, err := s.Head(t.Context(), g1.key())
	if err != nil {
		t.Fatal(err)
	}
	since := func(t *testing.T, ver int64, limit int) Changes {
		t.Helper()
		changes, err := s.Changes(t.Context(), g1.key(), feed.Cursor{Epoch: head.Cursor.Epoch, Ver: ver}, limit)
		if err != nil {
			t.Fatal(err)
		}
		return changes
	}
	texts := func(views []feed.View) (texts []string) {
		for _, view := range views {
			texts = append(texts, view.Text)
		}
		return texts
	}
	t.Run("EachLineOnceAtItsNewest", func(t *testing.T) {
		t.Parallel()
		changes := since(t, 0, 10)
		expect(t, texts(changes.Lines), "n0", "n2", "n3", "n4", "anew")
		if changes.From != 0 || changes.To != head.Cursor.Ver || changes.More {
			t.Errorf("got %+v", changes)
		}
	})
	t.Run("AFullPageEndsOnItsLastLine", func(t *testing.T) {
		t.Parallel()
		changes := since(t, 0, 3)
		expect(t, texts(changes.Lines), "n0", "n2", "n3")
		if changes.To != changes.Lines[2].Ver || !changes.More {
			t.Errorf("got %+v", changes)
		}
		expect(t, texts(since(t, changes.To, 3).Lines), "n4", "anew")
	})
	t.Run("AsMuchAsThereIsIsNotMore", func(t *testing.T) {
		t.Parallel()
		if changes := since(t, 0, 5); changes.More || changes.To != head.Cursor.Ver {
			t.Errorf("got %+v", changes)
		}
	})
	t.Run("NothingNew", func(t *testing.T) {
		t.Parallel()
		if changes := since(t, head.Cursor.Ver, 5); len(changes.Lines) != 0 || changes.From != changes.To || changes.Lines == nil {
			t.Errorf("got %+v", changes)
		}
	})
	for name, cursor := range map[string]feed.Cursor{
		"ACursorOfAnotherEpoch":     {Epoch: "a-1-2-3", Ver: 1},
		"ACursorOfTheFuture":        {Epoch: head.Cursor.Epoch, Ver: head.Cursor.Ver + 1},
		"ACursorOfAnotherEpochAt0":  {Epoch: "a-1-2-3"},
		"ACursorOfTheFarFuture":     {Epoch: head.Cursor.Epoch, Ver: 1<<63 - 1},
		"ACursorThatIsNoneButZero":  {},
		"ACursorWithALongerEpochOf": {Epoch: head.Cursor.Epoch + "1", Ver: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if changes, err := s.Changes(t.Context(), g1.key(), cursor, 5); !errors.Is(err, ErrEpoch) {
				t.Errorf("got %+v, %v, want ErrEpoch", changes, err)
			}
		})
	}
	t.Run("OfAnUnknownGame", func(t *testing.T) {
		t.Parallel()
		if _, err := s.Changes(t.Context(), feed.GameKey{Tenant: "acme", Game: "none"}, head.Cursor, 5); !errors.Is(err, ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
	})
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.apply(t, g1.opened(at(0), feed.ModeClassic), g1.scored(at(1), "ann", "5"), g1.scored(at(2), "bob", "7"))
	snapshot, err := s.Snapshot(t.Context(), g1.key(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.game(t, g1.key()), snapshot.Game, compareInstants); diff != "" {
		t.Errorf("game (-alone +in the snapshot):\n%s", diff)
	}
	if !snapshot.Older || len(snapshot.Lines) != 2 || snapshot.Lines[0].Evt != at(2) {
		t.Errorf("got %+v", snapshot)
	}
	if _, err := s.Snapshot(t.Context(), feed.GameKey{Tenant: "acme", Game: "none"}, 2); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	// The connection is as good as new after both.
	expect(t, s.texts(t, g1.key()), "bob scored 7 %", "ann scored 5 %", "classic game opened")
}

func TestGames(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for i, g := range games("acme", 5) {
		s.apply(t, g.sets(at(1), feed.RegisterStatus, []string{"open", "settled"}[i%2]), g.notice(at(2), "a"))
	}
	ids := func(q GamesQuery) (ids []string) {
		list, err := s.Games(t.Context(), "acme", q)
		if err != nil {
			t.Fatal(err)
		}
		for _, game := range list {
			if game.Counts.Lines != 1 || game.Cursor.Ver == 0 {
				t.Errorf("got %+v", game)
			}
			ids = append(ids, string(game.Game))
		}
		return ids
	}
	expect(t, ids(GamesQuery{Limit: 3}), "g0004", "g0003", "g0002")
	expect(t, ids(GamesQuery{Limit: 3, After: "g0002"}), "g0001", "g0000")
	expect(t, ids(GamesQuery{Limit: 9, Status: feed.StatusSettled}), "g0003", "g0001")
	expect(t, ids(GamesQuery{Limit: 1, Status: feed.StatusOpen, After: "g0004"}), "g0002")
}

func TestTheBoardHoldsTheBestOfEachPlayer(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	lines := []feed.Line{g1.opened(at(0), feed.ModeClassic)}
	for i := range 30 {
		lines = append(lines, g1.scored(at(2*i+1), fmt.Sprintf("p%02d", i), fmt.Sprint(i)), g1.scored(at(2*i+2), fmt.Sprintf("p%02d", i), "0"))
	}
	s.apply(t, lines...)
	game := s.game(t, g1.key())
	if len(game.Board) != feed.BoardSize || game.Board[0] != (feed.BoardEntry{Player: "p29", Score: 174}) || game.Counts.Players != 30 {
		t.Errorf("got %+v", game)
	}
	s.apply(t, g1.retracts(at(90), at(2*29+1), "slip"))
	s.apply(t, g1.corrects(at(91), at(2*28+2), map[string]string{"eff": "600"}))
	game = s.game(t, g1.key())
	if game.Board[0] != (feed.BoardEntry{Player: "p28", Score: 600}) || game.Board[1].Player != "p27" || game.Counts.Lines != 60 {
		t.Errorf("after a retraction and a correction: %+v", game)
	}
}
