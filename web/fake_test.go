package web

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/broadcast"
	"github.com/codemojex/feedrenderer/feed/tenants"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

// model is a timeline in memory that also rings: what the table and the doorbell are to a server, with faults at will.
type model struct {
	mu        sync.Mutex // guards what follows
	games     map[feed.GameKey]*modelGame
	listeners map[feed.GameKey][]broadcast.Listener
	queries   map[string]int
	fail      error // of every read
	drop      float64
	shuffle   bool          // deliver each message after a random moment
	slow      time.Duration // what a read takes after it has looked
	during    func()        // called by a read after it has looked, before it answers
	told      []broadcast.Count
	ringing   sync.WaitGroup
}

type modelGame struct {
	epoch string
	ver   int64
	lines map[feed.ID]feed.View
	title string
}

func newModel(keys ...feed.GameKey) *model {
	m := &model{games: map[feed.GameKey]*modelGame{}, listeners: map[feed.GameKey][]broadcast.Listener{}, queries: map[string]int{}}
	for _, key := range keys {
		m.create(key)
	}
	return m
}

func (m *model) create(key feed.GameKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.games[key] = &modelGame{epoch: "e1", lines: map[feed.ID]feed.View{}}
}

func (m *model) set(change func(m *model)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m)
}

// commit writes lines in one version range and rings for it.
func (m *model) commit(key feed.GameKey, texts map[feed.ID]string) {
	m.mu.Lock()
	g := m.games[key]
	message := broadcast.Message{Game: key, Epoch: g.epoch, From: g.ver}
	var views []feed.View
	for evt, text := range texts {
		g.ver++
		view := feed.View{Evt: evt, Ver: g.ver, Kind: "notice", At: feed.Instant(evt.Time()), Text: text, Fields: map[string]string{}, State: feed.Live}
		if _, held := g.lines[evt]; held {
			view.State = feed.Corrected
		}
		g.lines[evt] = view
		views = append(views, view)
	}
	message.To = g.ver
	message.Lines = encodeViews(views)
	m.mu.Unlock()
	m.ring(message)
}

// say commits one line.
func (m *model) say(key feed.GameKey, evt feed.ID, text string) {
	m.commit(key, map[feed.ID]string{evt: text})
}

func (m *model) ring(message broadcast.Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if rand.Float64() < m.drop {
		return
	}
	for _, listener := range m.listeners[message.Game] {
		if !m.shuffle {
			listener.Rang(message)
			continue
		}
		m.ringing.Add(1)
		time.AfterFunc(rand.N(20*time.Millisecond), func() {
			defer m.ringing.Done()
			listener.Rang(message)
		})
	}
}

func (m *model) Follow(ctx context.Context, key feed.GameKey, listener broadcast.Listener) {
	m.mu.Lock()
	m.listeners[key] = append(m.listeners[key], listener)
	m.mu.Unlock()
	listener.Subscribed()
	<-ctx.Done()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listeners[key] = slices.DeleteFunc(m.listeners[key], func(l broadcast.Listener) bool { return l == listener })
}

func (m *model) Tell(_ context.Context, counts []broadcast.Count) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = counts
	return nil
}

func (m *model) count(query string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.queries[query]
}

// asked looks a game up for a read.
func (m *model) asked(query string, key feed.GameKey) (*modelGame, error) {
	m.queries[query]++
	if m.fail != nil {
		return nil, m.fail
	}
	g, ok := m.games[key]
	if !ok {
		return nil, fmt.Errorf("%s: %w", key, timeline.ErrNotFound)
	}
	return g, nil
}

func (m *model) read(query string, key feed.GameKey, look func(*modelGame) error) error {
	m.mu.Lock()
	slow, during := m.slow, m.during
	g, err := m.asked(query, key)
	if err == nil {
		err = look(g)
	}
	m.mu.Unlock()
	if slow > 0 {
		<-time.After(slow)
	}
	if during != nil {
		during()
	}
	return err
}

