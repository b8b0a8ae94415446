package web

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

// heldGames answers when it is let go, and after what an answer costs.
type heldGames struct {
	games
	cost  time.Duration
	let   chan struct{}
	asked atomic.Int64
}

func (h *heldGames) Games(context.Context, feed.TenantID, timeline.GamesQuery) ([]feed.Game, error) {
	h.asked.Add(1)
	<-h.let
	<-time.After(h.cost)
	return []feed.Game{{Game: "g1"}}, nil
}

func (h *heldGames) Game(_ context.Context, key feed.GameKey) (feed.Game, error) {
	h.asked.Add(1)
	<-h.let
	return feed.Game{Game: key.Game}, nil
}

func TestGamesAreListedNewestFirstAPageAtATime(t *testing.T) {
	t.Parallel()
	m := newModel()
	for _, game := range []feed.GameID{"GAM0000000000A", "GAM0000000000B", "GAM0000000000C"} {
		m.create(feed.GameKey{Tenant: "acme", Game: game})
	}
	s := serve(t, m, nil)
	for query, want := range map[string]string{"?limit=2": "GAM0000000000C GAM0000000000B true", "?limit=2&after=GAM0000000000B": "GAM0000000000A false"} {
		_, body := s.get(t, "/v1/tenants/acme/games"+query)
		var page struct {
			Games []feed.Game
			More  bool
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, game := range page.Games {
			got += string(game.Game) + " "
		}
		equal(t, got+strconv.FormatBool(page.More), want)
	}
}

func TestManyWhoAskForTheSameGamesAtOnceCostOneQuery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := &heldGames{let: make(chan struct{})}
		l := newLists(table, Times{Header: time.Second})
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

func TestManyWhoAskForOneGameAtOnceCostOneQueryAndLaterOnesAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := &heldGames{let: make(chan struct{})}
		l := newLists(table, Times{Header: time.Second})
		var asking sync.WaitGroup
		ask := func(key feed.GameKey) {
			if game, err := l.game(t.Context(), key); err != nil || game.Game != key.Game {
				t.Errorf("asked for %s, got %+v, %v", key, game, err)
			}
		}
		for range 20 {
			for _, key := range []feed.GameKey{{Tenant: "acme", Game: "g1"}, {Tenant: "acme", Game: "g2"}, {Tenant: "globex", Game: "g1"}} {
				asking.Go(func() { ask(key) })
			}
		}
		synctest.Wait()
		close(table.let)
		asking.Wait()
		ask(feed.GameKey{Tenant: "acme", Game: "g1"})
		if n := table.asked.Load(); n != 4 {
			t.Errorf("%d queries, want one for each of three games and one more", n)
		}
	})
}

func TestAListOfGamesIsGoodForAsLongAsAHeader(t *testing.T) {
	t.Parallel()
	for cost, good := range map[time.Duration]time.Duration{0: time.Second, 200 * time.Millisecond: 4 * time.Second, time.Minute: maxRecount} {
		synctest.Test(t, func(t *testing.T) {
			table := &heldGames{let: make(chan struct{}), cost: min(cost, readTime)}
			close(table.let)
			l := newLists(table, Times{Header: time.Second})
			ask := func(n int64) {
				t.Helper()
				if list, err := l.of(t.Context(), "acme", timeline.GamesQuery{Limit: 100}); err != nil || len(list) != 1 {
					t.Errorf("got %v, %v", list, err)
				}
				if asked := table.asked.Load(); asked != n {
					t.Errorf("one that takes %v: %d queries, want %d", cost, asked, n)
				}
			}
			begun := time.Now()
			ask(1)
			ask(1)
			<-time.After(time.Until(begun.Add(good - 1)))
			ask(1)
			<-time.After(1)
			ask(2)
		})
	}
}

func TestWhatIsHeldOfListsIsBounded(t *testing.T) {
	t.Parallel()
	l := newLists(nil, Times{})
	for n := range 3 * listedGames {
		l.hold(text(n), list{games: make([]feed.Game, n%3)})
		l.hold(text(n), list{games: make([]feed.Game, n%3)})
		if n%997 != 0 {
			continue
		}
		held := 0
		for _, each := range l.held {
			held += len(each.games) + 1
		}
		if held != l.games || held > listedGames {
			t.Fatalf("%d are held and %d counted of at most %d", held, l.games, listedGames)
		}
	}
}
