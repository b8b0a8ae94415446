package timeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/codemojex/feedrenderer/feed"
)

// storm is a load on a few games: every event delivered in a shuffled order, some twice, amendments before their
// originals, games released in the midst of it, and a reader following each game.
type storm struct {
	writers, games, events int // events of each game
}

func TestTheHandOffUnderLoad(t *testing.T) {
	t.Parallel()
	storm{writers: 8, games: 20, events: 250}.run(t)
}

func (c storm) run(t *testing.T) {
	s := newStore(t)
	random := rand.New(rand.NewPCG(3, 3)) //nolint:gosec // no secret
	played := make([]*stormGame, c.games)
	var queue []feed.Line
	for i, g := range games("acme", c.games) {
		played[i] = &stormGame{line: g, rings: make(chan struct{}, 1)}
		played[i].events = stormEvents(g, c.events, i%2 == 0, random)
		played[i].want = newModel(played[i].events...)
		for _, event := range played[i].events {
			queue = append(queue, event)
			if random.IntN(10) == 0 {
				queue = append(queue, event)
			}
		}
	}
	random.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var followers errgroup.Group
	for _, g := range played {
		followers.Go(func() error { return g.follow(ctx, s) })
	}
	if err := c.write(ctx, s, queue, played); err != nil {
		t.Fatal(err)
	}
	for _, g := range played {
		close(g.rings)
	}
	if err := followers.Wait(); err != nil {
		t.Error(err)
	}
	for _, g := range played {
		if err := s.differs(t, g.key(), g.want); err != nil {
			t.Error(err)
		}
		if err := g.settled(t, s); err != nil {
			t.Error(err)
		}
	}
}

// write applies the queue in batches of 1 to 500 lines, several at once.
func (c storm) write(ctx context.Context, s *store, queue []feed.Line, played []*stormGame) error {
	byKey := make(map[feed.GameKey]*stormGame)
	for _, g := range played {
		byKey[g.key()] = g
	}
	var batches [][]feed.Line
	for sizes := rand.New(rand.NewPCG(4, 4)); len(queue) > 0; { //nolint:gosec // no secret
		n := min(len(queue), 1+sizes.IntN(500))
		batches = append(batches, queue[:n])
		queue = queue[n:]
	}
	var writers errgroup.Group
	writers.SetLimit(c.writers)
	for _, batch := range batches {
		writers.Go(func() error {
			for i := range batch {
				if batch[i].Releases() {
					byKey[batch[i].Game].mayRelease.Store(true)
				}
			}
			applied, err := s.Apply(ctx, batch)
			if err != nil || len(applied.Rejected) > 0 {
				return fmt.Errorf("rejected %v: %w", applied.Rejected, err)
			}
			for _, change := range applied.Changes {
				byKey[change.Game].ring(change)
			}
			return nil
		})
	}
	return writers.Wait()
}

func stormEvents(g line, n int, blind bool, random *rand.Rand) []feed.Line {
	mode := feed.ModeClassic
	if blind {
		mode = feed.ModeBlind
	}
	events := []feed.Line{g.opened(at(0), mode)}
	for i := 1; i < n; i++ {
		id := at(0) + feed.ID(i)
		target := at(0) + feed.ID(random.IntN(i))
		var event feed.Line
		switch random.IntN(10) {
		case 0:
			event = g.corrects(id, target, map[string]string{"pct": fmt.Sprint(i), "text": fmt.Sprint("now ", i)})
		case 1:
			event = g.retracts(id, target, fmt.Sprint("slip ", i))
		case 2:
			event = g.sets(id, feed.RegisterPool, fmt.Sprint(i))
		case 3:
			event = g.notice(id, fmt.Sprint("note ", i))
		default:
			event = g.scored(id, fmt.Sprint("player", random.IntN(30)), fmt.Sprint(random.IntN(100)))
		}
		events = append(events, event)
	}
	if blind {
		events = append(events, g.revealed(at(1), "code"))
	}
	return events
}

