package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/codemojex/feedrenderer/feed"
)

const (
	idleEntries = 60 // of each side, a round
	idleEvery   = 10 * time.Millisecond
	idleOurs    = "one entry, XADD to a frame in a Go client"
	idleHops    = "one entry, bare: sum of the round trips"
)

// idle plays one entry at a time into a system that has nothing else to do, and takes turns with the bare round trips
// that this needs.
func idle(ctx context.Context, rig *rig, report *report) (err error) {
	databaseURL, pool, drop, err := rig.database(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop()) }()
	mint, err := feed.NewMint(1)
	if err != nil {
		return err
	}
	producer := feed.NewProducer(rig.client, mint)
	backlog := &backlog{games: []feed.GameKey{{Tenant: "bench", Game: "idle"}}, entries: 1}
	game := backlog.games[0]
	if _, err := producer.Append(ctx, game, opening()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.empty(context.WithoutCancel(ctx), backlog)) }()
	server, err := rig.serve(ctx, databaseURL, "--roles", "render,web", "--tenants", "bench")
	if err != nil {
		return err
	}
	defer func() {
		_, stopped := server.stop()
		err = errors.Join(err, stopped)
	}()
	bounded, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	watcher, err := newWatcher(bounded, server.listen, game)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, server.log.Bytes())
	}
	defer func() { err = errors.Join(err, watcher.close()) }()
	hops, err := newHops(bounded, rig, pool)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hops.close()) }()

	steps := []func() error{
		func() error { return hops.trip(bounded, report) },
		func() error {
			began := time.Now()
			id, err := producer.Append(bounded, game, score(1))
			if err != nil {
				return err
			}
			at, err := watcher.until(bounded, id)
			report.add(idleOurs, "ms", at.Sub(began).Seconds()*1000)
			return err
		},
	}
	for range rig.rounds * idleEntries {
		rand.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		for _, step := range steps {
			if err := errors.Join(step(), pause(bounded, idleEvery)); err != nil {
				return err
			}
		}
	}
	report.compare("idle_latency", idleOurs, idleHops)
	return nil
}