func (m *model) Changes(_ context.Context, key feed.GameKey, since feed.Cursor, limit int) (out timeline.Changes, err error) {
	err = m.read("changes", key, func(g *modelGame) error {
		if since.Epoch != g.epoch || since.Ver > g.ver {
			return fmt.Errorf("%s: %w", since, timeline.ErrEpoch)
		}
		out = timeline.Changes{Epoch: g.epoch, From: since.Ver, To: g.ver, Lines: []feed.View{}}
		for _, view := range g.lines {
			if view.Ver > since.Ver {
				out.Lines = append(out.Lines, view)
			}
		}
		slices.SortFunc(out.Lines, func(a, b feed.View) int { return int(a.Ver - b.Ver) })
		if len(out.Lines) > limit {
			out.Lines, out.More = out.Lines[:limit], true
			out.To = out.Lines[limit-1].Ver
		}
		return nil
	})
	return out, err
}

func (g *modelGame) newest(limit int) ([]feed.View, bool) {
	views := make([]feed.View, 0, len(g.lines))
	for _, view := range g.lines {
		views = append(views, view)
	}
	slices.SortFunc(views, func(a, b feed.View) int { return int(b.Evt - a.Evt) })
	if len(views) > limit {
		return views[:limit], true
	}
	return views, false
}

func (g *modelGame) game(key feed.GameKey) feed.Game {
	return feed.Game{
		Game: key.Game, Title: g.title, Status: feed.StatusOpen, Released: true, Counts: feed.Counts{Lines: int64(len(g.lines))},
		Board: []feed.BoardEntry{}, Cursor: feed.Cursor{Epoch: g.epoch, Ver: g.ver},
	}
}

func (m *model) Snapshot(_ context.Context, key feed.GameKey, limit int) (out timeline.Snapshot, err error) {
	err = m.read("snapshot", key, func(g *modelGame) error {
		out.Game = g.game(key)
		out.Lines, out.Older = g.newest(limit)
		return nil
	})
	return out, err
}

func (m *model) Game(_ context.Context, key feed.GameKey) (out feed.Game, err error) {
	err = m.read("game", key, func(g *modelGame) error {
		out = g.game(key)
		return nil
	})
	return out, err
}

func (m *model) Games(_ context.Context, tenant feed.TenantID, q timeline.GamesQuery) ([]feed.Game, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := []feed.Game{}
	for key, g := range m.games {
		if key.Tenant == tenant && (q.After == "" || key.Game < q.After) {
			list = append(list, g.game(key))
		}
	}
	slices.SortFunc(list, func(a, b feed.Game) int { return cmp.Compare(b.Game, a.Game) })
	return list[:min(len(list), q.Limit)], m.fail
}

func (m *model) Head(_ context.Context, key feed.GameKey) (out timeline.Head, err error) {
	err = m.read("head", key, func(g *modelGame) error {
		out = timeline.Head{Game: key, Cursor: feed.Cursor{Epoch: g.epoch, Ver: g.ver}, Released: true}
		return nil
	})
	return out, err
}

func (m *model) Heads(_ context.Context, keys []feed.GameKey) ([]timeline.Head, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queries["heads"]++
	if m.fail != nil {
		return nil, m.fail
	}
	var list []timeline.Head
	for _, key := range keys {
		if g, ok := m.games[key]; ok {
			list = append(list, timeline.Head{Game: key, Cursor: feed.Cursor{Epoch: g.epoch, Ver: g.ver}, Released: true})
		}
	}
	return list, nil
}

func (m *model) Page(_ context.Context, key feed.GameKey, q timeline.PageQuery) (out timeline.Page, err error) {
	err = m.read("page", key, func(g *modelGame) error {
		out.Lines, out.More = g.newest(q.Limit)
		out.Cursor = feed.Cursor{Epoch: g.epoch, Ver: g.ver}
		return nil
	})
	return out, err
}

func (m *model) Line(_ context.Context, key feed.GameKey, evt feed.ID) (out feed.View, err error) {
	err = m.read("line", key, func(g *modelGame) error {
		var ok bool
		if out, ok = g.lines[evt]; !ok {
			return timeline.ErrNotFound
		}
		return nil
	})
	return out, err
}

func (m *model) Lookup(_ context.Context, id feed.TenantID) (tenants.Tenant, error) {
	switch id {
	case "acme", "globex":
		return tenants.Tenant{ID: id, Public: true}, nil
	case "secret":
		return tenants.Tenant{ID: id}, nil
	}
	return tenants.Tenant{}, fmt.Errorf("%s: %w", id, tenants.ErrUnknown)
}

// evt makes the n-th EVT id of a test.
func evt(n int) feed.ID { return feed.IDAt(feed.Epoch.Add(time.Hour)) + feed.ID(n) }

func text(n int) string { return "line " + strconv.Itoa(n) }
