package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
)

const (
	drainEntries = 100_000
	drainGames   = 50
	drainBatch   = 500
	drainLimit   = 2 * time.Minute // of one run; it is an error not to be done by then
	drainPoll    = 5 * time.Millisecond
)

// drainSide is one way to empty the streams; it gives the time that took.
type drainSide struct {
	name, group string
	run         func(ctx context.Context, rig *rig, group string, games []feed.GameKey) (time.Duration, error)
}

// drain fills streams once; each run reads them from the head under a group of its own into a database of its own.
func drain(ctx context.Context, rig *rig, report *report) error {
	games, err := fillStreams(ctx, rig.client)
	if err != nil {
		return err
	}
	sides := []drainSide{{"drain", "renderer", drainWithRenderer}, {"drain, plain loop", "plain", drainPlainly}}
	for round := range rig.rounds {
		rand.Shuffle(len(sides), func(i, j int) { sides[i], sides[j] = sides[j], sides[i] })
		for _, side := range sides {
			bounded, cancel := context.WithTimeout(ctx, drainLimit)
			took, err := side.run(bounded, rig, side.group+strconv.Itoa(round), games)
			cancel()
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", side.name, round+1, err)
			}
			report.add(side.name, "entries/s", drainEntries/took.Seconds())
		}
	}
	report.compare("drain_plain", "drain", "drain, plain loop")
	return nil
}

func fillStreams(ctx context.Context, client valkey.Client) ([]feed.GameKey, error) {
	mint, err := feed.NewMint(0)
	if err != nil {
		return nil, err
	}
	producer := feed.NewProducer(client, mint)
	games := make([]feed.GameKey, drainGames)
	for g := range games {
		games[g] = feed.GameKey{Tenant: "bench", Game: feed.GameID("drain" + strconv.Itoa(g))}
		if _, err := producer.Append(ctx, games[g], feed.Fields{{Name: "kind", Value: "opened"}, {Name: "mode", Value: "classic"}}); err != nil {
			return nil, err
		}
	}
	const perGame = drainEntries/drainGames - 1
	for start := 0; start < perGame; start += drainBatch {
		for _, game := range games {
			batch := make([]feed.Fields, 0, drainBatch)
			for i := start; i < min(start+drainBatch, perGame); i++ {
				batch = append(batch, feed.Fields{
					{Name: "kind", Value: "scored"}, {Name: "player", Value: "player" + strconv.Itoa(i%40)},
					{Name: "pct", Value: strconv.Itoa(i % 101)}, {Name: "eff", Value: strconv.Itoa(i % 601)},
				})
			}
			receipts, err := producer.AppendAll(ctx, game, batch)
			if err != nil {
				return nil, err
			}
			for _, receipt := range receipts {
				if receipt.Err != nil {
					return nil, receipt.Err
				}
			}
		}
	}
	return games, nil
}

// drainWithRenderer times from the start of the process to the last entry acknowledged, start-up included.
func drainWithRenderer(ctx context.Context, rig *rig, group string, games []feed.GameKey) (_ time.Duration, err error) {
	databaseURL, pool, drop, err := rig.database(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	started := time.Now()
	renderer, err := rig.serve(ctx, databaseURL, "--roles", "render", "--tenants", "bench", "--group", group)
	if err != nil {
		return 0, err
	}
	err = untilDrained(ctx, rig.client, group, games)
	took := time.Since(started)
	_, stopped := renderer.stop()
	if err := errors.Join(err, stopped); err != nil {
		return 0, fmt.Errorf("%w\n%s", err, renderer.log.Bytes())
	}
	var lines int
	if err := pool.QueryRow(ctx, `SELECT count(*) FROM lines WHERE tenant = 'bench'`).Scan(&lines); err != nil {
		return 0, err
	}
	if lines != drainEntries {
		return 0, fmt.Errorf("%d lines from %d entries", lines, drainEntries)
	}
	return took, nil
}

// untilDrained waits until the group has read and settled every entry of every stream.
func untilDrained(ctx context.Context, client valkey.Client, group string, games []feed.GameKey) error {
	left := slices.Clone(games)
	for len(left) > 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d streams left: %w", len(left), len(games), context.Cause(ctx))
		case <-time.After(drainPoll):
		}
		done, err := settled(ctx, client, left[0], group)
		if err != nil {
			return err
		}
		if done {
			left = left[1:]
		}
	}
	return nil
}

// settled reports whether the group has nothing left of a stream to read or to settle.
func settled(ctx context.Context, client valkey.Client, game feed.GameKey, group string) (bool, error) {
	groups, err := client.Do(ctx, client.B().XinfoGroups().Key(game.Stream()).Build()).ToArray()
	if err != nil {
		return false, err
	}
	for _, g := range groups {
		facts, err := g.AsMap()
		if err != nil {
			return false, err
		}
		name, pending, lag := facts["name"], facts["pending"], facts["lag"]
		if text, err := name.ToString(); err != nil || text != group {
			continue
		}
		waiting, err1 := pending.AsInt64()
		unread, err2 := lag.AsInt64()
		return err1 == nil && err2 == nil && waiting == 0 && unread == 0, nil
	}
	return false, nil // the group is not there yet
}

const plainTable = `CREATE TABLE plain (tenant text COLLATE "C", game text COLLATE "C", evt bigint, kind text, line jsonb, PRIMARY KEY (tenant, game, evt))`

const plainUpsert = `
INSERT INTO plain SELECT 'bench', * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::jsonb[])
ON CONFLICT (tenant, game, evt) DO UPDATE SET kind = excluded.kind, line = excluded.line`

// drainPlainly is the loop that anybody would write first: read a batch of all streams, upsert it, acknowledge it.
func drainPlainly(ctx context.Context, rig *rig, group string, games []feed.GameKey) (_ time.Duration, err error) {
	_, pool, drop, err := rig.database(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	if _, err := pool.Exec(ctx, plainTable); err != nil {
		return 0, err
	}
	started := time.Now()
	keys, newer := make([]string, len(games)), make([]string, len(games))
	byStream := make(map[string]feed.GameKey, len(games))
	for i, game := range games {
		keys[i], newer[i], byStream[game.Stream()] = game.Stream(), ">", game
		if err := rig.client.Do(ctx, rig.client.B().XgroupCreate().Key(game.Stream()).Group(group).Id("0").Build()).Error(); err != nil {
			return 0, err
		}
	}
	for read := 0; read < drainEntries; {
		reply, err := rig.client.Do(ctx, rig.client.B().Xreadgroup().Group(group, "plain").Count(drainBatch/drainGames).
			Streams().Key(keys...).Id(newer...).Build()).AsXReadSlices()
		if err != nil {
			return 0, err
		}
		n, err := plainBatch(ctx, rig, pool, group, byStream, reply)
		if err != nil {
			return 0, err
		}
		read += n
	}
	return time.Since(started), nil
}
