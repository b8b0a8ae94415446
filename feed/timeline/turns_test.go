package timeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
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
				go func() { _, _ = turns.take(t.Context(), a) }()
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
					go func() { _, _ = turns.take(t.Context(), who) }()
				}
				synctest.Wait()
			}
			if _, err := turns.take(t.Context(), claimant{tenant: "c"}); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("WhoMayIsNextInTheOrderOfComing", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			turns := newTurns(1)
			if _, err := turns.take(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			begun := make(chan string, 3)
			for _, name := range []string{"a1", "b1", "a2"} {
				who := claimant{tenant: feed.TenantID(name[:1])}
				go func() {
					if _, err := turns.take(t.Context(), who); err == nil {
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
	t.Run("WhoWaitsInVainIsToldWhetherItsOwnReadsAreTheReason", func(t *testing.T) {
		t.Parallel()
		c, d, e := claimant{tenant: "c"}, claimant{tenant: "d"}, claimant{tenant: "e"}
		for name, so := range map[string]struct {
			hold, wait []claimant // before it comes
			found      error      // of c, while it waits
			busy       bool
		}{
			"TheyAre":                      {[]claimant{a, a, c}, nil, nil, true},
			"WhereNothingIsFoundToo":       {[]claimant{a, a, c}, nil, ErrNotFound, true},
			"WhereOthersHoldAllTheyAreNot": {[]claimant{b, b, c, d}, []claimant{e}, nil, false},
			"NorWhereTheStoreIsAway":       {[]claimant{a, a, c}, nil, io.EOF, false},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					turns := newTurns(4)
					turns.saw(nil) // which says nothing of later
					for _, who := range so.hold {
						if _, err := turns.take(t.Context(), who); err != nil {
							t.Fatal(err)
						}
					}
					for _, who := range so.wait {
						go func() { _, _ = turns.take(t.Context(), who) }()
						synctest.Wait()
					}
					time.AfterFunc(time.Second, func() {
						turns.saw(so.found)
						turns.give(c)
					})
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					defer cancel()
					_, err := turns.take(ctx, a)
					if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrBusy) != so.busy {
						t.Errorf("got %v, want it busy: %t", err, so.busy)
					}
				})
			})
		}
	})
	t.Run("OneThatBeginsWhenItsTimeIsOverWaitedInVain", func(t *testing.T) {
		t.Parallel()
		for range 100 { // the two are a toss-up
			synctest.Test(t, func(t *testing.T) {
				turns := newTurns(1)
				if _, err := turns.take(t.Context(), a); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() {
					_, err := turns.take(ctx, a)
					ended <- err
				}()
				synctest.Wait()
				turns.saw(nil)
				cancel()
				turns.give(a)
				if err := <-ended; !errors.Is(err, ErrBusy) || turns.free != 1 {
					t.Errorf("got %v, and %d free", err, turns.free)
				}
			})
		}
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
					if _, err := turns.take(ctx, who); err != nil {
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

// flood is a tenant whose searches have no end.
var flood = claimant{"flood", true}

func (s *store) search(ctx context.Context) error {
	return s.Reader.ask(ctx, flood, `select pg_sleep(600)`, nil, func(rows pgx.Rows) error { return one(rows, new(any)) })
}

// counted waits until the turns count so many.
func (s *store) counted(t *testing.T, what string, want int, count func(*turns) int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		s.turns.mu.Lock()
		there := count(s.turns)
		s.turns.mu.Unlock()
		if there == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d %s, want %d", there, what, want)
		}
	}
}

func TestSlowReadsOfOneTenantLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	other := line{Tenant: "other", Game: "g1"}
	s.apply(t, other.notice(at(1), "seen"))

	ctx, cancel := context.WithCancel(t.Context())
	var slow sync.WaitGroup
	var busy atomic.Int64
	defer slow.Wait()
	defer cancel()
	const searches = 40
	for range searches {
		slow.Go(func() {
			err := s.search(ctx)
			if err == nil {
				t.Error("a search ended by itself")
			}
			if errors.Is(err, ErrBusy) {
				busy.Add(1)
			}
		})
	}
	s.counted(t, "searches", searches, func(turns *turns) int { return turns.held[flood] + len(turns.waiting[flood]) })
	reading, stop := context.WithTimeout(t.Context(), 8*time.Second) // below what a statement may take
	defer stop()
	for range 20 {
		if page, err := s.Page(reading, other.key(), PageQuery{Limit: 1}); err != nil || len(page.Lines) != 1 {
			t.Fatalf("another tenant's page: %d lines, %v", len(page.Lines), err)
		}
	}
	cancel()
	slow.Wait()
	if busy.Load() == 0 {
		t.Error("no search that waited is told that the tenant's own are the reason")
	}
}

func TestAReadThatIsCutAfterItWaitedForItsTenantsIsToldSo(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	other := line{Tenant: "other", Game: "g1"}
	s.apply(t, other.notice(at(1), "seen"))
	for s.turns.may(flood) {
		s.turns.hold(flood)
	}
	waiting := func(turns *turns) int { return len(turns.waiting[flood]) }

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.search(ctx) }()
	s.counted(t, "waiting searches", 1, waiting)
	if _, err := s.Page(t.Context(), other.key(), PageQuery{Limit: 1}); err != nil {
		t.Fatal(err)
	}
	s.turns.give(flood)
	s.counted(t, "waiting searches", 0, waiting)
	cancel()
	if err := <-ended; !errors.Is(err, ErrBusy) || !Unavailable(err) {
		t.Errorf("got %v", err)
	}
}
