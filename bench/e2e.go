package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/codemojex/feedrenderer/feed"
)

const (
	e2eGames    = 200
	e2eShare    = 0.3 // of the drain speed
	e2eWarmup   = 2 * time.Second
	e2eMeasured = 6 * time.Second
	e2ePatience = 20 * time.Second // for the last line
	e2eWriters  = 10               // producers at a time
)

// e2e plays a steady load, a share of what the renderer drains, and takes the time from XADD to a decoded frame in one
// Go client that follows all games: through the shipped binary, and through a straight line in one goroutine.
func e2e(ctx context.Context, rig *rig, report *report) error {
	if report.median(drainOf200) == 0 {
		if err := drainLine(ctx, rig, report); err != nil {
			return err
		}
	}
	rate := e2eShare * report.median(drainOf200)
	report.add("load", "entries/s", rate)
	sides := []struct {
		name string
		run  func(ctx context.Context, games []feed.GameKey, group string) (listen string, stop func() error, err error)
	}{
		{"XADD to a frame under load", rig.e2eRenderer},
		{"XADD to a frame under load, straight line", rig.e2eStraight},
	}
	for round := range rig.rounds {
		for _, i := range rand.Perm(len(sides)) {
			games := &backlog{entries: 1}
			for g := range e2eGames {
				games.games = append(games.games, feed.GameKey{Tenant: "bench", Game: feed.GameID(fmt.Sprintf("load%d-%d", rig.labels, g))})
			}
			group := "run" + strconv.Itoa(rig.labels)
			rig.labels++
			bounded, cancel := context.WithTimeout(ctx, runLimit)
			ms, err := rig.underLoad(bounded, games.games, rate, func(ctx context.Context) (string, func() error, error) {
				return sides[i].run(ctx, games.games, group)
			})
			cancel()
			if err := errors.Join(err, rig.empty(context.WithoutCancel(ctx), games)); err != nil {
				return fmt.Errorf("%s, round %d: %w", sides[i].name, round+1, err)
			}
			report.add(sides[i].name+", p50", "ms", quantile(ms, 0.50))
			report.add(sides[i].name+", p99", "ms", quantile(ms, 0.99))
		}
	}
	for _, p := range []string{"p50", "p99"} {
		report.compare("e2e_"+p, sides[0].name+", "+p, sides[1].name+", "+p)
	}
	return nil
}

// underLoad opens the games, starts one side, follows it, and plays at a rate; it gives the time that each measured
// entry took, in ms.
func (r *rig) underLoad(ctx context.Context, games []feed.GameKey, rate float64, start func(context.Context) (string, func() error, error)) (_ []float64, err error) {
	mint, err := feed.NewMint(3)
	if err != nil {
		return nil, err
	}
	producer := feed.NewProducer(r.client, mint)
	for _, game := range games {
		if _, err := producer.Append(ctx, game, opening()); err != nil {
			return nil, err
		}
	}
	listen, stop, err := start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	watcher, err := newWatcher(ctx, listen, games...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, watcher.close()) }()

	var (
		sent   = make([][]sighting, e2eWriters)
		faults = make([]error, e2eWriters)
		loops  sync.WaitGroup
		begun  = time.Now()
	)
	for n := range e2eWriters {
		loops.Go(func() { sent[n], faults[n] = play(ctx, producer, games, n, rate/e2eWriters, begun) })
	}
	played := make(chan struct{})
	go func() { loops.Wait(); close(played) }()
	seen := make(map[feed.ID]time.Time)
	for playing := true; playing; {
		select {
		case s, ok := <-watcher.seen:
			if !ok {
				<-played
				return nil, <-watcher.end
			}
			seen[s.evt] = s.at
		case <-played:
			playing = false
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	late, cancel := context.WithTimeout(ctx, e2ePatience)
	defer cancel()
	var ms []float64
	for _, s := range slices.Concat(sent...) {
		at, ok := seen[s.evt]
		for !ok {
			select {
			case got := <-watcher.seen:
				seen[got.evt] = got.at
				at, ok = got.at, got.evt == s.evt
			case <-late.Done():
				return nil, fmt.Errorf("line %s was not seen", s.evt)
			}
		}
		if s.at.Sub(begun) >= e2eWarmup {
			ms = append(ms, at.Sub(s.at).Seconds()*1000)
		}
	}
	return ms, nil
}

// play appends at a rate, to every game in turn that is this writer's, and notes when.
func play(ctx context.Context, producer *feed.Producer, games []feed.GameKey, writer int, rate float64, begun time.Time) ([]sighting, error) {
	var sent []sighting
	for i := 0; ; i++ {
		due := begun.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		if due.Sub(begun) > e2eWarmup+e2eMeasured {
			return sent, nil
		}
		if err := pause(ctx, time.Until(due)); err != nil {
			return nil, err
		}
		at := time.Now()
		id, err := producer.Append(ctx, games[(i*e2eWriters+writer)%len(games)], score(i))
		if err != nil {
			return nil, err
		}
		sent = append(sent, sighting{id, at})
	}
}

// e2eRenderer is the shipped binary, both roles in one process.
func (r *rig) e2eRenderer(ctx context.Context, _ []feed.GameKey, group string) (string, func() error, error) {
	databaseURL, _, drop, err := r.database(ctx)
	if err != nil {
		return "", nil, err
	}
	server, err := r.serve(ctx, databaseURL, "--roles", "render,web", "--tenants", "bench", "--group", group)
	if err != nil {
		return "", nil, errors.Join(err, drop())
	}
	return server.listen, func() error {
		_, err := server.stop()
		return errors.Join(err, drop())
	}, nil
}
