package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/timeline"
	"github.com/codemojex/feedrenderer/render"
)

const (
	applyRows    = 500
	applyLive    = 60 // rows, each of another game: about what a batch holds under the load of e2e
	applyBatches = 40 // of each kind, a round
)

// apply times single batches: the product's write beside a plain upsert of the same rows, in the same order, into the
// same table of another database. Rendering is left out on both sides; making columns and JSON is not.
func apply(ctx context.Context, rig *rig, report *report) (err error) {
	databaseURL, _, drop, err := rig.database(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop()) }()
	_, plain, dropPlain, err := rig.database(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dropPlain()) }()
	pool, err := timeline.Open(ctx, databaseURL, timeline.RoleRender, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	writer := timeline.NewWriter(pool)
	source, err := newSource()
	if err != nil {
		return err
	}

	ours := func(lines []feed.Line) error {
		applied, err := writer.Apply(ctx, lines)
		if err == nil && len(applied.Rejected) > 0 {
			err = fmt.Errorf("rejected: %s", applied.Rejected[0].Reason)
		}
		return err
	}
	upsert := func(lines []feed.Line) error {
		rows := newRows(len(lines))
		for i := range lines {
			if err := rows.add(&lines[i]); err != nil {
				return err
			}
		}
		return rows.upsert(ctx, plain)
	}
	timed := func(name string, lines []feed.Line, write func([]feed.Line) error) error {
		began := time.Now()
		if err := write(lines); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		report.add(name, "rows/s", float64(len(lines))/time.Since(began).Seconds())
		return nil
	}
	var steps []func() error
	for _, batch := range []struct {
		rows, games int
		of          string
	}{{applyRows, 1, "one game"}, {applyRows, 200, "200 games"}, {applyLive, applyLive, "a line each of 60 games"}} {
		steps = append(steps, func() error {
			lines, err := source.lines(batch.rows, batch.games)
			err = errors.Join(err, timed("Apply, "+batch.of, lines, ours))
			if batch.games == 1 {
				err = errors.Join(err, timed("Apply, applied before", lines, ours))
			}
			return err
		}, func() error {
			lines, err := source.lines(batch.rows, batch.games)
			return errors.Join(err, timed("plain upsert, "+batch.of, lines, upsert))
		})
	}
	for range rig.rounds * applyBatches {
		rand.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		for _, step := range steps {
			if err := step(); err != nil {
				return err
			}
		}
	}
	report.compare("apply_1", "Apply, one game", "plain upsert, one game")
	report.compare("apply_200", "Apply, 200 games", "plain upsert, 200 games")
	report.compare("apply_60", "Apply, a line each of 60 games", "plain upsert, a line each of 60 games")
	report.compare("apply_stale", "Apply, applied before", "Apply, one game")
	return nil
}

// source makes rendered lines with ever new ids.
type source struct {
	kinds *render.Kinds
	mint  *feed.Mint
}

func newSource() (*source, error) {
	kinds, err := render.LoadKinds("")
	if err != nil {
		return nil, err
	}
	mint, err := feed.NewMint(2)
	return &source{kinds, mint}, err
}

// lines are those of a batch of so many rows over so many games, in the order of the table's key.
func (s *source) lines(rows, games int) ([]feed.Line, error) {
	lines := make([]feed.Line, 0, rows)
	for i := range rows {
		id, err := s.mint.Next()
		if err != nil {
			return nil, err
		}
		// Three digits, so that their order is the games' order.
		game := feed.GameKey{Tenant: "bench", Game: feed.GameID("apply" + strconv.Itoa(100+i*games/rows))}
		line, _, err := s.kinds.Render(feed.Event{Game: game, ID: id, Kind: "scored", Fields: score(i)})
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}
