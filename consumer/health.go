package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// ErrNotRunning says that a consumer has no connection to ask.
var ErrNotRunning = errors.New("consumer: not running")

// lossBound is how many unread entries are counted at most to tell how many were lost.
const lossBound = 1000

// Health is the state of the group on the server and of this consumer in it, at one moment.
type Health struct {
	Group    string
	Name     string // of this consumer, "" while it holds none
	At       time.Time
	Degraded bool
	Reasons  []string // why it is degraded, or what an operator should know
	Eviction string   // the server's maxmemory-policy if it may evict streams, else ""
	Streams  []StreamHealth
}

// StreamHealth is the state of the group on one stream.
type StreamHealth struct {
	Stream      string
	Fault       string // why the stream cannot be read, "" if it can
	Length      int64
	Lag         int64 // entries not yet delivered to anybody
	LagKnown    bool  // false where the server cannot tell, and for good once entries were lost to trimming
	Lost        int64 // entries trimmed away before anybody had read them
	LostKnown   bool  // false where counting them would cost too much
	Pending     int64
	OldestAge   time.Duration // of the oldest pending entry, by its id and the server's clock; 0 if nothing is pending
	OldestIdle  time.Duration // since that entry's last delivery or lease renewal
	DeadLetters int64
	Consumers   []ConsumerHealth
}

// ConsumerHealth is one name in the group.
type ConsumerHealth struct {
	Name    string
	Pending int64
	Idle    time.Duration // since it last asked the server for anything
}

// Health asks the server how the group stands. It fails while the consumer is not running or the server does not answer.
func (c *Consumer) Health(ctx context.Context) (Health, error) {
	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	if s == nil {
		return Health{Group: c.cfg.Group}, ErrNotRunning
	}
	return s.health(ctx)
}

func (s *session) health(ctx context.Context) (Health, error) {
	h := Health{Group: s.cfg.Group, Name: s.name}
	if policy := s.c.eviction.Load(); policy != nil && *policy != "" {
		h.Eviction = *policy
		h.Reasons = append(h.Reasons, "the server may evict streams: maxmemory-policy "+*policy)
	}
	keys, faults := s.keys()
	for len(keys) > 0 {
		n := min(len(keys), readerStreams)
		list, at, err := s.streamsHealth(ctx, keys[:n])
		if err != nil {
			return h, err
		}
		h.At = at
		h.Streams = append(h.Streams, list...)
		keys = keys[n:]
	}
	for i := range h.Streams {
		st := &h.Streams[i]
		if err := faults[st.Stream]; err != nil {
			st.Fault = err.Error()
			h.Reasons = append(h.Reasons, st.Fault)
		}
		if st.OldestAge >= s.cfg.DegradedAfter {
			h.Degraded = true
			h.Reasons = append(h.Reasons, fmt.Sprintf("%s: its oldest pending entry is %s old", st.Stream, st.OldestAge.Round(time.Second)))
		}
	}
	var stats Stats
	s.breaker.state(&stats)
	if stats.Breaker {
		h.Reasons = append(h.Reasons, "the handler's store is unavailable: "+stats.BreakerReason)
		h.Degraded = h.Degraded || time.Since(stats.BreakerSince) >= s.cfg.DegradedAfter
	}
	return h, nil
}

// keys lists the streams that are read, and what is wrong with those that cannot be.
func (s *session) keys() (keys []string, faults map[string]error) {
	faults = map[string]error{}
	for _, p := range s.partitions {
		p.mu.Lock()
		for key, st := range p.streams {
			keys = append(keys, key)
			if st.fault != nil {
				faults[key] = st.fault
			}
		}
		p.mu.Unlock()
	}
	slices.Sort(keys)
	return keys, faults
}

// streamsHealth asks about up to readerStreams streams in one round trip.
func (s *session) streamsHealth(ctx context.Context, keys []string) ([]StreamHealth, time.Time, error) {
	const each = 5
	b := s.cmd.B
	now, err := s.now(ctx)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("health of group %s: %w", s.cfg.Group, err)
	}
	var cmds []valkey.Completed
	for _, key := range keys {
		cmds = append(cmds,
			b().XinfoStream().Key(key).Build(),
			b().XinfoGroups().Key(key).Build(),
			b().Xpending().Key(key).Group(s.cfg.Group).Start("-").End("+").Count(1).Build(),
			b().XinfoConsumers().Key(key).Group(s.cfg.Group).Build(),
			b().Xlen().Key(s.cfg.DeadLetter(key)).Build(),
		)
	}
	replies := s.cmd.DoMulti(ctx, cmds...)
	for _, r := range replies {
		if err := r.NonValkeyError(); err != nil {
			return nil, time.Time{}, fmt.Errorf("health of group %s: %w", s.cfg.Group, err)
		}
	}
	out := make([]StreamHealth, len(keys))
	for i, key := range keys {
		r := replies[each*i:]
		h := StreamHealth{Stream: key}
		// A reply that is an error is a stream or group that is not there just now: its zeros are right.
		h.DeadLetters, _ = r[4].AsInt64()
		h.Consumers, _ = consumers(r[3])
		h.oldest(r[2], now)
		if loss, ok := h.group(s.cfg.Group, r[0], r[1]); ok {
			s.loss(ctx, &h, loss)
		}
		out[i] = h
	}
	return out, now, nil
}

// oldest reads the first row of the pending list.
func (h *StreamHealth) oldest(res valkey.ValkeyResult, now time.Time) {
	rows, err := res.ToArray()
	if err != nil || len(rows) == 0 {
		return
	}
	row, err := rows[0].ToArray()
	if err != nil || len(row) != 4 {
		return
	}
	if id, err := row[0].ToString(); err == nil {
		h.OldestAge = age(id, now)
	}
	if ms, err := row[2].AsInt64(); err == nil {
		h.OldestIdle = time.Duration(ms) * time.Millisecond
	}
}

