package consumer

import (
	"sync"
	"sync/atomic"
	"time"
)

// Stats counts what a consumer did since it was made, and says how it stands. All counts are of entries unless named
// otherwise.
type Stats struct {
	Name     string // held in the group at the moment, "" if none
	Streams  int
	InFlight int // queued or in handlers
	Bytes    int // of those
	Delayed  int // waiting for their retry on our own timer

	Read      int64 // delivered for the first time
	Backlog   int64 // delivered again from the consumer's own backlog
	Reclaimed int64 // taken over from silent consumers, or back from the beat
	Retried   int64 // delivered again after their delay

	Batches          int64 // handed to the handler, new entries
	ReclaimedBatches int64 // handed to the handler, reclaimed and retried ones
	Acked            int64
	AckedElsewhere   int64 // acknowledged by us after somebody else had settled them
	Retries          int64 // Retry verdicts
	Rejected         int64 // Reject verdicts
	DeadLettered     int64
	HandedBack       int64 // not begun when we stopped, and given back with their attempts not raised
	Trimmed          int64 // pending entries whose bodies were trimmed away
	LeasesLost       int64
	Panics           int64 // entries at which the handler panicked
	GroupsRemade     int64 // after the group or its stream was destroyed
	Failures         int64 // commands that failed

	Ratio           int // handler batches of new entries for one of reclaimed ones while both wait
	Breaker         bool
	BreakerSince    time.Time // when it opened
	BreakerReason   string
	BreakerOpenings int64
}

// counters are the counts of Stats, kept for all sessions of a consumer.
type counters struct {
	read, backlog, reclaimed, retried               atomic.Int64
	batches, reclaimedBatches                       atomic.Int64
	acked, ackedElsewhere, retries, rejected        atomic.Int64
	deadLettered, handedBack, trimmed, leasesLost   atomic.Int64
	panics, groupsRemade, failures, breakerOpenings atomic.Int64
}

func (c *counters) into(s *Stats) {
	s.Read, s.Backlog, s.Reclaimed, s.Retried = c.read.Load(), c.backlog.Load(), c.reclaimed.Load(), c.retried.Load()
	s.Batches, s.ReclaimedBatches = c.batches.Load(), c.reclaimedBatches.Load()
	s.Acked, s.AckedElsewhere = c.acked.Load(), c.ackedElsewhere.Load()
	s.Retries, s.Rejected, s.DeadLettered = c.retries.Load(), c.rejected.Load(), c.deadLettered.Load()
	s.HandedBack, s.Trimmed, s.LeasesLost = c.handedBack.Load(), c.trimmed.Load(), c.leasesLost.Load()
	s.Panics, s.GroupsRemade, s.Failures = c.panics.Load(), c.groupsRemade.Load(), c.failures.Load()
	s.BreakerOpenings = c.breakerOpenings.Load()
}

// losses remembers how many entries of each stream were ever known to be lost: the server forgets when the group reads on.
type losses struct {
	mu sync.Mutex
	by map[string]int64
}

// most raises what is remembered of a stream to n and returns it.
func (l *losses) most(stream string, n int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil {
		l.by = map[string]int64{}
	}
	l.by[stream] = max(l.by[stream], n)
	return l.by[stream]
}
