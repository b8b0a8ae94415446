package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
)

// backlog is streams full of entries, of games whose lines are public. Each run reads them from the head under a group
// of its own.
type backlog struct {
	games   []feed.GameKey
	entries int
}

const (
	fillBatch   = 500
	settledPoll = 5 * time.Millisecond
)

// fill makes a backlog of so many entries, the same number in each game.
func (r *rig) fill(ctx context.Context, name string, games, entries int) (*backlog, error) {
	mint, err := feed.NewMint(0)
	if err != nil {
		return nil, err
	}
	producer := feed.NewProducer(r.client, mint)
	b := &backlog{entries: entries}
	for g := range games {
		key := feed.GameKey{Tenant: "bench", Game: feed.GameID(name + strconv.Itoa(g))}
		b.games = append(b.games, key)
		if _, err := producer.Append(ctx, key, opening()); err != nil {
			return nil, err
		}
	}
	perGame := entries/games - 1
	for start := 0; start < perGame; start += fillBatch {
		for _, game := range b.games {
			batch := make([]feed.Fields, 0, fillBatch)
			for i := start; i < min(start+fillBatch, perGame); i++ {
				batch = append(batch, score(i))
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
	return b, nil
}

// empty deletes the streams: renderers of later benchmarks would find them.
func (r *rig) empty(ctx context.Context, b *backlog) error {
	keys := make([]string, len(b.games))
	for i, game := range b.games {
		keys[i] = game.Stream()
	}
	return r.client.Do(ctx, r.client.B().Unlink().Key(keys...).Build()).Error()
}

func opening() feed.Fields {
	return feed.Fields{{Name: "kind", Value: "opened"}, {Name: "mode", Value: "classic"}}
}

func score(i int) feed.Fields {
	return feed.Fields{
		{Name: "kind", Value: "scored"},
		{Name: "player", Value: "player" + strconv.Itoa(i%40)},
		{Name: "pct", Value: strconv.Itoa(i % 101)},
		{Name: "eff", Value: strconv.Itoa(i % 601)},
	}
}

// untilBegun waits until the group has read something.
func (b *backlog) untilBegun(ctx context.Context, client valkey.Client, group string) error {
	for {
		for _, game := range b.games {
			if facts, err := groupOf(ctx, client, game, group); err != nil {
				return err
			} else if facts.read > 0 {
				return nil
			}
		}
		if err := pause(ctx, settledPoll); err != nil {
			return fmt.Errorf("nothing was read: %w", err)
		}
	}
}

// untilSettled waits until the group has read and settled every entry of every stream.
func (b *backlog) untilSettled(ctx context.Context, client valkey.Client, group string) error {
	left := slices.Clone(b.games)
	for len(left) > 0 {
		facts, err := groupOf(ctx, client, left[0], group)
		if err != nil {
			return err
		}
		if facts.read == int64(b.entries/len(b.games)) && facts.pending == 0 {
			left = left[1:]
			continue
		}
		if err := pause(ctx, settledPoll); err != nil {
			return fmt.Errorf("%d of %d streams left: %w", len(left), len(b.games), err)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// groupFacts is how far a group has come in a stream; all zero where the group is not there yet.
type groupFacts struct{ read, pending int64 }

func groupOf(ctx context.Context, client valkey.Client, game feed.GameKey, group string) (groupFacts, error) {
	groups, err := client.Do(ctx, client.B().XinfoGroups().Key(game.Stream()).Build()).ToArray()
	if err != nil {
		return groupFacts{}, err
	}
	for _, g := range groups {
		facts, err := g.AsMap()
		if err != nil {
			return groupFacts{}, err
		}
		name, pending, read := facts["name"], facts["pending"], facts["entries-read"]
		if text, err := name.ToString(); err != nil || text != group {
			continue
		}
		if read.IsNil() {
			return groupFacts{}, nil
		}
		waiting, err := pending.AsInt64()
		if err != nil {
			return groupFacts{}, err
		}
		done, err := read.AsInt64()
		return groupFacts{done, waiting}, err
	}
	return groupFacts{}, nil
}
