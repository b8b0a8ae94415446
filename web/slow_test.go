package web

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/watch"
)

func TestSlowWatcher(t *testing.T) {
	t.Parallel()

	t.Run("OthersDoNotNoticeAndItGetsOneDeltaWhenItReadsAgain", func(t *testing.T) {
		t.Parallel()
		m := newModel(acme)
		s := serve(t, m, func(c *Config) { c.QueueBytes, c.Times.Write = 512<<10, patience })
		slow := s.dial(t, "acme")
		slow.sub("g1", feed.Cursor{}, 0)
		quick := s.dial(t, "acme")
		quick.sub("g1", feed.Cursor{}, 0)
		quick.next()
		state := watch.State{Game: "g1"}
		state.Apply(slow.next())
		long := strings.Repeat("x", 64<<10)
		lags := func() bool { return s.metric(t, "feedrenderer_web_lags_total") > 0 }
		for n := 0; ; n++ {
			m.say(acme, evt(n%50), text(n)+long)
			for f := quick.next(); f.To < int64(n+1); {
				f = quick.next()
			}
			if n > 50 && s.lagged() {
				break
			}
			if n > 20_000 {
				t.Fatal("the slow watcher never lags")
			}
		}
		m.mu.Lock()
		want, _ := m.games[acme].newest(1000)
		ver := m.games[acme].ver
		m.mu.Unlock()
		deltas := 0
		for state.Cursor.Ver < ver {
			f := slow.next()
			if f.T == "delta" {
				deltas++
			}
			if state.Apply(f) {
				t.Fatalf("gap at %d before %s from %d", state.Cursor.Ver, f.T, f.From)
			}
		}
		if deltas != 1 || !lags() {
			t.Errorf("%d deltas", deltas)
		}
		equal(t, len(state.Lines), len(want))
		for i := range want {
			if state.Lines[i].Ver != want[i].Ver {
				t.Fatalf("line %d is of version %d, want %d", i, state.Lines[i].Ver, want[i].Ver)
			}
		}
	})

	t.Run("AWriteThatTakesTooLongEndsTheSocketAndItResumes", func(t *testing.T) {
		t.Parallel()
		m := newModel(acme)
		s := serve(t, m, func(c *Config) { c.QueueBytes, c.Times.Write = 1<<30, 100*time.Millisecond })
		slow := s.dial(t, "acme")
		slow.sub("g1", feed.Cursor{}, 0)
		slow.next()
		long := strings.Repeat("x", 64<<10)
		n := 0
		for ; s.open() > 0; n++ {
			m.say(acme, evt(n%100), long)
			if n > 20_000 {
				t.Fatal("the slow watcher is never closed")
			}
		}
		if s.metric(t, "feedrenderer_web_closes_total") != 1 {
			t.Error("the close is not counted")
		}
	})

	t.Run("AnAnswerLargerThanTheQueueLeavesRoomAndTheNextWaitsItsTurn", func(t *testing.T) {
		t.Parallel()
		w := newWatcher("acme", 10)
		one, two := &sub{hub: &hub{key: acme}, watcher: w}, &sub{hub: &hub{key: feed.GameKey{Tenant: "acme", Game: "g2"}}, watcher: w}
		for _, s := range []*sub{one, two} {
			if _, ok := w.add(s); !ok {
				t.Fatal("not added")
			}
			w.push(s, frame{kind: frameDelta, epoch: "e1", to: 7, bytes: bytes.Repeat([]byte("x"), 100)})
			w.push(s, frame{kind: frameGame, bytes: []byte("head")})
		}
		w.say(frame{bytes: []byte("pong")})
		next := w.take()
		if len(next.frames) != 3 || next.lost != two || next.close != nil || one.isLost {
			t.Fatalf("got %+v", next)
		}
		if at, ok := w.recover(two); !ok || at != (feed.Cursor{}) || !w.lagged.IsZero() {
			t.Errorf("recovered at %v, lagged %v", at, w.lagged)
		}
		w.push(two, frame{kind: frameDelta, epoch: "e1", to: 7, bytes: bytes.Repeat([]byte("x"), 100)})
		if next = w.take(); len(next.frames) != 1 || next.lost != nil {
			t.Fatalf("got %+v", next)
		}
	})

	t.Run("OneThatLagsTwiceInAMinuteIsClosed", func(t *testing.T) {
		t.Parallel()
		w := newWatcher("acme", 10)
		h := &hub{key: acme}
		one := &sub{hub: h, watcher: w}
		if _, ok := w.add(one); !ok {
			t.Fatal("not added")
		}
		push := func() { w.push(one, frame{kind: frameLines, epoch: "e1", to: 7, bytes: bytes.Repeat([]byte("x"), 8)}) }
		push()
		push()
		if next := w.take(); next.lost != one || next.close != nil || len(next.frames) != 0 {
			t.Fatalf("got %+v", next)
		}
		if at, ok := w.recover(one); !ok || at != (feed.Cursor{}) {
			t.Errorf("recovered at %v", at)
		}
		push()
		if next := w.take(); len(next.frames) != 1 {
			t.Fatalf("got %+v", next)
		}
		push()
		push()
		if next := w.take(); next.close == nil || *next.close != closeLagging {
			t.Fatalf("got %+v", next)
		}
	})
}

// lagged reports whether a watcher has lost subscriptions that its pump has not resumed.
func (s *site) lagged() bool {
	s.outlets.mu.Lock()
	defer s.outlets.mu.Unlock()
	for w := range s.outlets.open {
		w.mu.Lock()
		lost := len(w.lost)
		w.mu.Unlock()
		if lost > 0 {
			return true
		}
	}
	return false
}
