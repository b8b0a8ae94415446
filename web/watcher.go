package web

import (
	"sync"
	"time"

	"github.com/codemojex/feedrenderer/feed"
)

// watcher is one connection as the hubs see it: a queue of frames, bounded in bytes, that its one writer empties. Hubs
// put frames in and never wait.
//
// On overflow the queue is cleared and every subscription is lost. Nothing more is queued for a lost one until the writer,
// able to write again, lets it resume from what was really written: one delta in place of all that was dropped.
//
// Answers to subscriptions, which may be large, have a bound of their own, so that one leaves room for the frames that
// follow it. An answer beyond the bound waits its turn: its subscription alone is lost, and no overflow is counted.
type watcher struct {
	tenant feed.TenantID
	bound  int    // bytes of the queue, and of the answers in it; a single frame may be larger
	wake   func() // called under mu, has the writer that rests begin: there is something to write, or it is to close

	mu      sync.Mutex // guards what follows, and the second half of each sub; taken under a hub's, never around it
	writing bool       // the writer is at it, or has not begun; else it rests
	subs    map[feed.GameID]*sub
	waiting []*sub    // subscriptions with frames, in order of the first
	lost    []*sub    // subscriptions to be resumed
	control []frame   // frames of no game, written after those of games
	bytes   int       // queued, the answers aside
	answers int       // bytes of queued snapshots and deltas
	lagged  time.Time // the last overflow
	ended   bool      // take nothing more
	proof   proof
	closing *closing // why the writer is to close, nil while it is not
}

// sub is a watcher's subscription to a game.
type sub struct {
	hub     *hub
	watcher *watcher
	limit   int // lines of a snapshot

	// Guarded by the hub.
	cursor feed.Cursor // where it resumes; zero: owed a snapshot
	reset  string      // the snapshot is announced by a reset with this reason
	asked  int64       // the hub's count of arrivals when it came

	// Guarded by the watcher.
	out    []frame
	sent   feed.Cursor // where the frames handed to the writer leave it; zero before a snapshot
	isLost bool
}

func newWatcher(tenant feed.TenantID, bound int) *watcher {
	return &watcher{tenant: tenant, bound: bound, writing: true, wake: func() {}, subs: map[feed.GameID]*sub{}, proof: proof{who: &caller{}, since: time.Now()}}
}

func (w *watcher) signal() {
	if !w.writing {
		w.writing = true
		w.wake()
	}
}

// push queues a frame of a subscription.
func (w *watcher) push(s *sub, f frame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || s.isLost {
		return
	}
	switch {
	case f.answers() && w.answers > 0 && w.answers+len(f.bytes) > w.bound:
		s.isLost = true
		w.lost = append(w.lost, s)
		w.signal()
		return
	case !f.answers() && !w.admit(len(f.bytes)):
		return
	}
	if len(s.out) == 0 {
		w.waiting = append(w.waiting, s)
	}
	if f.kind == frameGame {
		for i := range s.out { // only the newest header matters
			if s.out[i].kind == frameGame {
				w.count(&s.out[i], -1)
				s.out = append(s.out[:i], s.out[i+1:]...)
				break
			}
		}
	}
	s.out = append(s.out, f)
	w.count(&f, 1)
	w.signal()
}

// count adds a frame of a subscription to the bytes that wait, or takes it away with -1.
func (w *watcher) count(f *frame, sign int) {
	if f.answers() {
		w.answers += sign * len(f.bytes)
	} else {
		w.bytes += sign * len(f.bytes)
	}
}

// say queues a frame of no game.
func (w *watcher) say(f frame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	if w.admit(len(f.bytes)) {
		w.control = append(w.control, f)
		w.bytes += len(f.bytes)
	}
	w.signal()
}

// admit makes room by losing everything queued. Who overflows twice in a minute is closed.
func (w *watcher) admit(n int) bool {
	if w.bytes == 0 || w.bytes+n <= w.bound {
		return true
	}
	now := time.Now()
	if !w.lagged.IsZero() && now.Sub(w.lagged) < lagWindow {
		w.end(closeLagging)
		return false
	}
	w.lagged = now
	for _, s := range w.subs {
		if !s.isLost {
			s.out, s.isLost = nil, true
			w.lost = append(w.lost, s)
		}
	}
	w.waiting, w.control, w.bytes, w.answers = nil, nil, 0, 0
	w.signal()
	return false
}

// lagWindow is how long an overflow is held against a watcher.
const lagWindow = time.Minute

// close asks the writer to close the connection after what is queued. The first reason stands.
func (w *watcher) close(why closing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end(why)
}

