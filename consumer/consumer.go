package consumer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Consumer is one member of a consumer group. All methods are safe for concurrent use.
type Consumer struct {
	cfg   Config
	count counters

	running  atomic.Bool
	stopping chan context.Context // holds the context of the one Stop that counts
	done     chan struct{}        // closed when Run returns

	mu     sync.Mutex
	wanted map[string]bool // streams to read
}

// New checks the whole config and names all its faults in one error. It does no I/O.
func New(cfg Config) (*Consumer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.faults(); err != nil {
		return nil, err
	}
	c := &Consumer{
		cfg: cfg, wanted: map[string]bool{},
		stopping: make(chan context.Context, 1), done: make(chan struct{}),
	}
	c.Join(cfg.Streams...)
	return c, nil
}

// Run consumes until Stop is called or ctx is cancelled; the latter is a Stop with Config.StopTimeout. It returns nil
// after a clean stop. A consumer runs once.
func (c *Consumer) Run(ctx context.Context) error {
	if !c.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer close(c.done)
	return errors.ErrUnsupported
}

// Stop ends Run: running handlers finish, entries not begun are handed back with their attempts not raised,
// acknowledgements are flushed. When ctx ends first, the handlers' context is cancelled and Stop returns its error.
func (c *Consumer) Stop(ctx context.Context) error {
	if !c.running.Load() {
		return nil
	}
	select {
	case c.stopping <- ctx:
	default:
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Join adds streams to read; those it reads already are left as they are. It does not wait for them.
func (c *Consumer) Join(streams ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range streams {
		c.wanted[s] = true
	}
}

// Leave stops reading streams. What is in hand of them is still handled. It does not wait for that.
func (c *Consumer) Leave(streams ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range streams {
		delete(c.wanted, s)
	}
}

// Streams lists the streams that are read, sorted.
func (c *Consumer) Streams() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.wanted))
}

// Stats says what the consumer did and how it stands, without asking the server.
func (c *Consumer) Stats() Stats {
	var s Stats
	c.count.into(&s)
	return s
}
