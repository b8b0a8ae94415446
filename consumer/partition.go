package consumer

import (
	"context"
	"slices"
	"sync"
)

// partition is one handler worker with the streams that belong to it, their readers, and the queue between.
type partition struct {
	s         *session
	limit     [2]int // most entries a lane may hold, queued or in the handler
	byteLimit int    // likewise for both

	mu   sync.Mutex
	cond *sync.Cond // everything that waits on what stands below
	// Guarded by mu:
	streams map[string]*stream
	readers []*reader
	queues  [2]queue
	used    [2]int // entries queued, in the handler, or asked for by a read under way
	asked   int    // of laneNew: for reads under way
	bytes   int    // of the others
	average int    // size of an entry, lately
	running bool   // the handler has a batch
	ratio   ratio
	delays  delays
	alarm   chan struct{} // has one element when delays has a new first one
}

func newPartition(s *session) *partition {
	cfg := s.cfg
	each := cfg.MaxInFlight / cfg.Workers
	again := max(1, each/4)
	p := &partition{
		s: s, limit: [2]int{each - again, again}, byteLimit: max(1, cfg.MaxInFlightBytes/cfg.Workers),
		streams: map[string]*stream{}, average: 256,
		ratio: ratio{base: cfg.Ratio, now: cfg.Ratio, streak: cfg.Ratio}, alarm: make(chan struct{}, 1),
	}
	p.cond = sync.NewCond(&p.mu)
	return p
}

// wake makes everything that waits look again.
func (p *partition) wake() {
	p.mu.Lock()
	p.cond.Broadcast()
	p.mu.Unlock()
}

// room is how many more entries a lane may take. The mutex is held.
func (p *partition) room(l lane) int {
	free := p.limit[l] - p.used[l]
	if p.bytes+free*p.average > p.byteLimit {
		free = (p.byteLimit - p.bytes) / p.average
		if free < 1 && p.bytes == 0 {
			free = 1 // an entry above the limit still has to pass
		}
	}
	return max(0, free)
}

// add queues an entry that its stream does not have in hand already. The mutex is held.
func (p *partition) add(e *entry) bool {
	if _, ok := e.s.inHand[e.msg.EntryID]; ok {
		return false
	}
	e.s.inHand[e.msg.EntryID] = e
	e.msg.held = e
	e.state = stateQueued
	p.used[e.lane]++
	p.bytes += e.size
	p.average += (e.size - p.average) / 16
	p.average = max(16, p.average)
	p.queues[e.lane].push(e)
	return true
}

// release gives the room of an entry back that is neither queued nor in the handler any more. The mutex is held.
func (p *partition) release(e *entry) {
	p.used[e.lane]--
	p.bytes -= e.size
}

// run is one batch in the handler.
type run struct {
	entries []*entry
	batch   []Message
	ctx     context.Context
	cancel  context.CancelCauseFunc
	live    int // entries whose lease is not lost; guarded by the partition's mutex
	lane    lane
	alone   bool // a suspect
}

// take waits for a batch and marks it running; nil when the worker should end. What arrived while the last batch was in
// the handler is the next one: nothing waits for a batch to fill.
func (p *partition) take() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = false
	p.cond.Broadcast()
	for !p.s.quitting() {
		if l, ok := p.choose(); ok {
			if wait, mine := p.s.breaker.turn(p); mine {
				return p.pick(l)
			} else if wait > 0 {
				stop := p.s.after(wait, p)
				p.cond.Wait()
				stop()
				continue
			}
		} else if p.s.breaker.owned(p) {
			// What the breaker opened on is gone from our hands: the next entry will tell.
			p.mu.Unlock()
			p.s.breaker.close(p.s)
			p.mu.Lock()
			continue
		}
		p.cond.Wait()
	}
	return nil
}

// choose picks the lane of the next batch, if there is any. The mutex is held.
func (p *partition) choose() (lane, bool) {
	fresh, again := p.queues[laneNew].waiting(), p.queues[laneAgain].waiting()
	switch {
	case again && (!fresh || p.ratio.turn()):
		p.ratio.streak = 0
		return laneAgain, true
	case fresh:
		return laneNew, true
	}
	return 0, false
}

// pick takes the batch off its lane: a suspect alone, others up to the next suspect. The mutex is held.
func (p *partition) pick(l lane) *run {
	q := &p.queues[l]
	n := min(p.s.cfg.BatchSize, q.len())
	r := &run{lane: l, entries: make([]*entry, 0, n), batch: make([]Message, 0, n)}
	for len(r.entries) < n && q.waiting() {
		e := q.first()
		if e.suspect && len(r.entries) > 0 {
			break
		}
		q.pop()
		e.state = stateRunning
		e.run = r
		r.entries = append(r.entries, e)
		r.batch = append(r.batch, e.msg)
		if e.suspect {
			r.alone = true
			break
		}
	}
	if l == laneNew {
		p.ratio.streak++
	}
	r.live = len(r.entries)
	r.ctx, r.cancel = context.WithCancelCause(p.s.handling)
	p.running = true
	p.cond.Broadcast() // readers read ahead
	return r
}

// ratio is how many batches of new entries are handled for one of reclaimed ones while both wait. Guarded by the
// partition's mutex.
type ratio struct {
	base, now int
	streak    int   // new batches since the last reclaimed one
	handled   int64 // reclaimed entries handed to the handler since the last full pass
	settled   int64 // of those: settled
}

// maxRatio is where doubling ends.
const maxRatio = 64

// turn: it is the reclaimed lane's turn.
func (r *ratio) turn() bool { return r.streak >= r.now }

// did counts a reclaimed batch. Any entry that settles ends the penalty at once.
func (r *ratio) did(handled, settled int64) {
	r.handled += handled
	if r.settled += settled; settled > 0 {
		r.now = r.base
	}
}

// pass ends a full pass over the pending lists, and says whether reclaimed work made progress since the last one. One
// that handled entries and settled none doubles the ratio.
func (r *ratio) pass() (progress bool) {
	progress = r.settled > 0
	if r.handled > 0 && !progress {
		r.now = max(r.base, min(maxRatio, r.now*2))
	}
	r.handled, r.settled = 0, 0
	return progress
}

// queue is a first-in first-out list of entries. Entries that are no longer queued in it are passed over.
type queue struct {
	items []*entry
	head  int
}

func (q *queue) push(e *entry) { q.items = append(q.items, e) }

// unshift puts entries in front, in their order.
func (q *queue) unshift(entries []*entry) {
	q.items = append(slices.Clone(entries), q.items[q.head:]...)
	q.head = 0
}

// len is an upper bound.
func (q *queue) len() int { return len(q.items) - q.head }

func (q *queue) first() *entry { return q.items[q.head] }

func (q *queue) pop() {
	q.items[q.head] = nil
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	} else if q.head > 1024 && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
}

// waiting drops what is gone from the front and says whether an entry waits.
func (q *queue) waiting() bool {
	for q.len() > 0 && q.first().state != stateQueued {
		q.pop()
	}
	return q.len() > 0
}