// unread is what tells how many entries were lost.
type unread struct {
	added, read int64
	length      int64
	last        string // last delivered id
	first, top  string // ids of the stream's first entry, "" if it is empty, and of its last ever
}

// group reads what XINFO STREAM and XINFO GROUPS say of our group.
func (h *StreamHealth) group(group string, stream, groups valkey.ValkeyResult) (unread, bool) {
	info, err := stream.AsMap()
	if err != nil {
		return unread{}, false
	}
	u := unread{added: number(info["entries-added"]), length: number(info["length"]), top: text(info["last-generated-id"])}
	h.Length = u.length
	if first := info["first-entry"]; first.IsArray() {
		if parts, err := first.ToArray(); err == nil && len(parts) > 0 {
			u.first = text(parts[0])
		}
	}
	list, err := groups.ToArray()
	if err != nil {
		return unread{}, false
	}
	for i := range list {
		g, err := list[i].AsMap()
		if err != nil || text(g["name"]) != group {
			continue
		}
		h.Pending = number(g["pending"])
		u.last = text(g["last-delivered-id"])
		lag, read := g["lag"], g["entries-read"]
		if !lag.IsNil() {
			h.Lag, h.LagKnown = number(lag), true
		}
		if read.IsNil() {
			return unread{}, false
		}
		u.read = number(read)
		return u, true
	}
	return unread{}, false
}

// loss is entries added, less those read, less those still there to be read. The last are counted only where neither end
// of the stream tells.
func (s *session) loss(ctx context.Context, h *StreamHealth, u unread) {
	var left int64
	switch {
	case u.first == "" || compareIDs(u.last, u.top) >= 0:
	case compareIDs(u.first, u.last) > 0:
		left = u.length
	default:
		n, err := s.scripts.count.Exec(ctx, s.cmd, []string{h.Stream}, []string{"(" + u.last, strconv.Itoa(lossBound + 1)}).AsInt64()
		if err != nil || n > lossBound {
			return
		}
		left = n
	}
	h.Lost, h.LostKnown = s.c.lost.most(h.Stream, max(0, u.added-u.read-left)), true
	if h.Lost > 0 {
		h.Lag, h.LagKnown = 0, false
	}
}

// monitor logs when the group becomes degraded and when it recovers, looking only at the oldest pending entries.
func (s *session) monitor() {
	t := time.NewTicker(max(s.cfg.DegradedAfter/4, 10*time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-s.quit:
			return
		case <-t.C:
		}
		oldest, stream, err := s.oldest(context.Background())
		switch {
		case err != nil:
			s.c.count.failures.Add(1)
		case oldest >= s.cfg.DegradedAfter:
			s.c.faults.warn("group degraded", "", fmt.Errorf("%s: oldest pending entry is %s old", stream, oldest.Round(time.Second)))
		case s.c.faults.over("group degraded", ""):
			s.log.Info("group recovered")
		}
	}
}

// oldest is the age of the oldest pending entry of all streams.
func (s *session) oldest(ctx context.Context) (oldest time.Duration, stream string, err error) {
	now, err := s.now(ctx)
	if err != nil {
		return 0, "", err
	}
	keys, _ := s.keys()
	for len(keys) > 0 {
		n := min(len(keys), readerStreams)
		cmds := make([]valkey.Completed, 0, n)
		for _, key := range keys[:n] {
			cmds = append(cmds, s.cmd.B().Xpending().Key(key).Group(s.cfg.Group).Start("-").End("+").Count(1).Build())
		}
		for i, res := range s.cmd.DoMulti(ctx, cmds...) {
			var h StreamHealth
			if h.oldest(res, now); h.OldestAge > oldest {
				oldest, stream = h.OldestAge, keys[i]
			}
		}
		keys = keys[n:]
	}
	return oldest, stream, nil
}

// now is the server's clock.
func (s *session) now(ctx context.Context) (time.Time, error) {
	parts, err := s.cmd.Do(ctx, s.cmd.B().Time().Build()).AsIntSlice()
	if err != nil {
		return time.Time{}, err
	}
	if len(parts) != 2 {
		return time.Time{}, errShortReply
	}
	return time.Unix(parts[0], parts[1]*1000).UTC(), nil
}

// age is how long ago an entry id was made, not below 0: writers' clocks may run ahead.
func age(id string, now time.Time) time.Duration {
	ms, _ := splitID(id)
	return max(0, now.Sub(time.UnixMilli(int64(min(ms, 1<<62)))))
}

func splitID(id string) (ms, seq uint64) {
	head, tail, _ := strings.Cut(id, "-")
	ms, err := strconv.ParseUint(head, 10, 64)
	if err != nil {
		return 0, 0
	}
	seq, err = strconv.ParseUint(tail, 10, 64)
	if err != nil {
		return ms, 0
	}
	return ms, seq
}

func compareIDs(a, b string) int {
	aMs, aSeq := splitID(a)
	bMs, bSeq := splitID(b)
	switch {
	case aMs != bMs:
		if aMs < bMs {
			return -1
		}
		return 1
	case aSeq < bSeq:
		return -1
	case aSeq > bSeq:
		return 1
	}
	return 0
}

// number and text read a value of a reply, the zero value where it is something else.
func number(m valkey.ValkeyMessage) int64 {
	n, err := m.AsInt64()
	if err != nil {
		return 0
	}
	return n
}

func text(m valkey.ValkeyMessage) string {
	s, err := m.ToString()
	if err != nil {
		return ""
	}
	return s
}
