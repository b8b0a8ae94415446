package web

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/broadcast"
)

// hub follows one game for all its watchers in this process. It believes a message only where it continues what it
// knows, and reads the table wherever a gap shows, so that each watcher is sent every version range in order, whatever
// was lost, doubled or overtaken on the way. One goroutine, [hub.run], does all its reading: whatever number of watchers
// wait, one query at a time answers them.
type hub struct {
	key        feed.GameKey
	table      liveTable
	times      Times
	log        *slog.Logger
	faults     *faults
	meter      *meter
	subscribed func()             // the doorbell stands: what was missed is to be found
	unseen     func(feed.GameKey) // somebody asked for a game that is not there
	wake       chan struct{}      // signalled when there may be something to read
	beside     *atomic.Int64      // hubs of this process; nil: it is alone

	mu        sync.Mutex // guards all that follows; taken before a watcher's
	recent    recent
	window    *window // nil until a snapshot was read
	header    header
	snapped   snapped
	caughtUp  frame    // the last delta that was encoded, if it is up to this version
	arrived   int64    // counts messages and subscriptions as they come
	parked    []parked // messages that do not continue what is known, by From
	target    int64    // a version that is known to exist
	gapAt     time.Time
	doubt     bool // another epoch was heard of: ask the table
	doubtAt   time.Time
	live      map[*sub]struct{}
	waiting   map[*sub]struct{} // owed an answer that what is remembered cannot give
	users     int               // who holds the hub without being live or waiting: it stays open for them
	moved     chan struct{}     // closed when the game moved on; nil while nobody waits for that
	lastUse   time.Time
	elsewhere map[string]heard // watchers in other processes
	retryAt   time.Time
	fails     int
}

type parked struct {
	broadcast.Message
	arrived int64
}

type heard struct {
	n  int
	at time.Time
}

// header is the game object as watchers were last sent it.
type header struct {
	json []byte // nil before the first read
	body []byte // json without the cursor, to see whether it says anything new
	ver  int64
	took time.Duration // the last count
	due  time.Time     // when it may be read again
}

// What is counted over all lines of a game is counted again after a period; or, where that takes long, after so many times
// what it took: as far as maxRecount lets, no game keeps more than a twentieth of a connection busy, and all those of a
// process together hardly more than a quarter of one.
const (
	costOfOne  = 20
	costOfAll  = 4
	maxRecount = 10 * time.Second
)

// recount is how long to wait with the next count of a game, one of so many, after one that took so long.
func recount(period, took time.Duration, games int) time.Duration {
	return max(period, min(took*time.Duration(max(costOfOne, costOfAll*games)), maxRecount))
}

// scattered adds up to a quarter: games that were opened together would all be counted in the same moment.
func scattered(wait time.Duration) time.Duration { return wait + rand.N(wait/4+1) }

// counted notes how long the count took that has just been made, or failed.
func (h *hub) counted(took time.Duration) {
	h.header.took = took
	h.header.due = time.Now().Add(scattered(recount(h.times.Header, took, h.games())))
}

// fresh reports whether the header is of the present version, or not old enough to be read anew.
func (h *header) fresh(r *recent) bool {
	return h.json != nil && (h.ver >= r.last || time.Now().Before(h.due))
}

// snapped is the last snapshot that was encoded.
type snapped struct {
	frame
	limit  int
	header int64 // version of its header
}

const (
	changesPage  = 2000 // lines of one catch-up query; a watcher further behind gets a snapshot
	readTime     = 5 * time.Second
	recentBytes  = 1 << 20   // what a hub remembers at most, and
	recentAtAll  = 128 << 20 // all hubs of a process together, down to
	recentLeast  = 16 << 10  // for each
	parkedBound  = 256       // messages; beyond it only their versions are kept
	maxBackoff   = time.Second
	firstBackoff = 50 * time.Millisecond
)

