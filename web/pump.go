package web

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// outlet is the way to one watcher: a socket or an event stream.
type outlet interface {
	// send writes frames, in order, within one deadline.
	send(frames []frame) error
	// force breaks the connection.
	force()
}

// pump writes what is queued for a watcher until nothing is, and says whether that was the end: it is to be closed, or
// its connection broke. Else it is to be called again when the watcher wakes it. Nothing is written to the watcher but
// from here.
func (s *Server) pump(w *watcher, out outlet) (why closing, ended bool, err error) {
	for {
		next := w.take()
		if next.none {
			return closing{}, false, nil
		}
		if len(next.frames) > 0 {
			if err := out.send(next.frames); err != nil {
				return closing{}, true, err
			}
			s.meter.delivered(w.tenant, next.frames)
		}
		if next.lost != nil {
			s.meter.lags.WithLabelValues(string(w.tenant)).Inc()
			next.lost.hub.resume(next.lost)
		}
		if next.close != nil {
			return *next.close, true, nil
		}
	}
}

// ticking says each period where the watcher's games stand, until it is stopped.
func (s *Server) ticking(w *watcher) (stop func()) {
	return repeat(s.config.Times.Tick, func() { w.say(w.tick(time.Now())) })
}

// repeat calls f again and again, a period after the last call, until it is stopped. No goroutine waits in between: one
// for each watcher would hold more memory than the rest of it. Stop waits for a call under way.
func repeat(period time.Duration, f func()) (stop func()) {
	var (
		mu    sync.Mutex // guards timer and is held by a call
		timer *time.Timer
	)
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(period, func() {
		mu.Lock()
		defer mu.Unlock()
		if timer != nil {
			f()
			timer.Reset(period)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		timer.Stop()
		timer = nil
	}
}

// tick says of every game where it stands: the sign of life that shows a lost tail.
func (w *watcher) tick(now time.Time) frame {
	subs := w.games()
	games := make([]tickGame, len(subs))
	for i, s := range subs {
		games[i] = s.hub.tick(now)
	}
	return tickFrame(now, games)
}

// outlets are the open ones.
type outlets struct {
	mu     sync.Mutex // guards what follows
	open   map[*watcher]outlet
	closed bool
	empty  chan struct{} // closed when none is left of a closed set
}

// add takes an outlet in and starts it; false where no more are taken.
func (o *outlets) add(w *watcher, out outlet, start func()) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return false
	}
	o.open[w] = out
	start()
	return true
}

func (o *outlets) remove(w *watcher) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.open[w]; !ok {
		return
	}
	delete(o.open, w)
	if o.closed && len(o.open) == 0 {
		close(o.empty)
	}
}

// watchers are those of the open ones.
func (o *outlets) watchers() []*watcher {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Keys(o.open))
}

// close takes no more outlets and returns those that are open.
func (o *outlets) close() []*watcher {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.closed = true
		if len(o.open) == 0 {
			close(o.empty)
		}
	}
	return slices.Collect(maps.Keys(o.open))
}

// force breaks what is still open and says how many that were.
func (o *outlets) force() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, out := range o.open {
		out.force()
	}
	return len(o.open)
}
