package consumer

import (
	"context"
	"time"
)

// phase is where a stream stands with us.
type phase uint8

const (
	phaseDoor    phase = iota // the group must be made, or made again
	phaseBacklog              // entries pending under our name are read first, by cursor
	phaseNew                  // new entries
)

// stream is one stream of a partition, whose mutex guards all but key, r and share.
type stream struct {
	key   string
	r     *reader
	share *share

	phase phase
	// cursor is the last id that a read brought us. Reads bring ids in order, so what a lost reply held is what is
	// pending under our name after it: a failed read goes back to phaseBacklog from here.
	cursor   string
	hot      bool      // the last read was full: there is more
	dry      bool      // the last read brought nothing
	leaving  bool      // to be let go of once nothing of it is in hand
	listed   bool      // among its reader's streams
	fault    error     // why the door does not open
	retryAt  time.Time // when to try the door again
	remade   time.Time // when the group was last made again
	start    string    // of the group, should the door have to make it: "0" or "$"
	inHand   map[string]*entry
	acks     []string // settled, not acknowledged yet
	claiming string   // where the reclaim pass stands in the pending list, "" at its start
	delayed  int      // entries on our retry timer
}

// lane is one of the two queues of a partition.
type lane uint8

const (
	laneNew   lane = iota // first deliveries and our own backlog
	laneAgain             // reclaimed and retried entries
)

// state is where an entry in hand stands.
type state uint8

const (
	stateQueued  state = iota
	stateRunning       // in a handler
	stateAcking        // settled, to be acknowledged
	stateGone          // not ours any more, or handed back
)

// entry is one entry in hand. Its partition's mutex guards all but msg, s, p and size.
type entry struct {
	msg  Message
	s    *stream
	p    *partition
	size int

	lane    lane
	state   state
	suspect bool      // its last chance: it runs alone
	touched time.Time // when the server last began to count its idle time, at the earliest
	lost    bool
	again   int64                   // attempts, if the beat delivered it to us once more while its retry was being written down
	run     *run                    // the handler run it is in
	cancel  context.CancelCauseFunc // of the context made by watch
}

// watch implements Message.Context.
func (e *entry) watch(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	e.p.mu.Lock()
	if e.lost {
		cancel(ErrLeaseLost)
	} else {
		e.cancel = cancel
	}
	e.p.mu.Unlock()
	return ctx, func() {
		e.p.mu.Lock()
		e.cancel = nil
		e.p.mu.Unlock()
		cancel(nil)
	}
}

// lose marks an entry whose lease is gone. The partition's mutex is held.
func (e *entry) lose() {
	if e.lost {
		return
	}
	e.lost = true
	if e.cancel != nil {
		e.cancel(ErrLeaseLost)
	}
	if e.run != nil {
		if e.run.live--; e.run.live == 0 {
			e.run.cancel(ErrLeaseLost)
		}
	}
	if e.state == stateQueued {
		e.p.release(e)
		e.drop()
	}
}

// drop takes an entry out of our hands. The partition's mutex is held.
func (e *entry) drop() {
	e.state = stateGone
	if e.s.inHand[e.msg.EntryID] == e {
		delete(e.s.inHand, e.msg.EntryID)
	}
}
