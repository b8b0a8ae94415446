package consumer

import (
	"math/rand/v2"
	"time"
)

// backoff is a doubling wait with jitter, reset by its user when things go well.
type backoff struct {
	base, cap time.Duration
	n         int
}

// next is the coming wait: base, doubled each time up to cap, less up to a fifth.
func (b *backoff) next() time.Duration {
	d := doubled(b.base, b.n, b.cap)
	b.n++
	return jittered(d)
}

func (b *backoff) reset() { b.n = 0 }

// sleep waits and says whether it got to the end of it.
func (b *backoff) sleep(quit <-chan struct{}) bool {
	t := time.NewTimer(b.next())
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-quit:
		return false
	}
}

// doubled is base x 2^n, at most limit.
func doubled(base time.Duration, n int, limit time.Duration) time.Duration {
	for range n {
		if base >= limit/2 {
			return limit
		}
		base *= 2
	}
	return min(base, limit)
}

// jittered takes up to a fifth off d, so that many who wait do not come at once.
func jittered(d time.Duration) time.Duration {
	if d < 5 {
		return d
	}
	return d - rand.N(d/5)
}
