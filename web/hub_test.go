package web

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/broadcast"
	"github.com/codemojex/feedrenderer/feed/timeline"
	"github.com/codemojex/feedrenderer/watch"
)

// bench drives a hub one step at a time: nothing runs but what a test calls.
type bench struct {
	t       *rapid.T
	m       *model
	h       *hub
	flight  []broadcast.Message // published and not yet delivered
	spies   []*spy
	cursors []feed.Cursor // of the past, to resume from
	epoch   int
}

// spy is a watcher and the state that its frames made.
type spy struct {
	w     *watcher
	state watch.State
	part  bool // it resumed, and holds what changed since then
}

func newBench(t *rapid.T) *bench {
	meter, err := newMeter(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, m: newModel(acme), epoch: 1}
	b.h = &hub{
		key: acme, table: b.m, times: Times{Park: 1, Header: 1, Counts: time.Second}, log: slog.New(slog.DiscardHandler), faults: newFaults(slog.New(slog.DiscardHandler)), meter: meter,
		unseen: func(feed.GameKey) {}, subscribed: func() {}, wake: make(chan struct{}, 1),
		live: map[*sub]struct{}{}, waiting: map[*sub]struct{}{}, elsewhere: map[string]heard{},
	}
	b.m.listeners[acme] = []broadcast.Listener{b}
	b.m.during = func() {
		if rapid.IntRange(0, 3).Draw(t, "meanwhile") == 0 {
			b.commit()
		}
		for range rapid.IntRange(0, 2).Draw(t, "arrive meanwhile") {
			b.deliver()
		}
	}
	return b
}

// The bench listens in the hub's place, and lets go of messages when it likes.
func (b *bench) Subscribed()             {}
func (b *bench) Counted(broadcast.Count) {}
func (b *bench) Rang(m broadcast.Message) {
	m.Bare = rapid.IntRange(0, 5).Draw(b.t, "bare") == 0
	if m.Bare {
		m.Lines = nil
	}
	b.flight = append(b.flight, m)
}

func (b *bench) commit() {
	texts := map[feed.ID]string{}
	for range rapid.IntRange(1, 3).Draw(b.t, "lines") {
		texts[evt(rapid.IntRange(1, 40).Draw(b.t, "evt"))] = fmt.Sprint(rapid.Int().Draw(b.t, "text"))
	}
	b.m.commit(acme, texts)
}

// deliver lets a message of the flight arrive: the oldest or another, once or twice, or never.
func (b *bench) deliver() {
	if len(b.flight) == 0 {
		return
	}
	i := 0
	if rapid.IntRange(0, 2).Draw(b.t, "overtake") == 0 {
		i = rapid.IntRange(0, len(b.flight)-1).Draw(b.t, "message")
	}
	message := b.flight[i]
	switch rapid.IntRange(0, 9).Draw(b.t, "fate") {
	case 0: // lost
	case 1: // doubled
		b.h.Rang(message)
		b.h.Rang(message)
	case 2: // doubled, the second comes late
		b.h.Rang(message)
		b.flight = append(b.flight, message)
	default:
		b.h.Rang(message)
	}
	b.flight = slices.Delete(b.flight, i, i+1)
}

// renew begins a new epoch in which the same lines stand under versions of their own.
func (b *bench) renew() {
	b.epoch++
	b.m.set(func(m *model) {
		old := m.games[acme]
		next := &modelGame{epoch: fmt.Sprintf("e%d", b.epoch), lines: map[feed.ID]feed.View{}}
		for evt, line := range old.lines {
			next.ver++
			line.Ver = next.ver
			next.lines[evt] = line
		}
		m.games[acme] = next
	})
}

func (b *bench) sweep() {
	heads, err := b.m.Heads(b.t.Context(), []feed.GameKey{acme})
	if err != nil {
		b.t.Fatal(err)
	}
	b.h.swept(heads[0])
}

