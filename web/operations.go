package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
)

// operations looks at the renderers' group for all operators that are connected here, and remembers its last hour. It
// looks every now and then though nobody is connected: who comes wants to know how it was. A look takes at most a
// twentieth of the time, however many streams there are.
type operations struct {
	group Group // nil: there is nothing to look at
	may   func(ctx context.Context, w *watcher) error
	times Times
	hurry chan struct{} // an operator came
	warn  func(error)

	mu      sync.Mutex // guards what follows
	desks   map[*watcher]*desk
	history *histories
	last    GroupHealth
	failed  bool // the last look
	looked  bool // one did not
}

// desk is one operator's connection, and what was sent to it.
type desk struct {
	view    []byte
	upTo    int64     // the moment of the last sample, in ms
	lagged  time.Time // the overflow before which it was
	excused bool      // that nothing can be seen now
}

const lookShare = 20 // a look takes at most one part in so many of the time

func newOperations(s *Server) *operations {
	return &operations{
		group: s.config.Group,
		may: func(ctx context.Context, w *watcher) error {
			return s.permitKey(ctx, tenants.Operate, w.caller(), feed.GameKey{Tenant: w.tenant})
		},
		times: s.config.Times, hurry: make(chan struct{}, 1), desks: map[*watcher]*desk{}, history: newHistories(s.config.Times.Sample),
		warn: func(err error) { s.faults.warn("streams not reached", "err", err) },
	}
}

// operatePage is the same for every tenant, known or not: what it shows comes later, to who has a key.
func (s *Server) operatePage(c echo.Context) error {
	if _, err := s.pageTenant(c); err != nil {
		return err
	}
	return s.page(c, "operate.html", nil)
}

// operate answers an operate frame: by streams frames from now on, or by an err.
func (s *Server) operate(w *watcher) {
	err := errNoSuch
	if s.config.Group != nil {
		err = s.operations.may(s.ctx, w)
	}
	if err == nil {
		err = s.limits.join(s.ctx, w.tenant)
	}
	var no *refusal
	switch {
	case err == nil:
		s.operations.enter(s.ctx, w)
	case errors.As(err, &no):
		w.sendAway(no.after)
	case errors.Is(err, errNoSuch):
		w.say(errorFrame(errNotFound, msgNotFound, ""))
	default:
		s.faults.warn("tenant not looked up", "tenant", w.tenant, "err", err)
		w.say(errorFrame(errLater, "not available now, ask again later", ""))
	}
}

// enter lets an operator see what was seen last, and soon what is.
func (o *operations) enter(ctx context.Context, w *watcher) {
	o.mu.Lock()
	o.desks[w] = &desk{}
	o.mu.Unlock()
	o.show(ctx, w)
	select {
	case o.hurry <- struct{}{}:
	default:
	}
}

// run looks until the context ends.
func (o *operations) run(ctx context.Context) {
	if o.group == nil {
		return
	}
	for {
		begun := time.Now()
		o.look(ctx)
		took := time.Since(begun)
		if !o.rest(ctx, took) {
			return
		}
	}
}

// rest waits for the next look, after one that took so long; false at the end.
func (o *operations) rest(ctx context.Context, took time.Duration) bool {
	least := time.NewTimer(max(took*(lookShare-1), o.times.Operate/4))
	defer least.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-least.C:
	}
	pause := o.times.Sample
	o.mu.Lock()
	if len(o.desks) > 0 {
		pause = o.times.Operate
	}
	o.mu.Unlock()
	more := time.NewTimer(pause - max(took*(lookShare-1), o.times.Operate/4))
	defer more.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-o.hurry:
	case <-more.C:
	}
	return true
}

// look looks once, and shows all operators what is new to them.
func (o *operations) look(ctx context.Context) {
	all, err := o.group.Streams(ctx, "")
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		o.warn(fmt.Errorf("look at the group: %w", err))
	}
	o.mu.Lock()
	if o.failed = err != nil; !o.failed {
		o.last, o.looked = all, true
		o.history.take(all)
	}
	open := make([]*watcher, 0, len(o.desks))
	for w := range o.desks {
		open = append(open, w)
	}
	o.mu.Unlock()
	for _, w := range open {
		o.show(ctx, w)
	}
}

// show sends an operator what is new since it was sent something: nothing while that still waits to be written. Who is
// gone or may no more is shown nothing any more.
func (o *operations) show(ctx context.Context, w *watcher) {
	err := o.may(ctx, w)
	o.mu.Lock()
	defer o.mu.Unlock()
	d, ok := o.desks[w]
	waits, lagged, ended := w.holdsGroup()
	switch {
	case !ok:
		return
	case errors.Is(err, errNoSuch):
		w.say(errorFrame(errNotFound, msgNotFound, ""))
		delete(o.desks, w)
		return
	case ended:
		delete(o.desks, w)
		return
	case err != nil, waits: // the store is down, or the operator is slow
		return
	case o.failed:
		if !d.excused {
			w.say(errorFrame(errLater, "the streams are not available now", ""))
			d.excused = true
		}
		return
	case !o.looked:
		return
	}
	if d.excused || !lagged.Equal(d.lagged) { // frames may be lost
		*d = desk{lagged: lagged}
	}
	health := o.last.Of(w.tenant)
	view, err := json.Marshal(viewOf(health))
	if err != nil {
		o.warn(fmt.Errorf("encode the group: %w", err))
		return
	}
	samples, upTo := o.history.after(w.tenant, d.upTo)
	if slices.Equal(view, d.view) && len(samples) == 0 {
		return
	}
	d.view, d.upTo = view, upTo
	f := encodeFrame(struct {
		T       string          `json:"t"`
		At      feed.Instant    `json:"at"`
		Group   json.RawMessage `json:"group"`
		Samples []sampleView    `json:"samples"`
	}{"streams", health.At, view, samples})
	f.kind = frameStreams
	w.say(f)
}

// holdsGroup says whether a frame of the group still waits to be written, when frames were last lost, and whether the
// watcher takes any more.
func (w *watcher) holdsGroup() (waits bool, lagged time.Time, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.control, func(f frame) bool { return f.kind == frameStreams }), w.lagged, w.ended
}
