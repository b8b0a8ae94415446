package consumer

import (
	"context"
	"slices"
	"time"

	"github.com/valkey-io/valkey-go"
)

// readerStreams is how many streams one read asks for: the server's cost of a wake-up grows with the square of it.
const readerStreams = 64

// reader reads up to readerStreams streams of one partition, in a cluster of one hash slot. It listens with a blocking
// read while nothing is new; while there is work it reads ahead without blocking, and the acknowledgements of what was
// handled go in the same round trip.
type reader struct {
	p    *partition
	slot uint16 // in a cluster

	// Guarded by the partition's mutex:
	streams []*stream
	acked   []*stream // with something to acknowledge
	away    bool      // not looking after acknowledgements: a worker sends them itself
	empty   bool      // the last reads, over all streams, brought nothing
	quiet   int       // how many streams were read since one brought something
	turn    int       // rotates over streams when there is no room to ask all

	wait backoff // after failures; the reader's goroutine's own
}

func newReader(p *partition, slot uint16) *reader {
	return &reader{p: p, slot: slot, wait: backoff{base: 50 * time.Millisecond, cap: 2 * time.Second}}
}

// plan is what a reader does next: one of opening doors, a blocking read, or a round trip of acks and reads.
type plan struct {
	doors []*stream
	acks  []acks
	reads []read
	block bool
}

// read is one XREADGROUP. Its streams are asked for what comes after ids, new entries where that is ">".
type read struct {
	streams  []*stream
	ids      []string
	count    int // for each stream
	reserved int // room taken for what it may bring
}

func (r *reader) loop() {
	for {
		pl, ok := r.next()
		switch {
		case !ok:
			return
		case len(pl.doors) > 0:
			r.open(pl.doors)
		case pl.block:
			r.listen(pl.reads[0])
		default:
			r.round(pl)
		}
	}
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
			return plan{doors: doors}, true
		}
		pl := plan{acks: r.takeAcks()}
		if len(active) > 0 && p.s.breaker.closed() && !r.ahead(active) {
			r.planReads(&pl, active)
		}
		if pl.block {
			r.away = true
		}
		if len(pl.acks)+len(pl.reads) > 0 {
			return pl, true
		}
		p.cond.Wait()
	}
}

// ahead: enough is read for now. A batch waits while another is in the handler, and what arrives meanwhile makes the
// next read, in one go, when the handler takes the batch. The mutex is held.
func (r *reader) ahead(active []*stream) bool {
	waiting := r.p.queues[laneNew].len()
	if !r.p.running || waiting == 0 {
		return false
	}
	more := slices.ContainsFunc(active, func(s *stream) bool { return s.hot || s.phase == phaseBacklog })
	return !more || waiting >= r.p.s.cfg.BatchSize
}

// planReads decides on reads within the room there is. Streams whose last read was full are asked for much, the rest for
// what a fair share of the room is; none is asked for more than all of them may bring. The mutex is held.
func (r *reader) planReads(pl *plan, active []*stream) {
	p := r.p
	room := p.room(laneNew)
	if room < 1 {
		return
	}
	size := p.s.cfg.BatchSize
	if r.empty && len(pl.acks) == 0 {
		// Nothing is set aside for a read that may wait for long: it is woken by one stream, and asks for a share.
		pl.block = true
		pl.reads = []read{r.read(active, min(size, max(1, room/len(p.streams))), 0)}
		return
	}
	var hot, rest []*stream
	for _, s := range active {
		if s.hot || s.phase == phaseBacklog {
			hot = append(hot, s)
		} else {
			rest = append(rest, s)
		}
	}
	share := room
	if len(hot) > 0 && len(rest) > 0 {
		if room == 1 { // in turn
			if r.turn++; r.turn%2 == 0 {
				hot = nil
			} else {
				rest = nil
			}
		}
		share = max(1, room-min(len(rest), room/2))
	}
	for _, group := range [][]*stream{hot, rest} {
		if len(group) == 0 || room < 1 {
			continue
		}
		budget := min(share, room)
		if budget < len(group) {
			r.turn = (r.turn + 1) % len(group)
			group = append(group[r.turn:len(group):len(group)], group[:r.turn]...)[:budget]
		}
		n := min(size, budget/len(group))
		reserved := n * len(group)
		pl.reads = append(pl.reads, r.read(group, n, reserved))
		p.used[laneNew] += reserved
		p.asked += reserved
		room -= reserved
		share = room
	}
}

func (r *reader) read(streams []*stream, count, reserved int) read {
	rd := read{streams: streams, ids: make([]string, len(streams)), count: count, reserved: reserved}
	for i, s := range streams {
		if rd.ids[i] = ">"; s.phase == phaseBacklog {
			rd.ids[i] = s.cursor
		}
	}
	return rd
}

func (r *reader) command(client valkey.Client, rd read, block time.Duration) valkey.Completed {
	keys := make([]string, len(rd.streams))
	for i, s := range rd.streams {
		keys[i] = s.key
	}
	s := r.p.s
	b := client.B().Xreadgroup().Group(s.cfg.Group, s.name).Count(int64(rd.count))
	if block > 0 {
		return b.Block(block.Milliseconds()).Streams().Key(keys...).Id(rd.ids...).Build()
	}
	return b.Streams().Key(keys...).Id(rd.ids...).Build()
}

