package web

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

// heldGames answers when it is let go.
type heldGames struct {
	games
	let   chan struct{}
	asked atomic.Int64
}

func (h *heldGames) Games(context.Context, feed.TenantID, timeline.GamesQuery) ([]feed.Game, error) {
	h.asked.Add(1)
	<-h.let
	return []feed.Game{{Game: "g1"}}, nil
}

func TestManyWhoAskForTheSameGamesAtOnceCostOneQuery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := &heldGames{let: make(chan struct{})}
		l := &lists{table: table}
		var asking sync.WaitGroup
		ask := func(ctx context.Context, tenant feed.TenantID, want error) {
			asking.Go(func() {
				list, err := l.of(ctx, tenant, timeline.GamesQuery{Limit: 100})
				if err != want || err == nil && len(list) != 1 { //nolint:errorlint // the very one
					t.Errorf("got %v, %v", list, err)
				}
			})
		}
		leaving, leave := context.WithCancel(t.Context())
		ask(leaving, "acme", context.Canceled)
		for range 20 {
			ask(t.Context(), "acme", nil)
			ask(t.Context(), "globex", nil)
		}
		synctest.Wait()
		leave() // the first of them, and takes nobody along
		synctest.Wait()
		close(table.let)
		asking.Wait()
		if n := table.asked.Load(); n != 2 {
			t.Errorf("%d queries of two tenants", n)
		}
	})
}
