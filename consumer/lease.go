package consumer

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"
)

// held says what holdScript should make of an entry: its idle time, and its delivery count unless that is "".
type held struct {
	id    string
	idle  time.Duration
	count string
}

func (s *session) holdArgs(list []held) []string {
	args := make([]string, 0, 2+3*len(list))
	args = append(args, s.cfg.Group, s.name)
	for _, h := range list {
		args = append(args, h.id, strconv.FormatInt(h.idle.Milliseconds(), 10), h.count)
	}
	return args
}

// hold runs holdScript for entries of one stream and returns a code for each.
func (s *session) hold(ctx context.Context, key string, list []held) ([]int64, error) {
	return s.codes(s.scripts.hold.Exec(ctx, s.cmd, []string{key}, s.holdArgs(list)), len(list))
}

// holdAll does so for many streams in one go. A stream whose script failed has no codes.
func (s *session) holdAll(ctx context.Context, lists map[*stream][]held) map[*stream][]int64 {
	const most = 500 // entries a script: it blocks the server
	type part struct {
		s    *stream
		from int
		n    int
	}
	var parts []part
	var execs []valkey.LuaExec
	for st, list := range lists {
		for from := 0; from < len(list); from += most {
			n := min(most, len(list)-from)
			parts = append(parts, part{st, from, n})
			execs = append(execs, valkey.LuaExec{Keys: []string{st.key}, Args: s.holdArgs(list[from : from+n])})
		}
	}
	out := make(map[*stream][]int64, len(lists))
	if len(execs) == 0 {
		return out
	}
	failed := map[*stream]bool{}
	for i, res := range s.scripts.hold.ExecMulti(ctx, s.cmd, execs...) {
		codes, err := s.codes(res, parts[i].n)
		if err != nil {
			failed[parts[i].s] = true
			continue
		}
		if out[parts[i].s] == nil {
			out[parts[i].s] = make([]int64, len(lists[parts[i].s]))
		}
		copy(out[parts[i].s][parts[i].from:], codes)
	}
	for st := range failed {
		delete(out, st)
	}
	return out
}

// codes reads a reply of holdScript. A group or stream that is gone took the pending rows with it: what is in hand is
// carried on with, like a trimmed entry.
func (s *session) codes(res valkey.ValkeyResult, n int) ([]int64, error) {
	codes, err := res.AsIntSlice()
	if err == nil && len(codes) == n {
		return codes, nil
	}
	if groupGone(err) {
		codes = make([]int64, n)
		for i := range codes {
			codes[i] = holdTrimmed
		}
		return codes, nil
	}
	if err == nil {
		err = errShortReply
	}
	s.c.count.failures.Add(1)
	s.c.faults.warn("pending entries not updated", "", err)
	return nil, err
}

// renew keeps the leases of what is in hand: each entry whose idle time has been growing for a third of min-idle.
func (p *partition) renew(ctx context.Context) {
	now := time.Now()
	old := now.Add(-p.s.cfg.MinIdle / 3)
	lists := map[*stream][]held{}
	entries := map[*stream][]*entry{}
	p.mu.Lock()
	for _, s := range p.streams {
		for id, e := range s.inHand {
			if (e.state == stateQueued || e.state == stateRunning) && !e.lost && !e.touched.After(old) {
				lists[s] = append(lists[s], held{id: id})
				entries[s] = append(entries[s], e)
			}
		}
	}
	p.mu.Unlock()
	if len(lists) == 0 {
		return
	}
	codes := p.s.holdAll(ctx, lists)
	p.mu.Lock()
	defer p.mu.Unlock()
	for s, list := range entries {
		if codes[s] == nil {
			continue
		}
		for i, e := range list {
			if codes[s][i] != holdLost {
				e.touched = now
				continue
			}
			if (e.state == stateQueued || e.state == stateRunning) && !e.lost { // not settled meanwhile
				p.s.c.count.leasesLost.Add(1)
				e.lose()
			}
		}
	}
	p.cond.Broadcast()
}

// stillMine implements Message.StillMine.
func (e *entry) stillMine(ctx context.Context) (bool, error) {
	s := e.p.s
	self := []rawEntry{{id: e.msg.EntryID}}
	n, _, err := readCounts(s.cmd.Do(ctx, s.counts(e.s.key, e.msg.EntryID, self, 1)), map[string]int64{})
	if err != nil {
		return false, fmt.Errorf("whose is %s of %s: %w", e.msg.EntryID, e.s.key, err)
	}
	return n == 1, nil
}
