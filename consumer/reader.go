package consumer

import (
	"context"
	"time"

	"github.com/valkey-io/valkey-go"
)

// readerStreams is how many streams one read asks for: the server's cost of a wake-up grows with the square of it.
const readerStreams = 64

// reader reads up to readerStreams streams of one partition, in a cluster of one hash slot. It listens with a blocking
// read while nothing is new; while there is work it reads without blocking, between batches or, where there is much, ahead
// of them, and the acknowledgements of what was handled go in the same round trip.
type reader struct {
	p    *partition
	slot uint16 // in a cluster

	// Guarded by the partition's mutex:
	streams  []*stream
	acked    []*stream // with something to acknowledge
	away     bool      // not looking after acknowledgements: a worker sends them itself
	expected bool      // the worker waits for what its next read brings
	owed     bool      // one read that does not wait, of all its streams, even while a batch is in the handler
	looked   time.Time // when it last planned a read
	turn     int       // rotates over streams
	heard    time.Time // when listening last brought something

	wait backoff // after failures; the reader's goroutine's own
}

func newReader(p *partition, slot uint16) *reader {
	return &reader{p: p, slot: slot, wait: backoff{base: 50 * time.Millisecond, cap: 2 * time.Second}}
}

func (r *reader) loop() {
	for {
		pl, ok := r.next()
		switch {
		case !ok:
			return
		case len(pl.doors) > 0:
			r.open(pl.doors)
		case pl.block > 0:
			r.listen(pl.reads[0], pl.block)
		default:
			r.round(pl)
		}
	}
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
func (r *reader) listen(rd read, block time.Duration) {
	s := r.p.s
	ctx, cancel := context.WithTimeout(context.Background(), block+s.timeout)
	defer cancel()
	r.took(rd, s.listen.Do(ctx, r.command(s.listen, rd, block)))
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
	r.p.mu.Lock()
	r.met()
	r.p.mu.Unlock()
	if len(pl.reads) == 0 {
		err := results[0].Error()
		if ok = !serverFault(err); !ok {
			r.failed(err)
		}
	}
	if ok {
		r.wait.reset()
	}
}

// met says that the worker need not wait for the reader any more: what it went for is there, or it does not go. The mutex is
// held.
func (r *reader) met() {
	if r.expected {
		r.expected = false
		r.p.expected--
		r.p.cond.Broadcast()
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
		r.met()
		for _, s := range rd.streams {
			p.ask(s, -rd.aside)
			s.dry = false
		}
		p.cond.Broadcast()
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
	p.mu.Lock()
	for i, s := range rd.streams {
		p.ask(s, -rd.aside)
		entries, ok := byKey[s.key]
		if rd.ids[i] != ">" {
			if ok && len(entries) > 0 {
				history = append(history, s)
			} else if s.phase == phaseBacklog {
				s.phase = phaseNew
			}
			continue
		}
		s.hot, s.dry = len(entries) >= rd.count, len(entries) == 0
		if s.dry {
			continue
		}
		if rd.aside == 0 {
			r.heard = now
		}
		p.s.c.count.read.Add(int64(len(entries)))
		p.receiveNew(s, entries, now)
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
