package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// drain is the whole renderer beside the loop that anybody would write first.
func drain(ctx context.Context, rig *rig, report *report) (err error) {
	backlog, err := rig.fill(ctx, "plain", 50, 100_000)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.empty(context.WithoutCancel(ctx), backlog)) }()
	err = rig.race(ctx, report,
		rig.renderer("drain", report, backlog),
		rig.ownLoop("drain, plain loop", backlog, backlog.entries, plainLoop))
	report.compare("drain_plain", "drain", "drain, plain loop")
	return err
}

// drainLine is the whole renderer beside the straight line of the cheapest stages, and beside a pipeline that handles
// one entry at a time.
func drainLine(ctx context.Context, rig *rig, report *report) (err error) {
	backlog, err := rig.fill(ctx, "line", 200, 200_000)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.empty(context.WithoutCancel(ctx), backlog)) }()
	err = rig.race(ctx, report,
		rig.renderer(drainOf200, report, backlog),
		rig.ownLoop("drain of 200 games, straight line", backlog, backlog.entries, straightLoop),
		rig.ownLoop("drain of 200 games, entry by entry", backlog, 3000, peerLoop))
	report.compare("drain_line", drainOf200, "drain of 200 games, straight line")
	report.compare("drain_peer", drainOf200, "drain of 200 games, entry by entry")
	return err
}

const drainOf200 = "drain of 200 games"

// renderer is the shipped binary, timed from its first read to the last entry settled.
func (r *rig) renderer(name string, report *report, b *backlog) contestant {
	return contestant{name, b.entries, func(ctx context.Context, label string) (_ effort, err error) {
		databaseURL, pool, drop, err := r.database(ctx)
		if err != nil {
			return effort{}, err
		}
		defer func() { err = errors.Join(err, drop()) }()
		launched := time.Now()
		server, err := r.serve(ctx, databaseURL, "--roles", "render", "--tenants", "bench", "--group", label)
		if err != nil {
			return effort{}, err
		}
		defer func() {
			_, stopped := server.stop()
			err = errors.Join(err, stopped)
		}()
		if err := b.untilBegun(ctx, r.client, label); err != nil {
			return effort{}, fmt.Errorf("%w\n%s", err, server.log.Bytes())
		}
		begun, work := time.Now(), r.meter(server.cmd.Process.Pid)
		report.add(name+", from launch to first read", "s", begun.Sub(launched).Seconds())
		profiled := r.profile(ctx, server, label)
		if err := b.untilSettled(ctx, r.client, label); err != nil {
			return effort{}, fmt.Errorf("%w\n%s", err, server.log.Bytes())
		}
		spent := effort{time.Since(begun), work()}
		if err := <-profiled; err != nil {
			return effort{}, err
		}
		var lines int
		if err := pool.QueryRow(ctx, `SELECT count(*) FROM lines WHERE tenant = 'bench'`).Scan(&lines); err != nil {
			return effort{}, err
		}
		if lines != b.entries {
			return effort{}, fmt.Errorf("%d lines from %d entries", lines, b.entries)
		}
		return spent, nil
	}}
}

// loop reads so many entries of a backlog, writes them and acknowledges them.
type loop func(ctx context.Context, r *trial, entries int) error

// ownLoop is a loop in this process, timed as the renderer is.
func (r *rig) ownLoop(name string, b *backlog, entries int, loop loop) contestant {
	return contestant{name, entries, func(ctx context.Context, label string) (_ effort, err error) {
		_, pool, drop, err := r.database(ctx)
		if err != nil {
			return effort{}, err
		}
		defer func() { err = errors.Join(err, drop()) }()
		if _, err := pool.Exec(ctx, plainTable); err != nil {
			return effort{}, err
		}
		trial := &trial{client: r.client, pool: pool, group: label, backlog: b}
		for _, game := range b.games {
			if err := r.client.Do(ctx, r.client.B().XgroupCreate().Key(game.Stream()).Group(label).Id("0").Build()).Error(); err != nil {
				return effort{}, err
			}
		}
		begun, work := time.Now(), r.meter(os.Getpid())
		err = loop(ctx, trial, entries)
		return effort{time.Since(begun), work()}, err
	}}
}
