package timeline

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/codemojex/feedrenderer/feed"
)

// sent notes the statements that were sent, in the order of their sending.
type sent struct{ statements []string }

func (s *sent) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	for name, sql := range map[string]string{"append": appendSQL, "open": openSQL, "store": storeSQL} {
		if data.SQL == sql {
			s.statements = append(s.statements, name)
		}
	}
	return ctx
}

func (s *sent) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// traced is a writer to the same tables, and what it sends.
func (s *store) traced(t *testing.T) (*store, *sent) {
	t.Helper()
	log := &sent{}
	config := openPool(t, s.url, RoleRender).Config()
	config.ConnConfig.Tracer = log
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return &store{url: s.url, Writer: NewWriter(pool), Reader: s.Reader}, log
}

// expectSent looks at what was sent since the last look.
func (s *sent) expectSent(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(s.statements, want) {
		t.Errorf("sent %q, want %q", s.statements, want)
	}
	s.statements = nil
}

func TestLinesBeyondTheFrontOfTheirGameAreAppended(t *testing.T) {
	t.Parallel()
	s, log := newStore(t).traced(t)
	other := line{"acme", "other"}

	s.apply(t, g1.opened(at(0), feed.ModeClassic), other.notice(at(0), "a"))
	log.expectSent(t, "store")

	changes := s.apply(t, other.notice(at(4), "d"), g1.notice(at(2), "b"), g1.notice(at(3), "c"), g1.notice(at(2), "b"))
	log.expectSent(t, "append")
	assertChanges(t, changes, map[line][2]int64{g1: {2, 5}, other: {1, 2}}) // its release was a version
	expect(t, s.texts(t, g1.key()), "c", "b", "classic game opened")
	expect(t, s.texts(t, other.key()), "d", "a")

	// One game with more to it, or late, takes the other way; the rest of the batch does not.
	changes = s.apply(t, g1.notice(at(5), "e"), other.notice(at(5), "e"), g1.corrects(at(6), at(2), map[string]string{"text": "B"}))
	log.expectSent(t, "append", "store")
	assertChanges(t, changes, map[line][2]int64{g1: {5, 7}, other: {2, 3}})
	s.apply(t, g1.notice(at(1), "late"), other.notice(at(6), "f"))
	log.expectSent(t, "append", "open")
	expect(t, s.texts(t, g1.key()), "e", "c", "B", "late", "classic game opened")
	expect(t, s.texts(t, other.key()), "f", "e", "d", "a")
}

