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
	Degraded    bool   // an entry has waited for DegradedAfter or longer, to be read or to be settled
	NoGroup     bool   // the group is not there: nobody has begun to read the stream
	Length      int64
	Lag         int64 // entries not yet delivered to anybody
	LagKnown    bool  // false where the server cannot tell, and for good once entries were lost to trimming
	Lost        int64 // entries trimmed away before anybody had read them
	LostKnown   bool  // false where counting them would cost too much
	Pending     int64
	OldestAge   time.Duration // of the oldest pending entry, by its id and the server's clock; 0 if nothing is pending
	OldestIdle  time.Duration // since that entry's last delivery or lease renewal
	OldestTries int64         // deliveries of that entry
	Unread      time.Duration // age of the oldest entry not yet delivered to anybody, likewise
	DeadLetters int64
	Consumers   []ConsumerHealth
}

// ConsumerHealth is one name in the group.
type ConsumerHealth struct {
	Name    string
	Alive   bool // a running consumer of this library holds the name
	Pending int64
	Idle    time.Duration // since it last asked the server for anything
}

// Dead lists the names that no running consumer of this library holds. What is pending under them waits to be reclaimed.
func (h StreamHealth) Dead() []ConsumerHealth {
	var out []ConsumerHealth
	for _, c := range h.Consumers {
		if !c.Alive {
			out = append(out, c)
		}
	}
	return out
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
	keys, faults := s.keys()
	h, err := s.observer.Health(ctx, keys...)
	h.Name = s.name
	if err != nil {
		return h, err
	}
	for i := range h.Streams {
		st := &h.Streams[i]
		if err := faults[st.Stream]; err != nil {
			st.Fault = err.Error()
			h.Reasons = append(h.Reasons, st.Fault)
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
	now, err := serverTime(ctx, s.cmd)
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