// Reasons of resets.
const (
	resetEpoch  = "epoch"  // the versions of the game began anew
	resetCursor = "cursor" // since is no cursor of this game
	resetBehind = "behind" // since is too far back for its changes to be worth sending
)

// room is how many bytes the hub may remember.
func (h *hub) room() int {
	return max(recentLeast, min(recentBytes, recentAtAll/h.games()))
}

// games is how many are watched in this process.
func (h *hub) games() int {
	if h.beside == nil {
		return 1
	}
	return max(1, int(h.beside.Load()))
}

func (h *hub) rouse() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// join takes a subscription in. What is remembered answers it at once, or the next read does.
func (h *hub) join(s *sub) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !s.watcher.holds(s) { // it has gone meanwhile
		return
	}
	h.arrived++
	s.asked = h.arrived
	h.admit(s)
}

func (h *hub) admit(s *sub) {
	h.lastUse = time.Now()
	if !h.serve(s) {
		h.waiting[s] = struct{}{}
		h.rouse()
	}
}

func (h *hub) leave(s *sub) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.live, s)
	delete(h.waiting, s)
	h.lastUse = time.Now()
}

// resume answers a subscription anew from where its watcher really stands.
func (h *hub) resume(s *sub) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, ok := s.watcher.recover(s)
	if !ok {
		return
	}
	delete(h.live, s)
	h.arrived++
	s.cursor, s.asked = at, h.arrived
	h.admit(s)
}

// serve answers a subscription and makes it live, if what is remembered can: by what changed since its cursor, or by a
// snapshot of this very version.
func (h *hub) serve(s *sub) bool {
	if !h.recent.opened() {
		return false
	}
	if s.cursor != (feed.Cursor{}) {
		if s.cursor.Epoch != h.recent.epoch {
			return false
		}
		delta, ok := h.delta(s.cursor.Ver)
		if !ok {
			return false
		}
		s.watcher.push(s, delta)
		if h.header.json != nil {
			s.watcher.push(s, gameFrame(h.key.Game, h.header.json))
		}
	} else {
		snap, ok := h.snap(s.limit)
		if !ok {
			return false
		}
		if s.reset != "" {
			s.watcher.push(s, resetFrame(h.key.Game, s.reset))
			s.reset = ""
		}
		s.watcher.push(s, snap)
	}
	delete(h.waiting, s)
	h.live[s] = struct{}{}
	h.rouse() // the header may be due
	return true
}

// delta is what changed since a version, if that is remembered. It is encoded once for all who come back together.
func (h *hub) delta(since int64) (frame, bool) {
	if f := &h.caughtUp; f.kind == frameDelta && f.epoch == h.recent.epoch && f.from == since && f.to == h.recent.last && since >= h.recent.floor {
		return *f, true
	}
	lines, ok := h.recent.since(since)
	if !ok {
		return frame{}, false
	}
	h.caughtUp = deltaFrame(h.key.Game, h.recent.epoch, since, h.recent.last, lines)
	return h.caughtUp, true
}

// snap is the snapshot of this very version, if the window and the header are good for it. It is encoded once for all
// who come at the same time.
func (h *hub) snap(limit int) (frame, bool) {
	if !h.window.serves(&h.recent, limit) || !h.header.fresh(&h.recent) {
		return frame{}, false
	}
	if h.snapped.limit != limit || h.snapped.header != h.header.ver || h.snapped.epoch != h.recent.epoch || h.snapped.to != h.recent.last {
		h.window.follow(&h.recent)
		lines, older := h.window.newest(limit)
		h.snapped = snapped{snapFrame(h.key.Game, h.recent.cursor(), h.header.json, lines, older), limit, h.header.ver}
	}
	return h.snapped.frame, true
}

// refuse lets a subscription start over: its cursor leads nowhere.
func (s *sub) refuse(reason string) { s.cursor, s.reset = feed.Cursor{}, reason }

// tick says where the game stands and how many watch it in all processes, as far as is known.
func (h *hub) tick(now time.Time) tickGame {
	h.mu.Lock()
	defer h.mu.Unlock()
	return tickGame{Game: h.key.Game, To: h.recent.last, Watchers: h.watchers() + h.others(now)}
}

