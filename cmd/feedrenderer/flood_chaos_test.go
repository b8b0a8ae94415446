//go:build chaos

package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/consumer"
	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/broadcast"
	"github.com/codemojex/feedrenderer/feed/timeline"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
	"github.com/codemojex/feedrenderer/render"
	"github.com/codemojex/feedrenderer/watch"
)

// TestATenantsFloodDelaysAnothersLinesByABatch times the lines of a quiet tenant from XADD to its watcher: alone, beside a
// tenant that floods fifty games, and beside it where all streams are one share. There is one worker for all, with room in
// flight for far more than a batch, so what an unfair queue costs shows. The three take turns, and what counts is the median
// of the rounds: something else may keep the machine busy in one. No other test runs beside it.
func TestATenantsFloodDelaysAnothersLinesByABatch(t *testing.T) {
	s := newSystem(t, serverstest.OwnValkey(t).URL)
	web := s.serve("web", "--tenants", "quiet,flood").ready()
	f := &floodTest{system: s, game: feed.GameKey{Tenant: "quiet", Game: "g"}, arrived: map[string]time.Time{}}
	f.watch(web)

	const rounds = 3
	var delays, gains []float64
	for round := range rounds {
		alone, _ := f.measure(fmt.Sprint("alone", round), nil, false)
		fair, batch := f.measure(fmt.Sprint("fair", round), nil, true)
		unfair, _ := f.measure(fmt.Sprint("unfair", round), func(string) string { return "" }, true)
		t.Logf("p99 from XADD to the watcher: alone %v, beside a flood %v (its median batch %v), as one share %v", alone, fair, batch, unfair)
		delays = append(delays, float64(fair)/float64(max(alone, batch)))
		gains = append(gains, float64(unfair)/float64(fair))
	}
	slices.Sort(delays)
	slices.Sort(gains)
	t.Logf("beside a flood %.2f times the larger of alone and a batch, as one share %.1f times that", delays[rounds/2], gains[rounds/2])
	if delays[rounds/2] > 3 {
		t.Errorf("beside a flood %.2f times the larger of what it is alone and a batch, want 3 at most", delays[rounds/2])
	}
	if gains[rounds/2] < 10 {
		t.Errorf("as one share only %.2f times as long: the measurement cannot tell", gains[rounds/2])
	}
}

const (
	floodGames = 50
	floodBatch = 1000 // long enough for what else goes on in a machine to matter little
	floodRoom  = 120  // batches in flight
	quietLines = 150  // ten a second
)

type floodTest struct {
	*system
	game feed.GameKey

	mu      sync.Mutex
	arrived map[string]time.Time // at the watcher, by text; guarded by mu
}

// watch notes when lines of the quiet game arrive.
func (f *floodTest) watch(web *program) {
	f.xadd(f.game.Stream(), "kind", "notice", "text", "first")
	client := watch.New(watch.Config{
		URLs:  []string{"ws://" + web.public + "/v1/tenants/quiet/live"},
		Games: []watch.Game{{ID: f.game.Game}},
		OnFrame: func(_ *watch.State, frame watch.Frame) {
			now := time.Now()
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, line := range frame.Lines {
				if _, ok := f.arrived[line.Text]; !ok {
					f.arrived[line.Text] = now
				}
			}
		},
	})
	ctx, stop := context.WithCancel(f.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := client.Run(ctx); ctx.Err() == nil {
			f.t.Errorf("the watcher was sent away: %v", err)
		}
	})
	f.t.Cleanup(func() {
		stop()
		running.Wait()
	})
}

func (f *floodTest) at(text string) (time.Time, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, ok := f.arrived[text]
	return at, ok
}

