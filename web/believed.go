package web

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/codemojex/feedrenderer/feed/tenants"
)

// believed remembers for a few seconds what a store said of each key, that it does not know it too. Many who ask at once
// cost one lookup. While the store cannot be asked, what it said last still holds.
type believed[K comparable, V any] struct {
	look   func(ctx context.Context, key K) (V, error) // wraps tenants.ErrUnknown for what does not exist
	keep   time.Duration
	asking singleflight.Group

	mu    sync.Mutex // guards known
	known map[K]belief[V]
}

type belief[V any] struct {
	value V
	err   error // nil, or that it is unknown
	at    time.Time
}

// beliefsKept bounds what is remembered: names are cheap to make up.
const beliefsKept = 10_000

func newBelieved[K comparable, V any](keep time.Duration, look func(context.Context, K) (V, error)) *believed[K, V] {
	return &believed[K, V]{look: look, keep: keep, known: map[K]belief[V]{}}
}

// of returns what is believed of a key, after a lookup where that is too old.
func (b *believed[K, V]) of(ctx context.Context, key K) (V, error) {
	last, ok := b.last(key)
	if ok && time.Since(last.at) < b.keep {
		return last.value, last.err
	}
	asked := b.asking.DoChan(fmt.Sprint(key), func() (any, error) { return b.ask(context.WithoutCancel(ctx), key) })
	select {
	case <-ctx.Done():
		return last.value, ctx.Err()
	case answer := <-asked:
		switch {
		case answer.Err == nil:
			last = answer.Val.(belief[V])
		case !ok:
			return last.value, answer.Err
		default: // and is not asked again at once
			last.at = time.Now()
			b.remember(key, last)
		}
		return last.value, last.err
	}
}

func (b *believed[K, V]) last(key K) (belief[V], bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last, ok := b.known[key]
	return last, ok
}

func (b *believed[K, V]) ask(ctx context.Context, key K) (belief[V], error) {
	if last, ok := b.last(key); ok && time.Since(last.at) < b.keep { // another asked since the caller looked
		return last, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	begun := time.Now() // what it says may be as old
	value, err := b.look(ctx, key)
	if err != nil && !errors.Is(err, tenants.ErrUnknown) {
		return belief[V]{}, err
	}
	now := belief[V]{value, err, begun}
	b.remember(key, now)
	return now, nil
}

func (b *believed[K, V]) remember(key K, now belief[V]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.known) >= beliefsKept {
		clear(b.known)
	}
	b.known[key] = now
}
