package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
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

// renderer is the shipped binary with a database of its own, timed from its first read to the last entry settled.
func (r *rig) renderer(name string, report *report, b *backlog) contestant {
	return r.renderers(name, report, b, 1)
}

// renderers are so many processes of it, which share the work.
func (r *rig) renderers(name string, report *report, b *backlog, n int) contestant {
	return contestant{name, b.entries, func(ctx context.Context, label string) (_ effort, err error) {
		databaseURL, pool, drop, err := r.database(ctx)
		if err != nil {
			return effort{}, err
		}
		defer func() { err = errors.Join(err, drop()) }()
		return r.drained(ctx, name, report, b, label, store{databaseURL, pool}, n)
	}}
}

// store is a database.
type store struct {
	url  string
	pool *pgxpool.Pool
}

// drained lets n processes empty the backlog into a database, under a group named as the label.
func (r *rig) drained(ctx context.Context, name string, report *report, b *backlog, label string, into store, n int) (_ effort, err error) {
	launched := time.Now()
	var servers []*process
	var pids []int
	defer func() {
		for _, server := range servers {
			_, stopped := server.stop()
			err = errors.Join(err, stopped)
		}
	}()
	for i := range n {
		server, err := r.serve(ctx, into.url, "--roles", "render", "--tenants", "bench", "--group", label, "--name", "renderer"+strconv.Itoa(i))
		if err != nil {
			return effort{}, err
		}
		servers, pids = append(servers, server), append(pids, server.cmd.Process.Pid)
	}
	if err := b.untilBegun(ctx, r.client, label); err != nil {
		return effort{}, fmt.Errorf("%w\n%s", err, servers[0].log.Bytes())
	}
	begun, work := time.Now(), r.meter(pids...)
	report.add(name+", from launch to first read", "s", begun.Sub(launched).Seconds())
	profiled := r.profile(ctx, servers[0], label)
	if err := b.untilSettled(ctx, r.client, label); err != nil {
		return effort{}, fmt.Errorf("%w\n%s", err, servers[0].log.Bytes())
	}
	spent := effort{time.Since(begun), work()}
	if err := <-profiled; err != nil {
		return effort{}, err
	}
	names := make([]string, len(b.games))
	for i, game := range b.games {
		names[i] = string(game.Game)
	}
	var lines int
	if err := into.pool.QueryRow(ctx, `SELECT count(*) FROM lines WHERE tenant = 'bench' AND game = ANY($1)`, names).Scan(&lines); err != nil {
		return effort{}, err
	}
	if lines != b.entries {
		return effort{}, fmt.Errorf("%d lines from %d entries", lines, b.entries)
	}
	return spent, nil
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