// measure runs a renderer, lets the quiet tenant say its lines, and gives the 99th percentile of what they took, and the
// median of what the renderer's full batches took.
func (f *floodTest) measure(name string, share func(string) string, flooded bool) (p99, batch time.Duration) {
	f.t.Helper()
	ctx, stop := context.WithCancel(f.t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()

	streams := []string{f.game.Stream()}
	var games []feed.GameKey
	if flooded {
		for i := range floodGames {
			game := feed.GameKey{Tenant: "flood", Game: feed.GameID(fmt.Sprint(name, i))}
			games, streams = append(games, game), append(streams, game.Stream())
		}
	}
	var mu sync.Mutex
	var batches []time.Duration
	renderer := f.renderer(streams, share, func(size int, took time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if size == floodBatch {
			batches = append(batches, took)
		}
	})
	running.Go(func() {
		if err := renderer.Run(ctx); err != nil {
			f.t.Errorf("%s: %v", name, err)
		}
	})
	if flooded {
		var ahead atomic.Bool
		running.Go(func() {
			f.flood(ctx, games, func() int64 { return renderer.Stats().Read }, func() { ahead.Store(true) })
		})
		until(f.t, "the flood is ahead of the handler", ahead.Load)
	}
	text := func(i int) string { return fmt.Sprint(name, " ", i) }
	f.xadd(f.game.Stream(), "kind", "notice", "text", text(-1))
	until(f.t, "the watcher sees a line", func() bool { _, ok := f.at(text(-1)); return ok })

	sent := make([]time.Time, quietLines)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := range sent {
		<-tick.C
		sent[i] = time.Now()
		f.xadd(f.game.Stream(), "kind", "notice", "text", text(i))
	}
	until(f.t, "the watcher sees the lines", func() bool {
		for i := range sent {
			if _, ok := f.at(text(i)); !ok {
				return false
			}
		}
		return true
	})
	took := make([]time.Duration, len(sent))
	for i := range sent {
		at, _ := f.at(text(i))
		took[i] = at.Sub(sent[i])
	}
	slices.Sort(took)
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(batches)
	if flooded {
		batch = batches[len(batches)/2]
		f.t.Logf("%s: lines took %v at the median, %v at most; %d full batches, %v at the median, %v at most", name,
			took[len(took)/2], took[len(took)-1], len(batches), batch, batches[len(batches)-1])
	}
	return took[len(took)*99/100], batch
}

// renderer is the product's member of the group, with its batches timed.
func (f *floodTest) renderer(streams []string, share func(string) string, timed func(size int, took time.Duration)) *consumer.Consumer {
	f.t.Helper()
	kinds, err := render.LoadKinds("")
	if err != nil {
		f.t.Fatal(err)
	}
	command := &serveCommand{Group: "feedrenderer", settings: serveSettings{
		valkey: valkeyURL(&faults{}, f.valkey), workers: 1, batch: floodBatch, minIdle: 30 * time.Second, maxAttempts: 5,
		grace: 10 * time.Second, degradedAfter: time.Minute,
	}}
	worker := render.NewWorker(render.WorkerConfig{
		Kinds: kinds, Timeline: timeline.NewWriter(f.pool(timeline.RoleRender)), Doorbell: broadcast.NewPublisher(f.client),
	})
	cfg := command.member(func(ctx context.Context, batch []consumer.Message) []consumer.Verdict {
		begun := time.Now()
		verdicts := worker.Step(ctx, batch)
		timed(len(batch), time.Since(begun))
		return verdicts
	}, slog.New(slog.NewTextHandler(f.t.Output(), nil)))
	cfg.Streams, cfg.Share, cfg.MaxInFlight = streams, share, floodRoom*floodBatch
	c, err := consumer.New(cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// flood keeps games ahead of their reader, over a connection of its own, and says when they are.
func (f *floodTest) flood(ctx context.Context, games []feed.GameKey, read func() int64, ahead func()) {
	client, err := newValkey(valkeyURL(&faults{}, f.valkey))
	if err != nil {
		f.t.Error(err)
		return
	}
	defer client.Close()
	mint, err := newMint()
	if err != nil {
		f.t.Error(err)
		return
	}
	producer := feed.NewProducer(client, mint)
	events := slices.Repeat([]feed.Fields{{{Name: "kind", Value: "notice"}, {Name: "text", Value: "one of very many"}}}, floodBatch/2)
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for i, added := 0, int64(0); ctx.Err() == nil; {
		if added-read() > floodRoom*floodBatch/2 {
			ahead()
			<-pause.C
			continue
		}
		if _, err := producer.AppendAll(ctx, games[i%len(games)], events); err != nil && ctx.Err() == nil {
			f.t.Errorf("flood: %v", err)
			return
		}
		added += int64(len(events))
		i++
	}
}
