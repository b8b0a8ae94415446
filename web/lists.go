package web

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

// lists reads pages of games, and single ones. It is the costliest read there is, for each game is counted anew: of many who ask for the
// same page at once, as when a lobby's watchers come back together, one asks the table, and its answer is good for as
// long as a header of a hub would be.
type lists struct {
	table   games
	times   Times
	reading singleflight.Group

	mu    sync.Mutex // guards what follows
	held  map[string]list
	games int // in all that are held
}

// list is a page as it was read. It is shared and not changed.
type list struct {
	games []feed.Game
	due   time.Time // when it is to be read again
}

// listedGames bounds what is held: queries are cheap to make up.
const listedGames = 10_000

func newLists(table games, times Times) *lists {
	return &lists{table: table, times: times, held: map[string]list{}}
}

func (l *lists) of(ctx context.Context, tenant feed.TenantID, q timeline.GamesQuery) ([]feed.Game, error) {
	key := fmt.Sprintf("%s %+v", tenant, q)
	if held, ok := l.last(key); ok {
		return held.games, nil
	}
	return shared(ctx, l, key, func(ctx context.Context) ([]feed.Game, error) { return l.read(ctx, key, tenant, q) })
}

// game reads one header, of which the lines are counted anew too. Nothing of it is held.
func (l *lists) game(ctx context.Context, key feed.GameKey) (feed.Game, error) {
	return shared(ctx, l, "game "+key.String(), func(ctx context.Context) (feed.Game, error) {
		ctx, cancel := context.WithTimeout(ctx, readTime)
		defer cancel()
		return l.table.Game(ctx, key)
	})
}

// shared has one of those who ask for the same at the same time read it for all. The read does not end with who asked.
func shared[T any](ctx context.Context, l *lists, key string, read func(context.Context) (T, error)) (T, error) {
	answers := l.reading.DoChan(key, func() (any, error) { return read(context.WithoutCancel(ctx)) })
	var none T
	select {
	case <-ctx.Done():
		return none, ctx.Err()
	case answer := <-answers:
		if answer.Err != nil {
			return none, answer.Err
		}
		return answer.Val.(T), nil
	}
}

// last is the page that was read last, if it is still good.
func (l *lists) last(key string) (list, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held, ok := l.held[key]
	return held, ok && time.Now().Before(held.due)
}

func (l *lists) read(ctx context.Context, key string, tenant feed.TenantID, q timeline.GamesQuery) ([]feed.Game, error) {
	if held, ok := l.last(key); ok { // another read it since the caller looked
		return held.games, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	begun := time.Now()
	page, err := l.table.Games(ctx, tenant, q)
	if err != nil {
		return nil, err
	}
	l.hold(key, list{page, begun.Add(recount(l.times.Header, time.Since(begun), 1))})
	return page, nil
}

func (l *lists) hold(key string, now list) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.games += len(now.games) + 1 - l.size(key)
	if l.games > listedGames {
		clear(l.held)
		l.games = len(now.games) + 1
	}
	l.held[key] = now
}

// size is what a page counts for; one without games counts too.
func (l *lists) size(key string) int {
	if held, ok := l.held[key]; ok {
		return len(held.games) + 1
	}
	return 0
}