// listen waits for new entries. It is not cancelled, so that no reply is lost; it ends by itself soon enough.
func (r *reader) listen(rd read) {
	s := r.p.s
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Block+s.timeout)
	defer cancel()
	r.took(rd, s.listen.Do(ctx, r.command(s.listen, rd, s.cfg.Block)))
}

// round sends acknowledgements and reads in one pipeline.
func (r *reader) round(pl plan) {
	s := r.p.s
	cmds := make([]valkey.Completed, 0, len(pl.acks)+len(pl.reads))
	for _, a := range pl.acks {
		cmds = append(cmds, s.ack(a))
	}
	for _, rd := range pl.reads {
		cmds = append(cmds, r.command(s.cmd, rd, 0))
	}
	results := s.cmd.DoMulti(context.Background(), cmds...)
	for i, a := range pl.acks {
		r.p.acknowledged(a, results[i])
	}
	ok := len(pl.reads) > 0
	for i, rd := range pl.reads {
		ok = r.took(rd, results[len(pl.acks)+i]) && ok
	}
	if len(pl.reads) == 0 {
		_, answered := valkey.IsValkeyErr(results[0].Error())
		ok = results[0].Error() == nil || answered
		if !ok {
			r.failed(results[0].Error())
		}
	}
	if ok {
		r.wait.reset()
	}
}

// took takes in what a read brought, and says whether it went well.
func (r *reader) took(rd read, res valkey.ValkeyResult) bool {
	streams, err := parseRead(res)
	now := time.Now()
	p := r.p
	if err != nil {
		p.mu.Lock()
		r.away = true
		p.used[laneNew] -= rd.reserved
		p.asked -= rd.reserved
		r.empty = false
		p.mu.Unlock()
		r.readFailed(rd.streams, err)
		return false
	}
	r.receive(rd, streams, now)
	return true
}

// readFailed sorts a failed read out.
func (r *reader) readFailed(streams []*stream, err error) {
	p := r.p
	p.s.c.count.failures.Add(1)
	if groupGone(err) || hasPrefix(err, "WRONGTYPE") {
		r.groupLost(streams, err)
		return
	}
	if _, answered := valkey.IsValkeyErr(err); !answered {
		// The server may have delivered entries in a reply that never came: they are behind each stream's cursor.
		p.mu.Lock()
		for _, s := range streams {
			if s.phase == phaseNew {
				s.phase = phaseBacklog
			}
		}
		p.mu.Unlock()
	}
	r.failed(err)
}

// failed waits before the next try.
func (r *reader) failed(err error) {
	p := r.p
	p.mu.Lock()
	r.away = true
	p.mu.Unlock()
	p.s.c.faults.warn("read failed", "", err)
	r.wait.sleep(p.s.quit)
}

// receive queues what a read brought.
func (r *reader) receive(rd read, got []rawStream, now time.Time) {
	p := r.p
	byKey := make(map[string][]rawEntry, len(got))
	for _, g := range got {
		byKey[g.key] = g.entries
	}
	var history []*stream
	brought := false
	p.mu.Lock()
	p.used[laneNew] -= rd.reserved
	p.asked -= rd.reserved
	for i, s := range rd.streams {
		entries, ok := byKey[s.key]
		if rd.ids[i] != ">" {
			if ok && len(entries) > 0 {
				history = append(history, s)
			} else if s.phase == phaseBacklog {
				s.phase = phaseNew
			}
			brought = true // there may be new entries behind the backlog
			continue
		}
		s.hot = len(entries) >= rd.count
		if len(entries) == 0 {
			continue
		}
		brought = true
		p.s.c.count.read.Add(int64(len(entries)))
		p.receiveNew(s, entries, now)
	}
	switch {
	case brought:
		r.empty, r.quiet = false, 0
	default:
		r.quiet += len(rd.streams)
		r.empty = r.quiet >= len(r.streams)
	}
	p.cond.Broadcast()
	p.mu.Unlock()
	if len(history) > 0 {
		p.receiveBacklog(history, rd.count, byKey, now)
	}
}

// receiveNew queues first deliveries. The mutex is held.
func (p *partition) receiveNew(s *stream, entries []rawEntry, now time.Time) {
	slab := make([]entry, len(entries)) // they come and go together
	for i := range entries {
		slab[i] = p.entry(s, entries[i], 1, laneNew, now)
		p.add(&slab[i])
	}
	s.cursor = entries[len(entries)-1].id
}

func (p *partition) entry(s *stream, raw rawEntry, attempts int64, l lane, now time.Time) entry {
	m := Message{Stream: s.key, EntryID: raw.id, Group: p.s.cfg.Group, Fields: raw.fields, Attempts: attempts}
	size := len(raw.id)
	for i := range raw.fields {
		size += len(raw.fields[i].Name) + len(raw.fields[i].Value)
	}
	m.RecordID, _ = raw.fields.Get("id")
	return entry{msg: m, s: s, p: p, size: size, lane: l, touched: now}
}
