package consumer

import (
	"context"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"
)

// expel removes the names of the dead from the groups: those that own nothing, have been silent for the grace period,
// and whose name nobody holds. What a dead consumer owns is taken over first, by the beat.
func (p *partition) expel() {
	s := p.s
	ctx := context.Background()
	p.mu.Lock()
	streams := make([]*stream, 0, len(p.streams))
	for _, st := range p.streams {
		if st.phase != phaseDoor {
			streams = append(streams, st)
		}
	}
	p.mu.Unlock()
	held := map[string]bool{s.name: true}
	removed := map[string]int{} // from so many groups, by name
	defer func() {
		for name, n := range removed {
			s.log.Info("dead consumer removed", "consumer", name, "streams", n)
		}
	}()
	for len(streams) > 0 && !s.quitting() {
		n := min(len(streams), readerStreams)
		cmds := make([]valkey.Completed, n)
		for i, st := range streams[:n] {
			cmds[i] = s.cmd.B().XinfoConsumers().Key(st.key).Group(s.cfg.Group).Build()
		}
		for i, res := range s.cmd.DoMulti(ctx, cmds...) {
			list, err := consumers(res)
			if err != nil {
				continue // its reader, or the next time
			}
			for _, c := range list {
				if c.Pending == 0 && c.Idle >= s.cfg.ConsumerGrace && !s.alive(ctx, c.Name, held) && s.expel(ctx, streams[i].key, c.Name) {
					removed[c.Name]++
				}
			}
		}
		streams = streams[n:]
	}
}

// alive: somebody holds the name, or it is not known. known remembers the answers.
func (s *session) alive(ctx context.Context, name string, known map[string]bool) bool {
	if v, ok := known[name]; ok {
		return v
	}
	n, err := s.cmd.Do(ctx, s.cmd.B().Exists().Key(s.cfg.NameLease(name)).Build()).AsInt64()
	if err != nil {
		return true
	}
	known[name] = n > 0
	return n > 0
}

// expel says whether the name was removed.
func (s *session) expel(ctx context.Context, key, name string) bool {
	grace := strconv.FormatInt(s.cfg.ConsumerGrace.Milliseconds(), 10)
	n, err := s.scripts.expel.Exec(ctx, s.cmd, []string{key}, []string{s.cfg.Group, name, grace}).AsInt64()
	if err != nil {
		s.c.count.failures.Add(1)
	}
	return n == 1
}

// consumers reads XINFO CONSUMERS.
func consumers(res valkey.ValkeyResult) ([]ConsumerHealth, error) {
	rows, err := res.ToArray()
	if err != nil {
		return nil, err
	}
	out := make([]ConsumerHealth, len(rows))
	for i := range rows {
		row, err := rows[i].AsMap()
		if err != nil {
			return nil, err
		}
		name, pending, idle := row["name"], row["pending"], row["idle"]
		if out[i].Name, err = name.ToString(); err != nil {
			return nil, err
		}
		if out[i].Pending, err = pending.AsInt64(); err != nil {
			return nil, err
		}
		ms, err := idle.AsInt64()
		if err != nil {
			return nil, err
		}
		out[i].Idle = time.Duration(ms) * time.Millisecond
	}
	return out, nil
}
