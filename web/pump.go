package web

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// outlet is the way to one watcher: a socket or an event stream.
type outlet interface {
	// write sends frames, in order, within one deadline.
	write(frames []frame) error
	// probe finds out whether the peer still lives, without waiting for it, and closes the watcher if not.
	probe()
	// force breaks the connection.
	force()
}

// pump writes what is queued for a watcher until it is to be closed, or until its connection breaks. Nothing is written
// to the watcher but from here.
func (s *Server) pump(w *watcher, out outlet) (closing, error) {
	tick := time.NewTicker(s.config.Times.Tick)
	defer tick.Stop()
	probe := time.NewTicker(s.config.Times.Probe)
	defer probe.Stop()
	for {
		select {
		case <-w.ready:
		case now := <-tick.C:
			w.say(w.tick(now))
		case <-probe.C:
			out.probe()
			continue
		}
		next := w.take()
		if len(next.frames) > 0 {
			if err := out.write(next.frames); err != nil {
				return closing{}, err
			}
		}
		if next.lost != nil {
			s.meter.lags.WithLabelValues(string(w.tenant)).Inc()
			next.lost.hub.resume(next.lost)
		}
		if next.close != nil {
			return *next.close, nil
		}
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
