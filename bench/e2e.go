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
		run  func(ctx context.Context, games []feed.GameKey, group string) (side, error)
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
			ms, err := rig.underLoad(bounded, load{games: games.games, watched: games.games, rate: rate}, func(ctx context.Context) (side, error) {
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

// side is a way from streams to a socket, at work.
type side struct {
	listen string
	pid    int
	stop   func() error
}

// load is what is played.
type load struct {
	games, watched []feed.GameKey
	rate           float64                                  // entries/s
	settled        func(ctx context.Context, pid int) error // called before it begins; nil: nothing
}

// underLoad opens the games, starts a side, follows it, and plays; it gives the time that each measured entry took, in ms.
func (r *rig) underLoad(ctx context.Context, load load, start func(context.Context) (side, error)) (_ []float64, err error) {
	mint, err := feed.NewMint(3)
	if err != nil {
		return nil, err
	}
	games := load.games
	producer := feed.NewProducer(r.client, mint)
	for _, game := range games {
		if _, err := producer.Append(ctx, game, opening()); err != nil {
			return nil, err
		}
	}
	side, err := start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, side.stop()) }()
	watcher, err := newWatcher(ctx, side.listen, load.watched...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, watcher.close()) }()
	if load.settled != nil {
		if err := load.settled(ctx, side.pid); err != nil {
			return nil, err
		}
	}

	var (
		sent   = make([][]sighting, e2eWriters)
		faults = make([]error, e2eWriters)
		loops  sync.WaitGroup
		begun  = time.Now()
	)
	for n := range e2eWriters {
		loops.Go(func() { sent[n], faults[n] = play(ctx, producer, load, n, begun) })
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

// play appends at a rate, to every game in turn that is this writer's, and notes when, for those that are watched: the
// first ones.
func play(ctx context.Context, producer *feed.Producer, load load, writer int, begun time.Time) ([]sighting, error) {
	var sent []sighting
	rate := load.rate / e2eWriters
	for i := 0; ; i++ {
		due := begun.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		if due.Sub(begun) > e2eWarmup+e2eMeasured {
			return sent, nil
		}
		if err := pause(ctx, time.Until(due)); err != nil {
			return nil, err
		}
		at := time.Now()
		game := (i*e2eWriters + writer) % len(load.games)
		id, err := producer.Append(ctx, load.games[game], score(i))
		if err != nil {
			return nil, err
		}
		if game < len(load.watched) {
			sent = append(sent, sighting{id, at})
		}
	}
}

// e2eRenderer is the shipped binary, both roles in one process.
func (r *rig) e2eRenderer(ctx context.Context, _ []feed.GameKey, group string) (side, error) {
	databaseURL, _, drop, err := r.database(ctx)
	if err != nil {
		return side{}, err
	}
	server, err := r.serve(ctx, databaseURL, "--roles", "render,web", "--tenants", "bench", "--group", group)
	if err != nil {
		return side{}, errors.Join(err, drop())
	}
	return side{server.listen, server.cmd.Process.Pid, func() error {
		_, err := server.stop()
		return errors.Join(err, drop())
	}}, nil
}