// watchers is how many watch in this process.
func (h *hub) watchers() int { return len(h.live) + len(h.waiting) }

// await returns when the game has moved on from a cursor that the caller has just read, or when the context ends.
func (h *hub) await(ctx context.Context, since feed.Cursor) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.recent.opened() {
		h.recent.open(since.Epoch, since.Ver)
		h.unpark()
	}
	if h.recent.epoch != since.Epoch {
		h.suspect()
	}
	h.know(since.Ver, h.times.Park)
	for ctx.Err() == nil && h.recent.epoch == since.Epoch && h.recent.last <= since.Ver {
		if h.moved == nil {
			h.moved = make(chan struct{})
		}
		moved := h.moved
		h.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
		}
		h.mu.Lock()
	}
}

// since is what is remembered to have changed after a cursor.
func (h *hub) since(cursor feed.Cursor) (to int64, lines []broadcast.Line, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cursor.Epoch != h.recent.epoch {
		return 0, nil, false
	}
	lines, ok = h.recent.since(cursor.Ver)
	return h.recent.last, lines, ok
}

// release ends a use of the hub that [hubs.of] began.
func (h *hub) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.users--
	h.lastUse = time.Now()
}

func (h *hub) opened() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.recent.opened()
}

// idle reports whether nobody has used the hub for a while, a shorter one where there is no such game.
func (h *hub) idle(now time.Time, linger time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.recent.opened() {
		linger = min(linger, time.Second)
	}
	return h.watchers() == 0 && h.users == 0 && now.Sub(h.lastUse) >= linger
}

func (h *hub) others(now time.Time) int {
	n := 0
	for process, each := range h.elsewhere {
		if now.Sub(each.at) > h.times.Counts*5/2 {
			delete(h.elsewhere, process)
			continue
		}
		n += each.n
	}
	return n
}

// vanish takes the word that the game of a hub is not served any more, with what to tell those who watch it.
func (h *hub) vanish(code string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.recent.opened() {
		h.gone(code)
	}
}

// gone says that there is no such game: to all who watch it and all who ask.
func (h *hub) gone(code string) {
	if len(h.waiting) > 0 && code == errNotFound {
		h.unseen(h.key)
	}
	f := goneFrame(code, h.key.Game)
	for _, subs := range []map[*sub]struct{}{h.live, h.waiting} {
		for s := range subs {
			s.watcher.refuse(s, f)
		}
		clear(subs)
	}
	h.recent, h.window, h.header, h.snapped, h.parked, h.target, h.doubt = recent{}, nil, header{}, snapped{}, nil, 0, false
	if h.moved != nil {
		close(h.moved)
		h.moved = nil
	}
}

// setHeader takes the game as read from the table; watchers are sent it only where it says anything new.
func (h *hub) setHeader(game feed.Game) {
	if h.header.json != nil && game.Cursor.Ver < h.header.ver {
		return
	}
	full, err := json.Marshal(game)
	cursor := game.Cursor
	game.Cursor = feed.Cursor{}
	body, err2 := json.Marshal(game)
	if err != nil || err2 != nil {
		h.log.Error("header not encoded", "tenant", h.key.Tenant, "game", h.key.Game, "err", err)
		return
	}
	changed := !bytes.Equal(body, h.header.body)
	h.header.json, h.header.body, h.header.ver = full, body, cursor.Ver
	if !changed {
		return
	}
	f := gameFrame(h.key.Game, full)
	for s := range h.live {
		s.watcher.push(s, f)
	}
}

// run reads the table whenever that is called for, until the context ends.
func (h *hub) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		do, wait := h.next(time.Now())
		if do != nil {
			reading, cancel := context.WithTimeout(ctx, readTime)
			do(reading)
			cancel()
			if ctx.Err() != nil {
				return
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		case <-timer.C:
		}
	}
}
