package consumer

import (
	"container/heap"
	"context"
	"slices"
	"time"
)

// delayedEntry is an entry to come back after d.
type delayedEntry struct {
	e *entry
	d time.Duration
}

// delay is what a Retry verdict means: what it asks for, or our own backoff, and never more than min-idle, which is all
// that the pending list can keep.
func (p *partition) delay(e *entry, asked time.Duration) time.Duration {
	cfg := p.s.cfg
	if asked <= 0 {
		return jittered(doubled(cfg.Backoff, int(min(e.msg.Attempts-1, 62)), cfg.MinIdle))
	}
	return min(asked, cfg.MinIdle)
}

// postpone writes delays into the pending list: an entry that has been idle for min-idle less its delay is due when its
// delay is over, to any consumer of the group, so the delay survives us. Our own timer takes it then; where that is
// lost, or full, the beat does.
func (p *partition) postpone(list []delayedEntry) {
	if len(list) == 0 {
		return
	}
	byStream := map[*stream][]held{}
	of := map[*stream][]delayedEntry{}
	for _, d := range list {
		idle := p.s.cfg.MinIdle - d.d
		byStream[d.e.s] = append(byStream[d.e.s], held{id: d.e.msg.EntryID, idle: idle})
		of[d.e.s] = append(of[d.e.s], d)
	}
	codes := p.s.holdAll(context.Background(), byStream)
	now := time.Now()
	var again []*entry
	p.mu.Lock()
	for s, entries := range of {
		for i, d := range entries {
			p.release(d.e)
			d.e.drop()
			if codes[s] == nil { // not known: the beat finds it
				continue
			}
			switch codes[s][i] {
			case holdDone:
				if d.e.again > 0 { // it was due already, and the beat was first
					e := p.entry(s, rawEntry{id: d.e.msg.EntryID, fields: d.e.msg.Fields}, d.e.again, laneAgain, time.Time{})
					again = append(again, &e)
					continue
				}
				// The server's clock has whole milliseconds: being late by two never asks too early.
				p.sleepOn(s, d.e.msg.EntryID, now.Add(d.d+2*time.Millisecond))
			case holdLost:
				p.s.c.count.leasesLost.Add(1)
			case holdTrimmed:
				p.s.c.count.trimmed.Add(1)
			}
		}
		if s.leaving {
			p.forget(s)
		}
	}
	p.cond.Broadcast()
	p.mu.Unlock()
	p.enqueue(again)
}

// sleepOn puts an entry on our timer. The mutex is held.
func (p *partition) sleepOn(s *stream, id string, due time.Time) {
	if len(p.delays) >= 4*p.s.cfg.MaxInFlight {
		return
	}
	s.delayed++
	heap.Push(&p.delays, due1{due, s, id})
	if p.delays[0].id == id {
		select {
		case p.alarm <- struct{}{}:
		default:
		}
	}
}

// due1 is one entry on the timer.
type due1 struct {
	at time.Time
	s  *stream
	id string
}

// delays is a heap by time.
type delays []due1

func (d delays) Len() int           { return len(d) }
func (d delays) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d delays) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *delays) Push(x any)        { *d = append(*d, x.(due1)) }
func (d *delays) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

// due takes what is due off the timer, at most n entries, and says when the next is.
func (p *partition) due(n int) (ids map[*stream][]string, next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	defer func() {
		for _, list := range ids { // the order of the pending list
			slices.SortFunc(list, compareIDs)
		}
	}()
	for len(p.delays) > 0 {
		if p.delays[0].at.After(now) || n == 0 {
			return ids, p.delays[0].at
		}
		d := heap.Pop(&p.delays).(due1)
		d.s.delayed--
		n--
		if d.s.leaving {
			p.forget(d.s)
			continue
		}
		if ids == nil {
			ids = map[*stream][]string{}
		}
		ids[d.s] = append(ids[d.s], d.id)
	}
	return ids, time.Time{}
}
