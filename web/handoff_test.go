package web

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/timeline"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
	"github.com/codemojex/feedrenderer/watch"
)

// handOff lets watchers join at random moments, over three web processes, while eight writers commit on real servers:
// one batch in ten revises an earlier line, one repeats an earlier batch, one opens a line that it says only later.
// Doorbells are dropped, delayed and overtaken. Each watcher must be sent every version range once and in order, no line
// of a version that it was sent, and end with what the table says.
type handOff struct {
	seed            uint64
	lines, watchers int
	drop            float64       // of the doorbells
	kill            time.Duration // between breaking all pub/sub connections; 0: never
}

func (h handOff) String() string {
	return fmt.Sprintf("Seed%dDrop%.0fKill%v", h.seed, h.drop*100, h.kill)
}

func TestHandOff(t *testing.T) {
	t.Parallel()
	for _, h := range []handOff{
		{seed: 1, lines: 400, watchers: 200, drop: 0.05, kill: 200 * time.Millisecond},
		{seed: 2, lines: 400, watchers: 200, drop: 0.3},
	} {
		t.Run(h.String(), func(t *testing.T) {
			t.Parallel()
			h.run(t)
		})
	}
}

const handOffWriters = 8

func (h handOff) run(t *testing.T) {
	key := feed.GameKey{Tenant: "handoff", Game: "g1"}
	url := serverstest.Valkey(t)
	if h.kill > 0 { // which breaks those of all
		url = serverstest.OwnValkey(t).URL
	}
	r := newReal(t, serverstest.Database(t), url, key.Tenant)
	sites := []*site{r.serve(), r.serve(), r.serve()}
	r.must(opened(key, evt(0), feed.ModeClassic))

	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	begun := make([]chan struct{}, h.lines) // closed as the writing comes that far
	for i := range begun {
		begun[i] = make(chan struct{})
	}
	var written atomic.Int64
	end := make(chan struct{}) // closed when last is set
	var last feed.Cursor
	var want []feed.View

	var watching sync.WaitGroup
	random := rand.New(rand.NewPCG(h.seed, 0))
	for i := range h.watchers {
		join := begun[random.IntN(h.lines)]
		watching.Go(func() {
			select {
			case <-join:
			case <-ctx.Done():
				return
			}
			w := &joined{game: key.Game, held: map[feed.ID]int64{}}
			if err := w.watch(ctx, sites[i%3].liveURL("handoff"), end, &last); err != nil {
				t.Errorf("watcher %d: %v", i, err)
				return
			}
			if w.gaps > 0 || w.twice > 0 {
				t.Errorf("watcher %d: %d gaps, %d lines twice", i, w.gaps, w.twice)
			}
			if got := w.state.Lines[:min(len(w.state.Lines), len(want))]; !slices.EqualFunc(got, want, sameLine) {
				t.Errorf("watcher %d differs from the table", i)
			}
		})
	}

	var writing, ringing sync.WaitGroup
	for n := range handOffWriters {
		writing.Go(func() {
			random := rand.New(rand.NewPCG(h.seed, uint64(1+n)))
			for batch := range handOffBatches(key, random, n, h.lines/handOffWriters) {
				applied, err := r.writer.Apply(ctx, batch)
				if err != nil {
					t.Error(err)
					return
				}
				if random.Float64() >= h.drop {
					ringing.Add(1)
					time.AfterFunc(time.Duration(random.IntN(20))*time.Millisecond, func() {
						defer ringing.Done()
						_ = r.publisher.Publish(ctx, applied.Changes) // it may hit a killed connection
					})
				}
				if i := written.Add(1) - 1; int(i) < len(begun) {
					close(begun[i])
				}
			}
		})
	}
	stop := h.killing(ctx, t, r)
	writing.Wait()
	for i := written.Load(); int(i) < len(begun); i++ {
		close(begun[i])
	}
	ringing.Wait()
	head, err := r.reader.Head(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	page, err := r.reader.Page(ctx, key, timeline.PageQuery{Limit: maxLimit})
	if err != nil {
		t.Fatal(err)
	}
	last, want = head.Cursor, page.Lines
	close(end)
	watching.Wait()
	stop()
	t.Logf("%d batches to version %d, %d watchers", written.Load(), last.Ver, h.watchers)
}

func sameLine(a, b feed.View) bool {
	return a.Evt == b.Evt && a.Ver == b.Ver && a.Text == b.Text && a.State == b.State
}

// handOffBatches makes the batches of a writer, each of up to four lines.
func handOffBatches(key feed.GameKey, random *rand.Rand, writer, lines int) func(yield func([]feed.Line) bool) {
	next := 0
	id := func() feed.ID {
		next++
		return evt(1 + writer + next*handOffWriters)
	}
	return func(yield func([]feed.Line) bool) {
		var past, late []feed.Line
		for said := 0; said < lines; {
			var batch []feed.Line
			for range 1 + random.IntN(min(4, lines-said)) {
				said++
				line := notice(key, id(), fmt.Sprintf("%d/%d", writer, said))
				if random.IntN(20) == 0 {
					late = append(late, line, amend(key, id(), line.Evt, feed.Amendment{Text: "revised before it was there"}))
					continue
				}
				batch = append(batch, line)
			}
			past = append(past, batch...)
			switch chance := random.IntN(10); {
			case chance == 0 && len(past) > 0:
				batch = append(batch, amend(key, id(), past[random.IntN(len(past))].Evt, feed.Amendment{Text: fmt.Sprintf("revised at %d", said)}))
			case chance == 1 && len(past) > 0:
				batch = append(batch, past[random.IntN(len(past))]) // claimed again
			case chance == 2 && len(late) > 0: // its amendment first
				if !yield(late[1:2]) || !yield(late[:1]) {
					return
				}
				late = late[2:]
			}
			if len(batch) > 0 && !yield(batch) {
				return
			}
		}
	}
}

// killing breaks every pub/sub connection again and again until it is stopped.
func (h handOff) killing(ctx context.Context, t *testing.T, r *real) (stop func()) {
	if h.kill == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var killing sync.WaitGroup
	killing.Go(func() {
		each := time.NewTicker(h.kill)
		defer each.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-each.C:
			}
			if err := r.client.Do(ctx, r.client.B().Arbitrary("CLIENT", "KILL", "TYPE", "pubsub").Build()).Error(); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	return func() {
		cancel()
		killing.Wait()
	}
}

// joined is a watcher that forgives nothing.
type joined struct {
	game        feed.GameID
	state       watch.State
	held        map[feed.ID]int64 // versions of lines that it was sent
	gaps, twice int
	snaps       int
	refused     bool // for now, by a store that could not be asked
}

// watch follows until the end is known and reached.
func (j *joined) watch(ctx context.Context, url string, end <-chan struct{}, last *feed.Cursor) error {
	conn, err := watch.Dial(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	if err := conn.Subscribe(ctx, j.game, feed.Cursor{}, maxLimit); err != nil {
		return err
	}
	j.state.Game = j.game
	for {
		select {
		case <-end:
			if j.state.Cursor == *last {
				return nil
			}
		default:
		}
		f, err := conn.Read(ctx) // a tick comes soon if nothing else does
		if err != nil {
			return fmt.Errorf("at %v: %w", j.state.Cursor, err)
		}
		switch {
		case f.T == "snap":
			j.snaps++
		case f.T == "err" && f.Code == errLater: // the protocol: subscribe again later
			j.refused = true
		case f.T == "err":
			return fmt.Errorf("at %v: refused: %s: %s", j.state.Cursor, f.Code, f.Msg)
		case f.T == "tick" && j.refused:
			j.refused = false
			if err := conn.Subscribe(ctx, j.game, j.state.Cursor, maxLimit); err != nil {
				return err
			}
		}
		for _, line := range f.Lines {
			if line.Ver <= j.held[line.Evt] {
				j.twice++
			}
			j.held[line.Evt] = line.Ver
		}
		if j.state.Apply(f) {
			j.gaps++
		}
	}
}
