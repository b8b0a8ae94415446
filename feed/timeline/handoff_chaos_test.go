//go:build chaos

package timeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/codemojex/feedrenderer/feed"
)

func TestTheHandOffUnderHeavyLoad(t *testing.T) {
	t.Parallel()
	storm{writers: 8, games: 20, events: 12_000}.run(t)
}

// Two replicas apply overlapping batches over the same games in opposite order, for a minute.
func TestBatchesInOppositeOrderNeverDeadlock(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	list := games("acme", 50)
	var replicas errgroup.Group
	var written [2]int
	for replica := range written {
		replicas.Go(func() error {
			for ctx.Err() == nil {
				var batch []feed.Line
				for i, g := range list {
					n := written[replica]
					batch = append(batch, g.scored(at(n), fmt.Sprint("player", i), fmt.Sprint(n)), g.opened(at(n)+1, feed.ModeClassic))
				}
				if replica == 1 {
					slices.Reverse(batch)
				}
				if _, err := s.Apply(t.Context(), batch); err != nil {
					return err
				}
				written[replica]++
			}
			return nil
		})
	}
	if err := replicas.Wait(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	for _, g := range list {
		game := s.game(t, g.key())
		if want := int64(2 * max(written[0], written[1])); game.Counts.Lines != want {
			t.Errorf("%s holds %d lines, want %d", g.key(), game.Counts.Lines, want)
		}
	}
	t.Logf("%v batches of %d lines", written, 2*len(list))
}