func (w *watcher) end(why closing) {
	if w.closing == nil {
		w.closing = &why
	}
	w.ended = true
	w.signal()
}

// leave takes all subscriptions away: the connection is gone.
func (w *watcher) leave() {
	w.mu.Lock()
	subs := w.subs
	w.subs, w.waiting, w.lost, w.control, w.bytes, w.answers, w.ended = nil, nil, nil, nil, 0, 0, true
	w.mu.Unlock()
	for _, s := range subs {
		s.hub.leave(s)
	}
}

// add makes a subscription the one of its game and returns the one it replaces, whose frames are dropped.
func (w *watcher) add(s *sub) (before *sub, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return nil, false
	}
	before = w.subs[s.hub.key.Game]
	w.forget(before)
	w.subs[s.hub.key.Game] = s
	return before, true
}

// remove takes the subscription of a game away, if there is one.
func (w *watcher) remove(game feed.GameID) *sub {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.subs[game]
	w.forget(s)
	delete(w.subs, game)
	return s
}

// refuse takes a subscription away and tells the watcher why.
func (w *watcher) refuse(s *sub, f frame) {
	w.mu.Lock()
	if w.subs[s.hub.key.Game] == s {
		w.forget(s)
		delete(w.subs, s.hub.key.Game)
	}
	w.mu.Unlock()
	w.say(f)
}

// forget drops the frames of a subscription.
func (w *watcher) forget(s *sub) {
	if s == nil {
		return
	}
	for i := range s.out {
		w.count(&s.out[i], -1)
	}
	s.out, s.isLost = nil, true // nothing more is queued for it
	w.waiting = without(w.waiting, s)
	w.lost = without(w.lost, s)
}

func without(subs []*sub, s *sub) []*sub {
	kept := subs[:0]
	for _, each := range subs {
		if each != s {
			kept = append(kept, each)
		}
	}
	return kept
}

// size is how many games are subscribed.
func (w *watcher) size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.subs)
}

func (w *watcher) has(game feed.GameID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.subs[game] != nil
}

// holds reports whether a subscription is still the one of its game.
func (w *watcher) holds(s *sub) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.subs[s.hub.key.Game] == s
}

// games is a copy of the subscriptions.
func (w *watcher) games() []*sub {
	w.mu.Lock()
	defer w.mu.Unlock()
	subs := make([]*sub, 0, len(w.subs))
	for _, s := range w.subs {
		subs = append(subs, s)
	}
	return subs
}

// flush is what a writer takes to write at once.
type flush struct {
	frames []frame
	lost   *sub     // resume it once the frames are written
	close  *closing // close then
	none   bool     // nothing is to be done: the writer rests until it is woken
}

// take empties the queue. What waits of one game becomes one frame, whatever number of commits it is of.
func (w *watcher) take() flush {
	w.mu.Lock()
	if len(w.waiting)+len(w.lost)+len(w.control) == 0 && w.closing == nil {
		w.writing = false
		w.mu.Unlock()
		return flush{none: true}
	}
	waiting, control := w.waiting, w.control
	outs := make([][]frame, len(waiting))
	for i, s := range waiting {
		outs[i], s.out = s.out, nil
		for j := len(outs[i]) - 1; j >= 0; j-- {
			if f := &outs[i][j]; f.moves() {
				s.sent = feed.Cursor{Epoch: f.epoch, Ver: f.to}
				break
			}
		}
	}
	out := flush{close: w.closing}
	if len(w.lost) > 0 {
		out.lost, w.lost = w.lost[0], w.lost[1:]
	}
	w.waiting, w.control, w.bytes, w.answers = nil, nil, 0, 0
	w.mu.Unlock()

	for i, s := range waiting {
		out.frames = appendJoined(out.frames, s.hub.key.Game, outs[i])
	}
	out.frames = append(out.frames, control...)
	return out
}

// appendJoined appends the frames of one game, each run of lines frames joined to one.
func appendJoined(to []frame, game feed.GameID, frames []frame) []frame {
	for i := 0; i < len(frames); {
		n := i
		for n < len(frames) && frames[n].kind == frameLines {
			n++
		}
		if n == i {
			to = append(to, frames[i])
			i++
			continue
		}
		to = append(to, joinFrames(game, frames[i:n]))
		i = n
	}
	return to
}

// recover says where a lost subscription really stands and lets frames be queued for it again.
func (w *watcher) recover(s *sub) (feed.Cursor, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.subs[s.hub.key.Game] != s {
		return feed.Cursor{}, false
	}
	s.isLost = false
	return s.sent, true
}