// stormGame is one game of a storm, with what was rung and what a follower saw of it.
type stormGame struct {
	line
	events     []feed.Line
	want       *model
	mayRelease atomic.Bool   // an event that releases it was given to a writer
	rings      chan struct{} // closed when all is written

	mu   sync.Mutex // guards rung
	rung []feed.Change

	held   map[feed.ID]feed.View // by the follower
	cursor feed.Cursor           // of the follower
}

func (g *stormGame) ring(change feed.Change) {
	g.mu.Lock()
	g.rung = append(g.rung, change)
	g.mu.Unlock()
	select {
	case g.rings <- struct{}{}:
	default: // one is waiting already
	}
}

// follow reads changes from the beginning until all is written and read. Nothing may come twice at a version, out of
// order, or before it may be seen.
func (g *stormGame) follow(ctx context.Context, s *store) error {
	g.held = make(map[feed.ID]feed.View)
	for more := true; more; {
		select {
		case _, more = <-g.rings:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := g.catchUp(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (g *stormGame) catchUp(ctx context.Context, s *store) error {
	if g.cursor.Epoch == "" {
		head, err := s.Head(ctx, g.key())
		if err != nil {
			return err
		}
		g.cursor.Epoch = head.Cursor.Epoch
	}
	for {
		changes, err := s.Changes(ctx, g.key(), g.cursor, 100)
		if err != nil {
			return err
		}
		released := g.mayRelease.Load()
		last := g.cursor.Ver
		for _, view := range changes.Lines {
			if view.Ver <= last || view.Ver > changes.To {
				return fmt.Errorf("%s: line %s has version %d in %d..%d behind %d", g.key(), view.Evt, view.Ver, changes.From, changes.To, last)
			}
			if view.Kind == "scored" && !released {
				return fmt.Errorf("%s: line %s is seen before the release", g.key(), view.Evt)
			}
			last = view.Ver
			g.held[view.Evt] = view
		}
		if g.cursor.Ver = changes.To; !changes.More {
			return nil
		}
	}
}

// settled says what the follower, and one who heard the doorbell alone, hold that is not in the table.
func (g *stormGame) settled(t *testing.T, s *store) error {
	rows := make(map[feed.ID]feed.View)
	page := PageQuery{Limit: 500}
	for {
		got, err := s.Page(t.Context(), g.key(), page)
		if err != nil {
			return err
		}
		for _, view := range got.Lines {
			rows[view.Evt] = view
		}
		if !got.More {
			break
		}
		page.Before = &got.Lines[len(got.Lines)-1].Evt
	}
	if err := sameViews(rows, g.held); err != nil {
		return fmt.Errorf("%s as followed: %w", g.key(), err)
	}

	// The ranges of all changes lie end to end, so no version was given out twice, and each line is within its own.
	slices.SortFunc(g.rung, func(x, y feed.Change) int { return int(x.To - y.To) })
	top := int64(0)
	heard := make(map[feed.ID]feed.View)
	for _, change := range g.rung {
		if change.From == change.To {
			continue
		}
		if change.From != top {
			return fmt.Errorf("%s: change %d..%d comes after version %d", g.key(), change.From, change.To, top)
		}
		for _, view := range change.Views() {
			if view.Ver <= top || view.Ver > change.To {
				return fmt.Errorf("%s: line %s has version %d in change %d..%d", g.key(), view.Evt, view.Ver, change.From, change.To)
			}
			heard[view.Evt] = view
		}
		top = change.To
	}
	if err := sameViews(rows, heard); err != nil {
		return fmt.Errorf("%s as rung: %w", g.key(), err)
	}
	return nil
}

func sameViews(want, got map[feed.ID]feed.View) error {
	if diff := cmp.Diff(want, got, compareInstants); diff != "" {
		return fmt.Errorf("lines differ (-table +watcher):\n%s", diff)
	}
	return nil
}
