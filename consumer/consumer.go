package consumer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Consumer is one member of a consumer group. All methods are safe for concurrent use.
type Consumer struct {
	cfg    Config
	count  counters
	faults faultLog
	lost   losses

	life     atomic.Int32
	stopping chan context.Context // holds the context of the one Stop that counts
	done     chan struct{}        // closed when Run returns

	mu      sync.Mutex
	wanted  map[string]bool // streams to read; guarded by mu
	session *session        // the one that runs; guarded by mu
}

// What became of a consumer so far.
const (
	lifeNew     int32 = iota
	lifeStopped       // before it ran
	lifeRun           // it runs, or has run
)

// New checks the whole config and names all its faults in one error. It does no I/O.
func New(cfg Config) (*Consumer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.faults(); err != nil {
		return nil, err
	}
	c := &Consumer{
		cfg: cfg, faults: faultLog{log: cfg.Logger}, wanted: map[string]bool{},
		stopping: make(chan context.Context, 1), done: make(chan struct{}),
	}
	c.Join(cfg.Streams...)
	return c, nil
}

// Run consumes until Stop is called or ctx is cancelled; the latter is a Stop with Config.StopTimeout. It returns nil
// after a clean stop. A server that does not answer is waited for; one that is too old or refuses us is an error, and so
// is a key among Config.Streams that is not a stream, or a configured Name that a live consumer holds. A consumer runs
// once.
func (c *Consumer) Run(ctx context.Context) error {
	switch {
	case c.life.CompareAndSwap(lifeNew, lifeRun):
	case c.life.CompareAndSwap(lifeStopped, lifeRun):
		return nil
	default:
		return ErrRunning
	}
	defer close(c.done)
	ctx, cancel := context.WithCancel(ctx) // ends where a stop begins
	defer cancel()
	stop := make(chan context.Context, 1)
	finished := make(chan struct{})
	var waiter sync.WaitGroup
	waiter.Go(func() { c.await(ctx, cancel, stop, finished) })
	defer waiter.Wait()
	defer close(finished)

	err := c.run(ctx, stop)
	if err != nil && ctx.Err() != nil {
		return nil // stopped before it had begun
	}
	return err
}

// await turns a call of Stop, or the end of Run's context, into the context whose end is the deadline of the stop.
func (c *Consumer) await(ctx context.Context, cancel func(), stop chan<- context.Context, finished <-chan struct{}) {
	select {
	case deadline := <-c.stopping:
		stop <- deadline
		cancel()
	case <-ctx.Done():
		deadline, done := context.WithTimeout(context.Background(), c.cfg.StopTimeout)
		defer done()
		stop <- deadline
		<-finished
	case <-finished:
	}
}

// run lives under one name after another: a default name that was lost is replaced.
func (c *Consumer) run(ctx context.Context, stop <-chan context.Context) error {
	conns, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer conns.close()
	scripts := newScripts()
	for {
		conns.wires.until(ctx)
		lease, err := c.takeName(ctx, conns, scripts)
		if err != nil {
			return err
		}
		s := newSession(c, conns, scripts, lease)
		if err := s.checkStart(ctx); err != nil {
			s.cancel(nil)
			s.atLast(func(ctx context.Context) { lease.drop(ctx, conns, scripts) })
			return err
		}
		c.mu.Lock()
		c.session = s
		s.join(slices.Collect(maps.Keys(c.wanted))...)
		c.mu.Unlock()
		err = s.run(stop)
		c.mu.Lock()
		c.session = nil
		c.mu.Unlock()
		switch {
		case err == nil:
			return nil
		case c.cfg.Name != "":
			return fmt.Errorf("%w: %q", ErrNameTaken, c.cfg.Name)
		}
	}
}

// Stop ends Run: running handlers finish, entries not begun are handed back with their attempts not raised,
// acknowledgements are flushed. When ctx ends first, the handlers' context is cancelled and Stop returns its error.
// A Run that has not begun yet will return at once.
func (c *Consumer) Stop(ctx context.Context) error {
	if c.life.CompareAndSwap(lifeNew, lifeStopped) {
		close(c.done)
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
	if c.session != nil {
		c.session.join(streams...)
	}
}

// Leave stops reading streams. What is in hand of them is still handled. It does not wait for that.
func (c *Consumer) Leave(streams ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range streams {
		delete(c.wanted, s)
	}
	if c.session != nil {
		c.session.leave(streams...)
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
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Streams, s.Ratio = len(c.wanted), c.cfg.Ratio
	if c.session != nil {
		c.session.stats(&s)
	}
	return s
}