func assertChanges(t *testing.T, changes []feed.Change, want map[line][2]int64) {
	t.Helper()
	got := map[line][2]int64{}
	for _, change := range changes {
		got[line(change.Game)] = [2]int64{change.From, change.To}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(changes) != len(want) {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// Another renderer wrote a line that is given to this one too.
func TestALineThatIsThereAlreadyIsNotAppended(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ours, log := s.traced(t)
	other := line{"acme", "other"}
	ours.apply(t, g1.notice(at(0), "a"), other.notice(at(0), "a"))
	s.apply(t, g1.notice(at(2), "c"))
	log.expectSent(t, "open")

	batch := []feed.Line{g1.notice(at(1), "b"), g1.notice(at(2), "c"), other.notice(at(1), "b")}
	assertChanges(t, ours.apply(t, batch...), map[line][2]int64{g1: {2, 4}, other: {1, 2}})
	log.expectSent(t, "append", "open")
	expect(t, s.texts(t, g1.key()), "c", "b", "a")
	expect(t, s.texts(t, other.key()), "b", "a")

	// It looks before it writes now, until a batch of a game is all new again.
	before := s.tuples(t, g1.key()) + s.tuples(t, other.key())
	assertChanges(t, ours.apply(t, batch...), map[line][2]int64{g1: {4, 4}, other: {2, 2}})
	log.expectSent(t, "open")
	if after := s.tuples(t, g1.key()) + s.tuples(t, other.key()); after != before {
		t.Errorf("rows were written anew: %s, before %s", after, before)
	}
	ours.apply(t, g1.notice(at(3), "d"))
	ours.apply(t, g1.notice(at(4), "e"))
	log.expectSent(t, "open", "append")
}

// An amendment that overtook its line has a row already.
func TestALineOfWhichTheCorrectionIsThereIsNotAppended(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ours, log := s.traced(t)
	ours.apply(t, g1.notice(at(0), "a"))
	s.apply(t, g1.corrects(at(2), at(1), map[string]string{"text": "right"}))
	changes := ours.apply(t, g1.notice(at(1), "wrong"))
	log.expectSent(t, "open", "append", "open")
	if views := changes[0].Views(); len(views) != 1 || views[0].Text != "right" {
		t.Errorf("told %+v", views)
	}
	expect(t, s.texts(t, g1.key()), "right", "a")
}

func TestNothingIsAppendedBelowTheFloor(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ours, log := s.traced(t)
	ours.apply(t, g1.notice(at(0), "a"))
	s.exec(t, `update games set floor = $1`, int64(at(2)))
	changes := ours.apply(t, g1.notice(at(1), "b"), g1.notice(at(2), "c"), g1.notice(at(3), "d"))
	log.expectSent(t, "open", "append")
	if len(changes) != 1 || len(changes[0].Lines) != 1 || changes[0].Lines[0].Evt != at(3) || changes[0].Lines[0].Ver != changes[0].To {
		t.Errorf("told %+v", changes)
	}
	expect(t, s.texts(t, g1.key()), "d")
}

func TestTablesThatWereRestoredFromBeforeAGameAreAppendedTo(t *testing.T) {
	t.Parallel()
	s, log := newStore(t).traced(t)
	first := s.apply(t, g1.notice(at(0), "a"))[0]
	s.exec(t, `truncate games, lines`)
	second := s.apply(t, g1.notice(at(1), "b"))[0]
	log.expectSent(t, "open", "append")
	if first.Epoch == second.Epoch || second.From != 0 || second.To != 1 {
		t.Errorf("got %+v after %+v", second, first)
	}
	expect(t, s.texts(t, g1.key()), "b")
}

func TestALockedGameHoldsUpNoAppendToAnother(t *testing.T) {
	t.Parallel()
	s, log := newStore(t).traced(t)
	free := line{"acme", "free"}
	s.apply(t, g1.notice(at(0), "a"), free.notice(at(0), "a"))
	log.expectSent(t, "open")
	tx, err := s.owner(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `select from games where game = 'g1' for update`); err != nil {
		t.Fatal(err)
	}
	_, err = s.Apply(t.Context(), []feed.Line{g1.notice(at(1), "b"), free.notice(at(1), "b")})
	var busy *BusyError
	if !errors.As(err, &busy) || !slices.Equal(busy.Indexes, []int{0}) {
		t.Errorf("got %v, want the line of g1 to be busy", err)
	}
	log.expectSent(t, "append", "open", "open", "open") // of the batch, then of each game
	expect(t, s.texts(t, free.key()), "b", "a")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// One writer remembers, the other is always a new one and stores: whatever is delivered, they tell the same and leave the
// same.
func TestAppendingAndStoringTellTheSame(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	remembers, log := s.traced(t)
	random := rand.New(rand.NewPCG(11, 11)) //nolint:gosec // no secret
	twin := func(of line) line { return line{"twin", of.Game} }
	list := games("acme", 40)
	var rest [][]feed.Line
	for range list {
		rest = append(rest, slices.Concat(history(g1, random.IntN), delivered(history(g1, random.IntN), random.IntN)))
	}
	for left := true; left; {
		left = false
		var batch, twins []feed.Line
		for i, game := range list {
			n := min(len(rest[i]), random.IntN(4))
			for _, l := range rest[i][:n] {
				l.Game = game.key()
				batch = append(batch, l)
				l.Game = twin(game).key()
				twins = append(twins, l)
			}
			rest[i] = rest[i][n:]
			left = left || len(rest[i]) > 0
		}
		told, stored := remembers.apply(t, batch...), (&store{url: s.url, Writer: NewWriter(s.Writer.pool)}).apply(t, twins...)
		for _, changes := range [][]feed.Change{told, stored} {
			for i := range changes {
				changes[i].Game.Tenant, changes[i].Epoch = "", ""
			}
			slices.SortStableFunc(changes, func(x, y feed.Change) int { return x.Game.Compare(y.Game) })
		}
		if diff := cmp.Diff(stored, told, compareInstants); diff != "" {
			t.Fatalf("changes differ (-stored +appended):\n%s", diff)
		}
	}
	for _, game := range list {
		if diff := cmp.Diff(s.rows(t, twin(game).key()), s.rows(t, game.key()), compareInstants); diff != "" {
			t.Errorf("lines of %s differ (-stored +appended):\n%s", game.Game, diff)
		}
	}
	counts := map[string]int{}
	for _, statement := range log.statements {
		counts[statement]++
	}
	if counts["append"] < 10 || counts["store"] < 10 {
		t.Errorf("too few of each to compare: %v", counts)
	}
}