// poll opens the hub at the head of the table, if it is not open, and waits for nothing.
func (b *bench) poll() {
	at, err := b.m.Head(b.t.Context(), acme)
	if err != nil {
		b.t.Fatal(err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	b.h.await(ended, at.Cursor)
}

// read lets the hub read as long as it has to, at most n times. It must come to rest.
func (b *bench) read(n int) {
	for range n {
		do, _ := b.h.next(time.Now().Add(time.Second))
		if do == nil {
			return
		}
		do(context.Background())
	}
}

func (b *bench) join() {
	bound := rapid.SampledFrom([]int{1 << 20, 1 << 20, 2000}).Draw(b.t, "bound")
	w := newWatcher("acme", bound)
	s := &sub{hub: b.h, watcher: w, limit: rapid.SampledFrom([]int{3, 500}).Draw(b.t, "limit")}
	spy := &spy{w: w, state: watch.State{Game: acme.Game}}
	switch rapid.IntRange(0, 3).Draw(b.t, "since") {
	case 0:
		if len(b.cursors) > 0 {
			s.cursor = rapid.SampledFrom(b.cursors).Draw(b.t, "cursor")
		}
	case 1:
		s.cursor = feed.Cursor{Epoch: "e9", Ver: rapid.Int64Range(0, 100).Draw(b.t, "odd")}
	}
	spy.state.Cursor, spy.part = s.cursor, s.cursor != feed.Cursor{}
	s.sent = s.cursor
	w.add(s)
	b.h.join(s)
	b.spies = append(b.spies, spy)
}

// drain lets a watcher write all it has.
func (b *bench) drain(s *spy) {
	for range 100 {
		next := s.w.take()
		for _, f := range next.frames {
			got, err := watch.ParseFrame(f.bytes)
			if err != nil {
				b.t.Fatal(err)
			}
			if s.state.Apply(got) {
				b.t.Fatalf("gap: at %v came %s", s.state.Cursor, f.bytes)
			}
			s.part = s.part && got.T != "snap"
			if got.T == "lines" || got.T == "delta" {
				above := got.From
				for _, line := range got.Lines {
					if line.Ver <= above || line.Ver > got.To {
						b.t.Fatalf("line of version %d after %d in %s", line.Ver, above, f.bytes)
					}
					above = line.Ver
				}
			}
		}
		if s.state.Cursor.Ver > 0 {
			b.cursors = append(b.cursors, s.state.Cursor)
		}
		if next.close != nil {
			s.w.leave()
			b.spies = slices.DeleteFunc(b.spies, func(each *spy) bool { return each == s })
			return
		}
		if next.lost == nil {
			return
		}
		b.h.resume(next.lost)
		b.read(20)
	}
	b.t.Fatal("a watcher never comes to rest")
}

// TestHub plays commits, and messages that are lost, doubled, overtaken and bare, before, while and after the hub reads,
// new epochs, polls, watchers that come, resume, lag and leave: each is sent an unbroken chain, nobody waits while the
// hub sleeps, and all have in the end what the table has.
func TestHub(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(t)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 13).Draw(t, "step") {
			case 0, 1, 2, 3:
				b.commit()
			case 4, 5, 6, 7:
				b.deliver()
			case 8:
				b.read(rapid.IntRange(1, 3).Draw(t, "reads"))
			case 9:
				b.join()
			case 10:
				if len(b.spies) > 0 {
					b.drain(rapid.SampledFrom(b.spies).Draw(t, "watcher"))
				}
			case 11:
				b.sweep()
			case 12:
				b.poll()
			case 13:
				switch rapid.IntRange(0, 5).Draw(t, "rare") {
				case 0:
					b.renew()
				case 1: // a message that promises what never comes
					g := b.m.games[acme]
					b.h.Rang(broadcast.Message{Game: acme, Epoch: g.epoch, From: g.ver + 5, To: g.ver + 1000, Bare: true})
				case 2:
					if len(b.spies) > 0 {
						gone := rapid.SampledFrom(b.spies).Draw(t, "leaver")
						gone.w.leave()
						b.spies = slices.DeleteFunc(b.spies, func(each *spy) bool { return each == gone })
					}
				}
			}
			if do, _ := b.h.next(time.Now().Add(time.Second)); do == nil && len(b.h.waiting) > 0 {
				t.Fatalf("%d wait for an answer while the hub sleeps", len(b.h.waiting))
			}
		}
		b.m.during = nil
		b.sweep()
		b.read(50)
		for _, s := range slices.Clone(b.spies) {
			b.drain(s)
		}
		b.read(50)
		if do, _ := b.h.next(time.Now()); do != nil {
			t.Fatal("the hub does not come to rest")
		}
		for _, s := range slices.Clone(b.spies) {
			b.drain(s)
		}
		g := b.m.games[acme]
		want, _ := g.newest(500)
		for _, s := range b.spies {
			if s.state.Cursor != (feed.Cursor{Epoch: g.epoch, Ver: g.ver}) {
				t.Fatalf("stands at %v, the table at %s:%d", s.state.Cursor, g.epoch, g.ver)
			}
			for _, line := range s.state.Lines { // one that resumed holds a part
				if !slices.ContainsFunc(want, func(w feed.View) bool { return w.Evt == line.Evt && w.Ver == line.Ver && w.Text == line.Text }) {
					t.Fatalf("holds %v, which the table has not", line)
				}
			}
			if held := len(s.state.Lines); !s.part && held != len(want) && (!s.state.Older || s.state.Lines[held-1].Evt != want[held-1].Evt) {
				t.Fatalf("holds %d lines, the table %d", held, len(want))
			}
		}
		if n := len(b.h.live); n != len(b.spies) || len(b.h.waiting) != 0 {
			t.Fatalf("%d live and %d waiting of %d", n, len(b.h.waiting), len(b.spies))
		}
	})
}

