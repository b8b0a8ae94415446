package consumer

import (
	"slices"
	"time"
)

// roundBatches is how many batches the reads of a round trip may bring, about: while a large reply is taken in, nothing else
// is read.
const roundBatches = 2

// plan is what a reader does next: one of opening doors, a blocking read, or a round trip of acks and reads.
type plan struct {
	doors []*stream
	acks  []acks
	reads []read
	block time.Duration // where it is above 0, the one read waits so long
}

// read is one XREADGROUP. Its streams are asked for what comes after ids, new entries where that is ">".
type read struct {
	streams []*stream
	ids     []string
	count   int // for each stream
	aside   int // likewise: the room set aside for what it may bring
}

// next waits until there is something to do.
func (r *reader) next() (plan, bool) {
	p := r.p
	p.mu.Lock()
	defer p.mu.Unlock()
	r.away = false
	for {
		if p.s.quitting() {
			r.away = true
			r.met()
			return plan{}, false
		}
		r.streams = slices.DeleteFunc(r.streams, func(s *stream) bool {
			if s.leaving {
				s.listed = false
				p.forget(s)
			}
			return s.leaving
		})
		var active, doors []*stream
		now := time.Now()
		for _, s := range r.streams {
			switch {
			case s.phase != phaseDoor:
				active = append(active, s)
			case !s.retryAt.After(now):
				doors = append(doors, s)
			}
		}
		if len(doors) > 0 {
			r.away = true
			r.met()
			return plan{doors: doors}, true
		}
		pl := plan{acks: r.takeAcks()}
		again := time.Duration(0)
		if len(active) > 0 && p.s.breaker.closed() {
			again = r.planReads(&pl, active, now)
		}
		if pl.block > 0 {
			r.away = true
		}
		if pl.block > 0 || len(pl.reads) == 0 {
			r.met()
		}
		if len(pl.reads) > 0 {
			r.owed, r.looked = false, now
		}
		if len(pl.acks)+len(pl.reads) > 0 {
			return pl, true
		}
		if again > 0 {
			stop := p.s.after(again, p)
			p.cond.Wait()
			stop()
			continue
		}
		p.cond.Wait()
	}
}

// planReads decides on reads within the room that shares have. Streams whose last read was full are asked for much, the rest
// for a fair part of what is left for all of the partition, and each for an entry at least; none is asked for more than all of
// them may bring. Where there is nothing to ask for now, it says when to plan again, or 0: once something has changed. The
// mutex is held.
func (r *reader) planReads(pl *plan, active []*stream, now time.Time) (again time.Duration) {
	p := r.p
	wanted, held := r.wanted(active)
	if len(wanted) == 0 {
		return 0
	}
	size := p.s.cfg.BatchSize
	most := roundBatches * size
	if len(pl.acks) == 0 && !r.owed && !slices.ContainsFunc(wanted, func(s *stream) bool { return !s.dry || s.phase == phaseBacklog }) {
		block := p.s.cfg.Block
		if held || p.lanes[laneNew].waiting() {
			if block, again = r.meanwhile(now); block == 0 {
				return again
			}
		}
		// Nothing is set aside for a read that may wait for long: it is woken by one stream, and asks for a part.
		pl.block = block
		pl.reads = []read{r.read(wanted, min(size, max(1, min(most, p.room(laneNew))/len(p.streams))), 0)}
		return 0
	}
	r.turn++
	var shares []*share
	var rest []*stream
	for i := range wanted { // from another one each time, for when there is no room to ask all
		s := wanted[(i+r.turn)%len(wanted)]
		if !s.hot && s.phase != phaseBacklog {
			rest = append(rest, s)
			s.share.rest++
			continue
		}
		if len(s.share.hot) == 0 {
			shares = append(shares, s.share)
		}
		s.share.hot = append(s.share.hot, s)
	}
	for _, sh := range shares {
		budget := min(p.roomOf(sh), max(1, most/len(shares)))
		spare := min(sh.rest, budget/2)
		if budget == 1 && sh.rest > 0 {
			spare = r.turn % 2
		}
		group := sh.hot
		if sh.hot = nil; budget > spare {
			budget -= spare
			group = group[:min(len(group), budget)]
			r.ask(pl, group, min(size, budget/len(group)))
		}
	}
	if len(rest) > 0 {
		left := r.ask(pl, rest, min(size, max(1, min(most, p.room(laneNew)*greed/(greed+1))/len(p.streams))))
		r.ask(pl, left, 1)
	}
	return 0
}

// ask adds a read of those streams whose shares have room for as many entries, which it sets aside, and returns the others.
// The mutex is held.
func (r *reader) ask(pl *plan, streams []*stream, count int) (left []*stream) {
	fits := streams[:0]
	for _, s := range streams {
		if r.p.roomOf(s.share) < count {
			left = append(left, s)
			continue
		}
		r.p.ask(s, count)
		fits = append(fits, s)
	}
	if len(fits) > 0 {
		pl.reads = append(pl.reads, r.read(fits, count, count))
	}
	return left
}

// wanted are the streams to read from now: those of shares of which not enough is read yet. While a batch is in the handler a
// batch or more is enough. Nothing at all is enough of a share that is not known to have more, unless others wait before it for
// their turns: what arrives meanwhile is read when the handler is done, in one go and all of it, or goes to another consumer
// that is idle. But a reader that is owed a read has it, of all that is not known to have more, or a stream would wait for as
// long as another of its share floods. held says that some are not wanted. The mutex is held.
func (r *reader) wanted(active []*stream) (wanted []*stream, held bool) {
	p := r.p
	for _, s := range active {
		s.share.more, s.share.rest = false, 0
	}
	for _, s := range active {
		s.share.more = s.share.more || s.hot || s.phase == phaseBacklog
	}
	fresh := &p.lanes[laneNew]
	ahead, queued := max(p.s.cfg.BatchSize, fresh.limit/3), fresh.waiting()
	for _, s := range active {
		pile := &s.share.piles[laneNew]
		alone := pile.used == fresh.used
		turn := r.owed && !s.hot && s.phase != phaseBacklog
		enough := p.running && !turn && (pile.len() >= ahead || !s.share.more && (alone || !queued))
		if !enough && p.roomOf(s.share) > 0 {
			wanted = append(wanted, s)
		}
	}
	return wanted, len(wanted) < len(active)
}

// meanwhile is for how long to listen to some streams while a batch is in the handler, after which the others are read
// again: half as long as that has run. Each time something came a quarter of it passes first, so that it is not one read
// for each entry. Then again says when. The mutex is held.
func (r *reader) meanwhile(now time.Time) (block, again time.Duration) {
	p := r.p
	if !p.running {
		return 0, 0
	}
	ran := now.Sub(p.begun)
	from := p.begun.Add(quick)
	if next := r.heard.Add(ran / 4); next.After(from) {
		from = next
	}
	if wait := from.Sub(now); wait > 0 {
		return 0, wait
	}
	return min(p.s.cfg.Block, max(ran/2, time.Millisecond)), 0
}

func (r *reader) read(streams []*stream, count, aside int) read {
	rd := read{streams: streams, ids: make([]string, len(streams)), count: count, aside: aside}
	for i, s := range streams {
		if rd.ids[i] = ">"; s.phase == phaseBacklog {
			rd.ids[i] = s.cursor
		}
	}
	return rd
}
