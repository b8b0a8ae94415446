package consumer

import (
	"sync"
	"time"
)

// breaker is open while the handlers' store is down. The worker that found it down probes it, a batch at a time; the
// others, and all reading, wait. Its methods other than turn, owned and state wake partitions and must be called without
// any partition's mutex.
type breaker struct {
	mu sync.Mutex
	// Guarded by mu:
	open   bool
	told   bool // it was logged that it is open
	since  time.Time
	reason string
	owner  *partition // whose worker probes
	next   time.Time  // when
	wait   backoff
}

// Probes come after 100 ms at first, 5 s at last.
const (
	probeBase = 100 * time.Millisecond
	probeCap  = 5 * time.Second
)

func newBreaker() *breaker { return &breaker{wait: backoff{base: probeBase, cap: probeCap}} }

// turn: may this partition's worker run a batch now? If not, after wait, or, where that is 0, when it is woken.
func (b *breaker) turn(p *partition) (wait time.Duration, now bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return 0, true
	}
	if b.owner == nil {
		b.owner = p
	}
	if b.owner != p {
		return 0, false
	}
	wait = time.Until(b.next)
	return wait, wait <= 0
}

// owned: the breaker is open and this partition is the one to probe.
func (b *breaker) owned(p *partition) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open && b.owner == p
}

// closed: the store is thought to be up.
func (b *breaker) closed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.open
}

// trip opens the breaker, or puts the next probe further off.
func (b *breaker) trip(p *partition, err error) {
	b.mu.Lock()
	first := !b.open
	if first {
		b.open, b.since, b.owner = true, time.Now(), p
		b.wait.reset()
	}
	if b.owner == p || b.owner == nil {
		b.owner = p
		b.next = time.Now().Add(b.wait.next())
	}
	b.reason = Unavailable(err).Reason()
	b.mu.Unlock()
	if first {
		p.s.c.count.breakerOpenings.Add(1)
	}
	if p.s.c.faults.warn("handler's store unavailable, reading paused", "", err) {
		b.mu.Lock()
		b.told = true
		b.mu.Unlock()
	}
}

// close ends the pause.
func (b *breaker) close(s *session) {
	b.mu.Lock()
	was, told, since := b.open, b.told, b.since
	b.open, b.told, b.owner, b.reason = false, false, nil, ""
	b.mu.Unlock()
	if !was {
		return
	}
	if told { // a store that comes and goes is not worth two lines each time
		s.log.Info("handler's store is back, reading resumed", "after", time.Since(since).Round(time.Millisecond))
	}
	s.wake()
}

// state fills Stats in.
func (b *breaker) state(into *Stats) {
	b.mu.Lock()
	defer b.mu.Unlock()
	into.Breaker, into.BreakerReason = b.open, b.reason
	if b.open {
		into.BreakerSince = b.since
	}
}
