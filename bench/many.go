package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/codemojex/feedrenderer/feed"
)

const (
	manyGames = 2000
	fewGames  = 10
	manyRate  = 500 // entries/s
	manyIdle  = 3 * time.Second
	// manyWatched is how many of the games are followed, and measured.
	manyWatched = 100
)

// many is one replica with 2000 games beside the same replica with 10, at the same load; and what 2000 games cost while
// nothing happens.
func many(ctx context.Context, rig *rig, report *report) error {
	for range rig.rounds {
		for _, n := range []int{manyGames, fewGames} {
			bounded, cancel := context.WithTimeout(ctx, runLimit)
			err := rig.manyRound(bounded, report, n)
			cancel()
			if err != nil {
				return fmt.Errorf("%d games: %w", n, err)
			}
		}
	}
	report.compare("games_2000", manyName(manyGames)+", p99", manyName(fewGames)+", p99")
	report.ratios = append(report.ratios, ratio{"games_2000_idle_cpu_percent", report.median(manyName(manyGames) + ", idle")})
	return nil
}

func manyName(games int) string { return fmt.Sprintf("%d games, XADD to a frame", games) }

func (r *rig) manyRound(ctx context.Context, report *report, n int) (err error) {
	games := &backlog{entries: n}
	for g := range n {
		games.games = append(games.games, feed.GameKey{Tenant: "bench", Game: feed.GameID(fmt.Sprintf("many%d-%d", r.labels, g))})
	}
	group := "run" + strconv.Itoa(r.labels)
	r.labels++
	defer func() { err = errors.Join(err, r.empty(context.WithoutCancel(ctx), games)) }()
	ms, err := r.underLoad(ctx, load{
		games: games.games, watched: games.games[:min(n, manyWatched)], rate: manyRate,
		settled: func(ctx context.Context, pid int) error {
			if err := games.untilSettled(ctx, r.client, group); err != nil {
				return err
			}
			before := processTime(pid)
			if err := pause(ctx, manyIdle); err != nil {
				return err
			}
			report.add(manyName(n)+", idle", "% of a core", 100*(processTime(pid)-before).Seconds()/manyIdle.Seconds())
			return nil
		},
	}, func(ctx context.Context) (side, error) { return r.e2eRenderer(ctx, games.games, group) })
	if err != nil {
		return err
	}
	report.add(manyName(n)+", p50", "ms", quantile(ms, 0.50))
	report.add(manyName(n)+", p99", "ms", quantile(ms, 0.99))
	return nil
}