func TestTheMoreHubsThereAreTheLessEachRemembers(t *testing.T) {
	t.Parallel()
	h := &hub{key: acme, beside: new(atomic.Int64)}
	h.recent.open("e1", 0)
	long := bytes.Repeat([]byte("x"), 1000)
	for n := range 1000 {
		h.recent.advance(int64(n+1), []broadcast.Line{{Evt: evt(n), Ver: int64(n + 1), JSON: long}})
	}
	for _, each := range []struct{ hubs, most int }{{1, recentBytes}, {100, recentBytes}, {1000, recentAtAll / 1000}, {1_000_000, recentLeast}} {
		h.beside.Store(int64(each.hubs))
		h.swept(timeline.Head{Game: acme, Cursor: h.recent.cursor()})
		if h.recent.bytes > each.most || h.recent.bytes < min(each.most, 1000*1000)-2000 {
			t.Errorf("of %d hubs each remembers %d bytes, want about %d", each.hubs, h.recent.bytes, each.most)
		}
	}
}

func TestACostlyCountIsMadeLessOften(t *testing.T) {
	t.Parallel()
	const period = time.Second
	for _, each := range []struct {
		took  time.Duration
		games int
		want  time.Duration
	}{
		{0, 1, period},
		{10 * time.Millisecond, 1, period},
		{200 * time.Millisecond, 1, 4 * time.Second},
		{time.Hour, 1, maxRecount},
		{time.Millisecond, 200, period},
		{5 * time.Millisecond, 200, 4 * time.Second},
		{time.Millisecond, 5000, maxRecount},
	} {
		if wait := recount(period, each.took, each.games); wait != each.want {
			t.Errorf("a count that took %v, of one of %d games, is made again after %v, want %v", each.took, each.games, wait, each.want)
		}
	}
}

func TestCountsOfGamesThatWereOpenedTogetherAreScattered(t *testing.T) {
	t.Parallel()
	const wait = time.Second
	least, most := time.Hour, time.Duration(0)
	for range 1000 {
		n := scattered(wait)
		least, most = min(least, n), max(most, n)
	}
	if least < wait || most > wait*5/4 || most-least < wait/5 {
		t.Errorf("they wait for %v to %v, want all between %v and a quarter more", least, most, wait)
	}
}

func TestAHeaderIsGoodUntilTheNextIsDue(t *testing.T) {
	t.Parallel()
	present, behind := recent{epoch: "e1", last: 1}, recent{epoch: "e1", last: 2}
	for due, want := range map[time.Duration]bool{time.Minute: true, -time.Minute: false} {
		h := header{json: []byte("{}"), ver: 1, due: time.Now().Add(due)}
		if got := h.fresh(&behind); got != want {
			t.Errorf("with the next due in %v it is still good: %v", due, got)
		}
		if !h.fresh(&present) {
			t.Errorf("of the present version and with the next due in %v it is no good", due)
		}
	}
}
