package consumer

import (
	"context"
	"slices"
	"sync"
	"time"
)

// partition is one handler worker with the streams that belong to it, their readers, and the queues between.
type partition struct {
	s         *session
	byteLimit int // most bytes of entries queued or in the handler

	mu   sync.Mutex
	cond *sync.Cond // everything that waits on what stands below
	// Guarded by mu:
	streams  map[string]*stream
	shares   map[string]*share // of those, by name
	readers  []*reader
	lanes    [2]line
	asked    int       // of what laneNew holds: for reads under way
	bytes    int       // of the others
	average  int       // size of an entry, lately
	running  bool      // the handler has a batch
	begun    time.Time // since when
	expected int       // readers that the worker waits for before it takes a batch, at most
	patience time.Time // until then
	ratio    ratio
	delays   delays
	alarm    chan struct{} // has one element when delays has a new first one
}

func newPartition(s *session) *partition {
	cfg := s.cfg
	each := cfg.MaxInFlight / cfg.Workers
	again := max(1, each/4)
	p := &partition{
		s: s, lanes: [2]line{{limit: each - again}, {limit: again}}, byteLimit: max(1, cfg.MaxInFlightBytes/cfg.Workers),
		streams: map[string]*stream{}, shares: map[string]*share{}, average: 256,
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
	free := p.lanes[l].limit - p.lanes[l].used
	if p.bytes+free*p.average > p.byteLimit {
		free = (p.byteLimit - p.bytes) / p.average
		if free < 1 && p.bytes == 0 {
			free = 1 // an entry above the limit still has to pass
		}
	}
	return max(0, free)
}

// greed is how many times what is left free a share may hold of laneNew. One share alone uses eight ninths of it; whoever
// comes finds room, and so does the next, until all hold the same.
const greed = 8

// roomOf is how many more entries of a share laneNew may take. One of which nothing waits for the handler may always have
// one, unless it is alone. The mutex is held.
func (p *partition) roomOf(sh *share) int {
	pile, free := &sh.piles[laneNew], p.room(laneNew)
	n := (greed*free - pile.used) / (greed + 1)
	if n < 1 && pile.len()+pile.asked == 0 && (len(p.shares) > 1 || pile.used == 0 && free > 0) {
		return 1
	}
	return max(0, n)
}

// ask sets room aside for n entries of a stream, or gives it back where n is negative. The mutex is held.
func (p *partition) ask(s *stream, n int) {
	pile := &s.share.piles[laneNew]
	pile.used += n
	pile.asked += n
	p.lanes[laneNew].used += n
	p.asked += n
}

// add queues an entry that its stream does not have in hand already. The mutex is held.
func (p *partition) add(e *entry) {
	if _, ok := e.s.inHand[e.msg.EntryID]; ok {
		return
	}
	e.s.inHand[e.msg.EntryID] = e
	e.msg.held = e
	p.average += (e.size - p.average) / 16
	p.average = max(16, p.average)
	p.occupy(e)
	p.queue(e)
}

// occupy takes the room of an entry. The mutex is held.
func (p *partition) occupy(e *entry) {
	p.lanes[e.lane].used++
	e.s.share.piles[e.lane].used++
	p.bytes += e.size
}

// release gives the room of an entry back that is neither queued nor in the handler any more. The mutex is held.
func (p *partition) release(e *entry) {
	p.lanes[e.lane].used--
	e.s.share.piles[e.lane].used--
	p.bytes -= e.size
}

// queue lets an entry that has room wait for the handler, behind the others of its share. The mutex is held.
func (p *partition) queue(e *entry) {
	pile := &e.s.share.piles[e.lane]
	e.state = stateQueued
	pile.push(e)
	p.lanes[e.lane].list(pile)
}

// requeue puts entries that were in the handler in front of their shares, in their order. The mutex is held.
func (p *partition) requeue(entries []*entry) {
	for _, e := range slices.Backward(entries) {
		pile := &e.s.share.piles[e.lane]
		e.state = stateQueued
		pile.unshift(e)
		p.lanes[e.lane].list(pile)
	}
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

const (
	// quick is a batch that delays nobody.
	quick = 2 * time.Millisecond
	// longestPatience bounds how long a worker waits for readers that are under way: one of them may read from a server that
	// does not answer.
	longestPatience = 20 * time.Millisecond
)

// ended notes that the handler is done with a batch. Readers that are not listening go for what has come meanwhile, and the
// worker waits for them, half as long as the batch took unless it was quick: else it would take what the first one brings, and
// leave what the others bring for as long as that is in the handler. Where it has a batch already and takes that, each of them
// reads once all the same; after quick ones now and then. The mutex is held.
func (p *partition) ended() {
	p.running = false
	now := time.Now()
	took := now.Sub(p.begun)
	p.patience = now.Add(min(took/2, longestPatience))
	p.expected = 0
	for _, r := range p.readers {
		if r.expected = took >= quick && !r.away; r.expected {
			p.expected++
		}
		r.owed = r.owed || !r.away && (took >= quick || now.Sub(r.looked) >= longestPatience)
	}
	p.cond.Broadcast()
}

// expecting is how long the worker still waits for readers, at most: not where a batch is full. The mutex is held.
func (p *partition) expecting(now time.Time) time.Duration {
	fresh := &p.lanes[laneNew]
	if p.expected == 0 || fresh.used-p.asked >= p.s.cfg.BatchSize {
		return 0
	}
	return p.patience.Sub(now)
}

// take waits for a batch and marks it running; nil when the worker should end. What arrived while the last batch was in
// the handler is the next one: nothing waits for a batch to fill.
func (p *partition) take() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running {
		p.ended()
	}
	for !p.s.quitting() {
		if wait := p.expecting(time.Now()); wait > 0 {
			stop := p.s.after(wait, p)
			p.cond.Wait()
			stop()
			continue
		}
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
	fresh, again := p.lanes[laneNew].waiting(), p.lanes[laneAgain].waiting()
	switch {
	case again && (!fresh || p.ratio.turn()):
		p.ratio.streak = 0
		return laneAgain, true
	case fresh:
		return laneNew, true
	}
	return 0, false
}

// pick takes the batch off its lane. The mutex is held.
func (p *partition) pick(l lane) *run {
	r := &run{lane: l, entries: p.lanes[l].deal(p.s.cfg.BatchSize)}
	r.batch = make([]Message, len(r.entries))
	for i, e := range r.entries {
		e.state, e.run = stateRunning, r
		r.batch[i] = e.msg
	}
	r.alone = r.entries[0].suspect
	if l == laneNew {
		p.ratio.streak++
	}
	r.live = len(r.entries)
	r.ctx, r.cancel = context.WithCancelCause(p.s.handling)
	p.running, p.begun = true, time.Now()
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
