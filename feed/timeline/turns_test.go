package timeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codemojex/feedrenderer/feed"
)

func TestTurns(t *testing.T) {
	t.Parallel()
	a, b := claimant{tenant: "a"}, claimant{tenant: "b"}

	t.Run("OneClaimantAloneHasHalfOfTheConnections", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			turns := newTurns(8)
			for range 20 {
				go func() { _ = turns.take(t.Context(), a) }()
			}
			synctest.Wait()
			if turns.held[a] != 4 || turns.free != 4 {
				t.Errorf("it holds %d and %d are free, want 4 and 4", turns.held[a], turns.free)
			}
		})
	})
	t.Run("WhoComesWithLessFindsOneHoweverManyOthersWait", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			turns := newTurns(8)
			for _, who := range []claimant{a, {"a", true}, b} {
				for range 20 {
					go func() { _ = turns.take(t.Context(), who) }()
				}
				synctest.Wait()
			}
			if err := turns.take(t.Context(), claimant{tenant: "c"}); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("WhoMayIsNextInTheOrderOfComing", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			turns := newTurns(1)
			if err := turns.take(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			begun := make(chan string, 3)
			for _, name := range []string{"a1", "b1", "a2"} {
				who := claimant{tenant: feed.TenantID(name[:1])}
				go func() {
					if turns.take(t.Context(), who) == nil {
						begun <- name
						turns.give(who)
					}
				}()
				synctest.Wait()
			}
			turns.give(a)
			if got := []string{<-begun, <-begun, <-begun}; !slices.Equal(got, []string{"a1", "b1", "a2"}) {
				t.Errorf("they began as %q", got)
			}
		})
	})
	t.Run("OneThatGivesUpTakesNothingWithIt", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			turns := newTurns(3)
			var all sync.WaitGroup
			for i := range 200 {
				who := claimant{tenant: feed.TenantID(fmt.Sprint(i % 5))}
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.N(1000))*time.Millisecond)
					defer cancel()
					if err := turns.take(ctx, who); err != nil {
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Error(err)
						}
						return
					}
					<-time.After(time.Duration(rand.N(100)) * time.Millisecond)
					turns.give(who)
				})
			}
			all.Wait()
			if turns.free != 3 || len(turns.held) != 0 || len(turns.waiting) != 0 {
				t.Errorf("%d free, %v held, %d wait; want 3 free and nobody there", turns.free, turns.held, len(turns.waiting))
			}
		})
	})
}

func TestSlowReadsOfOneTenantLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	other := line{Tenant: "other", Game: "g1"}
	s.apply(t, other.notice(at(1), "seen"))

	ctx, cancel := context.WithCancel(t.Context())
	var slow sync.WaitGroup
	defer slow.Wait()
	defer cancel()
	const searches = 40
	for range searches {
		slow.Go(func() {
			err := s.Reader.ask(ctx, claimant{"flood", true}, `select pg_sleep(600)`, nil, func(rows pgx.Rows) error { return one(rows, new(any)) })
			if err == nil {
				t.Error("a search ended by itself")
			}
		})
	}
	for deadline := time.Now().Add(patience); ; {
		s.turns.mu.Lock()
		who := claimant{"flood", true}
		there := s.turns.held[who] + len(s.turns.waiting[who])
		s.turns.mu.Unlock()
		if there == searches {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d searches are there, want %d", there, searches)
		}
		<-time.After(time.Millisecond)
	}
	reading, stop := context.WithTimeout(t.Context(), 8*time.Second) // below what a statement may take
	defer stop()
	for range 20 {
		if page, err := s.Page(reading, other.key(), PageQuery{Limit: 1}); err != nil || len(page.Lines) != 1 {
			t.Fatalf("another tenant's page: %d lines, %v", len(page.Lines), err)
		}
	}
}
