package web

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/broadcast"
	"github.com/codemojex/feedrenderer/feed/tenants"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

// Doorbell is how a process hears what others commit and tells how many watch here.
type Doorbell interface {
	// Follow hears a game until the context ends, through every loss of its connection.
	Follow(ctx context.Context, game feed.GameKey, listener broadcast.Listener)
	Tell(ctx context.Context, counts []broadcast.Count) error
}

// heads reads where many games stand, in one query.
type heads interface {
	Heads(ctx context.Context, games []feed.GameKey) ([]timeline.Head, error)
}

// hubs has the hub of each watched game: made when the first watcher comes, closed when the last one is gone for a while.
type hubs struct {
	table interface {
		liveTable
		heads
	}
	doorbell Doorbell
	known    func(context.Context, feed.TenantID) (tenants.Tenant, error) // errNoSuch where none is served
	times    Times
	log      *slog.Logger
	faults   *faults
	meter    *meter
	unseen   func(feed.GameKey)
	hurry    chan struct{} // signalled when a sweep is due at once

	ctx     context.Context // ends with the server: hubs outlive the requests that make them
	running sync.WaitGroup
	count   atomic.Int64 // of the open ones

	mu    sync.Mutex // guards games; taken before a hub's
	games map[feed.GameKey]openHub
}

type openHub struct {
	*hub
	stop context.CancelFunc
}

// of returns the hub of a game, which stays open at least until it is released.
func (hs *hubs) of(key feed.GameKey) *hub {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if open, ok := hs.games[key]; ok {
		open.mu.Lock()
		open.users++
		open.mu.Unlock()
		return open.hub
	}
	h := &hub{
		key: key, table: hs.table, log: hs.log, faults: hs.faults, meter: hs.meter, unseen: hs.unseen, subscribed: hs.sweepSoon,
		times:     hs.times,
		wake:      make(chan struct{}, 1),
		beside:    &hs.count,
		live:      map[*sub]struct{}{},
		waiting:   map[*sub]struct{}{},
		elsewhere: map[string]heard{},
		users:     1,
	}
	ctx, stop := context.WithCancel(hs.ctx)
	hs.games[key] = openHub{h, stop}
	hs.meter.hubs.Inc()
	hs.count.Add(1)
	hs.running.Go(func() { h.run(ctx) })
	hs.running.Go(func() { hs.doorbell.Follow(ctx, key, h) })
	return h
}

func (hs *hubs) sweepSoon() {
	select {
	case hs.hurry <- struct{}{}:
	default:
	}
}

// open lists the hubs there are.
func (hs *hubs) open() []*hub {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	list := make([]*hub, 0, len(hs.games))
	for _, open := range hs.games {
		list = append(list, open.hub)
	}
	return list
}

// run sweeps until the context ends, each period and whenever it is asked to hurry.
func (hs *hubs) run(ctx context.Context) {
	sweep := time.NewTicker(hs.times.Sweep)
	defer sweep.Stop()
	pause := time.NewTimer(0) // between sweeps in a hurry
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
		case <-hs.hurry:
			select {
			case <-ctx.Done():
				return
			case <-pause.C:
			}
		}
		if err := hs.sweep(ctx); err != nil && ctx.Err() == nil {
			hs.faults.warn("sweep of watched games failed; it is tried again each time", "err", err)
		}
		pause.Reset(hs.times.Park)
	}
}

// sweep compares every hub with the table, in one query, and closes the idle ones. It heals what no message told.
func (hs *hubs) sweep(ctx context.Context) error {
	now := time.Now()
	var keys []feed.GameKey
	watched := map[feed.GameKey]*hub{}
	refused := map[feed.TenantID]error{}
	for _, h := range hs.open() {
		if hs.closeIdle(h, now) || !h.opened() {
			continue
		}
		err, asked := refused[h.key.Tenant]
		if !asked {
			_, err = hs.known(ctx, h.key.Tenant)
			refused[h.key.Tenant] = err
		}
		switch {
		case errors.Is(err, errSuspended): // who has come to the hub may know
			h.vanish(errDark)
			continue
		case errors.Is(err, errNoSuch):
			h.vanish(errNotFound)
			continue
		}
		keys = append(keys, h.key)
		watched[h.key] = h
	}
	if len(keys) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	list, err := hs.table.Heads(ctx, keys)
	hs.meter.query("heads", err)
	if err != nil {
		return err
	}
	for _, head := range list {
		if h, ok := watched[head.Game]; ok {
			h.swept(head)
			delete(watched, head.Game)
		}
	}
	for _, h := range watched {
		h.vanish(errNotFound)
	}
	return nil
}

// closeIdle ends a hub that nobody has used for a while.
func (hs *hubs) closeIdle(h *hub, now time.Time) bool {
	if !h.idle(now, hs.times.Linger) {
		return false
	}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if !h.idle(now, hs.times.Linger) { // somebody came meanwhile
		return false
	}
	hs.games[h.key].stop()
	delete(hs.games, h.key)
	hs.meter.hubs.Dec()
	hs.count.Add(-1)
	return true
}

// tell says how many watch here to the hubs of other processes, until the context ends.
func (hs *hubs) tell(ctx context.Context) {
	period := time.NewTicker(hs.times.Counts)
	defer period.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-period.C:
		}
		var counts []broadcast.Count
		for _, h := range hs.open() {
			h.mu.Lock()
			counts = append(counts, broadcast.Count{Game: h.key, Watchers: h.watchers()})
			h.mu.Unlock()
		}
		telling, cancel := context.WithTimeout(ctx, hs.times.Counts)
		if err := hs.doorbell.Tell(telling, counts); err != nil {
			hs.log.Debug("counts of watchers not told", "err", err)
		}
		cancel()
	}
}

// close ends all hubs and waits for them.
func (hs *hubs) close() {
	hs.mu.Lock()
	for _, open := range hs.games {
		open.stop()
	}
	hs.mu.Unlock()
	hs.running.Wait()
}
