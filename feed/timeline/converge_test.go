package timeline

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/codemojex/feedrenderer/feed"
)

// The property in Go: the rule and the collapse of batches, without a database.
func TestTheEndStateIsTheSameForEveryOrderAndRepetition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") }
		events := history(g1, pick)
		want := newModel(events...)
		deliveries := delivered(events, pick)
		got := newModel(deliveries...)
		if diff := cmp.Diff(want.views(), got.views(), compareInstants); diff != "" {
			t.Fatalf("lines differ (-in order +as delivered):\n%s", diff)
		}
		if diff := cmp.Diff(want.game(g1.key()), got.game(g1.key()), compareInstants); diff != "" {
			t.Fatalf("header differs (-in order +as delivered):\n%s", diff)
		}

		collapsed := newModel()
		for rest := deliveries; len(rest) > 0; {
			n := min(len(rest), 1+pick(8))
			collapsed.applyBatch(rest[:n])
			rest = rest[n:]
		}
		if diff := cmp.Diff(want.views(), collapsed.views(), compareInstants); diff != "" {
			t.Fatalf("lines differ (-in order +in batches):\n%s", diff)
		}
	})
}

// applyBatch applies what is left of a batch when it is collapsed.
func (m *model) applyBatch(lines []feed.Line) {
	inputs := make([]int, len(lines))
	for i := range inputs {
		inputs[i] = i
	}
	for _, r := range newBatch(lines, make([]encoded, len(lines)), inputs).rows {
		if r.First.Present {
			m.apply(&feed.Line{Event: r.Key.evt, Evt: r.Key.evt, KindVersion: r.First.Stamp.Version, Base: r.First.Value.value})
		}
		if r.Second.Present {
			by := feed.ID(r.Second.Stamp.ID)
			m.apply(&feed.Line{Event: by, Evt: r.Key.evt, KindVersion: r.Second.Stamp.Version, Amendment: r.Second.Value.value})
		}
	}
	for i := range lines {
		m.apply(&feed.Line{Event: lines[i].Event, KindVersion: lines[i].KindVersion, Sets: lines[i].Sets, Reveals: lines[i].Reveals})
	}
}

var compareInstants = cmp.Comparer(func(x, y feed.Instant) bool { return x.Time().Equal(y.Time()) })

// The same through Postgres: each of 200 histories in 20 orders, a game for each order, and all 4000 games end as the
// model says.
func TestGamesConvergeWhateverTheOrder(t *testing.T) {
	t.Parallel()
	const histories, orders = 200, 20
	s := newStore(t)
	random := rand.New(rand.NewPCG(7, 7)) //nolint:gosec // no secret
	want := make([]*model, histories)
	rest := make([][]feed.Line, 0, histories*orders)
	keys := games("acme", histories*orders)
	for h := range histories {
		events := history(g1, random.IntN)
		want[h] = newModel(events...)
		for range orders {
			key := keys[len(rest)]
			deliveries := delivered(events, random.IntN)
			for i := range deliveries {
				deliveries[i].Game = key.key()
			}
			rest = append(rest, deliveries)
		}
	}

	// Writers take turns of a few lines of each of their games, so that a batch holds many games and a game many batches.
	var group errgroup.Group
	const writers = 4
	for w := range writers {
		turn := rand.New(rand.NewPCG(7, uint64(w))) //nolint:gosec // no secret
		group.Go(func() error {
			for first := w; first < len(rest); first += 400 {
				if err := applyInTurns(t, s, rest, first, writers, min(len(rest), first+400), turn); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}

	group.SetLimit(writers)
	for i, key := range keys {
		group.Go(func() error { return s.differs(t, key.key(), want[i/orders]) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// applyInTurns applies what is left of every step-th game from first to end.
func applyInTurns(t *testing.T, s *store, rest [][]feed.Line, first, step, end int, random *rand.Rand) error {
	for {
		var batch []feed.Line
		for i := first; i < end; i += step {
			n := min(len(rest[i]), 1+random.IntN(9))
			batch = append(batch, rest[i][:n]...)
			rest[i] = rest[i][n:]
		}
		if len(batch) == 0 {
			return nil
		}
		applied, err := s.Apply(t.Context(), batch)
		if err != nil || len(applied.Rejected) > 0 {
			return fmt.Errorf("rejected %v: %w", applied.Rejected, err)
		}
	}
}

// differs says how a game in the table differs from the model, in its lines, in its header and as changes.
func (s *store) differs(t testing.TB, key feed.GameKey, want *model) error {
	snapshot, err := s.Snapshot(t.Context(), key, everything)
	if err != nil {
		return err
	}
	cursor := snapshot.Game.Cursor
	snapshot.Game.Cursor = feed.Cursor{}
	if diff := cmp.Diff(want.game(key), snapshot.Game, compareInstants); diff != "" {
		return fmt.Errorf("header of %s (-model +table):\n%s", key, diff)
	}
	changes, err := s.Changes(t.Context(), key, feed.Cursor{Epoch: cursor.Epoch}, everything)
	if err != nil {
		return err
	}
	versions := make(map[feed.ID]int64)
	for i, view := range changes.Lines {
		if i > 0 && view.Ver <= changes.Lines[i-1].Ver || view.Ver > cursor.Ver || view.Ver <= 0 {
			return fmt.Errorf("changes of %s: version %d of line %s is out of order", key, view.Ver, view.Evt)
		}
		versions[view.Evt] = view.Ver
	}
	if len(versions) != len(snapshot.Lines) || len(changes.Lines) != len(snapshot.Lines) {
		return fmt.Errorf("changes of %s: %d lines, %d of them distinct, want %d", key, len(changes.Lines), len(versions), len(snapshot.Lines))
	}
	for i := range snapshot.Lines {
		view := &snapshot.Lines[i]
		if versions[view.Evt] != view.Ver {
			return fmt.Errorf("line %s of %s: version %d in the page, %d in changes", view.Evt, key, view.Ver, versions[view.Evt])
		}
		view.Ver = 0
	}
	if diff := cmp.Diff(want.views(), snapshot.Lines, compareInstants); diff != "" {
		return fmt.Errorf("lines of %s (-model +table):\n%s", key, diff)
	}
	return nil
}

// everything is a limit above all lines of a test.
const everything = 1 << 20
