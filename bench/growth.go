package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

const (
	growthEntries  = 100_000 // of a drain
	growthLines    = 5_000_000
	growthGames    = 1000 // that hold those lines
	growthReplicas = 100  // games that replicas share
	fillLimit      = 5 * time.Minute
)

// growth is the drain speed as one thing after the other grows: the games of one renderer, the renderers of the same
// games (on the same cores: what more of them cost, not what more machines bring), and the lines in the table.
func growth(ctx context.Context, rig *rig, report *report) error {
	return errors.Join(
		rig.growingGames(ctx, report, 10, 100, 1000),
		rig.growingReplicas(ctx, report, 1, 2, 4),
		rig.growingLines(ctx, report))
}

// steps compares each series with the one before.
func (r *report) steps(ratio string, names []string, sizes []int) {
	for i := 1; i < len(names); i++ {
		r.compare(fmt.Sprintf("growth_%s_%d", ratio, sizes[i]), names[i], names[i-1])
	}
}

func (r *rig) growingGames(ctx context.Context, report *report, sizes ...int) (err error) {
	var names []string
	var sides []contestant
	for _, n := range sizes {
		backlog, err := r.fill(ctx, fmt.Sprintf("grow%d-", n), n, growthEntries)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.empty(context.WithoutCancel(ctx), backlog)) }()
		name := fmt.Sprintf("drain of %d games", n)
		names, sides = append(names, name), append(sides, r.renderer(name, report, backlog))
	}
	err = r.race(ctx, report, sides...)
	report.steps("games", names, sizes)
	return err
}

func (r *rig) growingReplicas(ctx context.Context, report *report, sizes ...int) (err error) {
	backlog, err := r.fill(ctx, "replicas", growthReplicas, growthEntries)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.empty(context.WithoutCancel(ctx), backlog)) }()
	var names []string
	var sides []contestant
	for _, n := range sizes {
		name := fmt.Sprintf("drain by %d renderers", n)
		names, sides = append(names, name), append(sides, r.renderers(name, report, backlog, n))
	}
	err = r.race(ctx, report, sides...)
	report.steps("replicas", names, sizes)
	return err
}

// growingLines drains into an empty table and into one that holds millions of lines of other games of the tenant. The
// full one stays, so each round has games of its own.
func (r *rig) growingLines(ctx context.Context, report *report) (err error) {
	url, pool, drop, err := r.database(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop()) }()
	full := store{url, pool}
	if err := full.fill(ctx); err != nil {
		return err
	}
	const none, many = "drain into an empty table", "drain into 5 000 000 lines"
	for range r.rounds {
		name := "lines" + strconv.Itoa(r.labels) + "-"
		backlog, err := r.fill(ctx, name, growthReplicas, growthEntries)
		if err != nil {
			return err
		}
		sides := []contestant{
			r.renderer(none, report, backlog),
			{many, backlog.entries, func(ctx context.Context, label string) (effort, error) {
				return r.drained(ctx, many, report, backlog, label, full, 1)
			}},
		}
		rand.Shuffle(len(sides), func(i, j int) { sides[i], sides[j] = sides[j], sides[i] })
		for _, side := range sides {
			err = errors.Join(err, r.once(ctx, report, side))
		}
		if err := errors.Join(err, r.empty(context.WithoutCancel(ctx), backlog)); err != nil {
			return err
		}
	}
	report.compare("growth_lines_5000000", many, none)
	return nil
}

// The lines are as a renderer writes them; the raw entry is of their length.
const fullGames = `
INSERT INTO games (tenant, game, ver, released, mode, mode_by, stamped_mode)
SELECT 'bench', 'full' || g, $2::bigint / $1, true, 'classic', 1, 'classic' FROM generate_series(1, $1::bigint) AS g`

const fullLines = `
INSERT INTO lines (tenant, game, evt, ver, base_kv, public, actor, points, base, base_raw)
SELECT 'bench', 'full' || g, n * 4096, n, 1, false, 'player' || n % 40, n % 601,
  format('{"kind": "scored", "text": "{player} scored {pct} %%", "icon": "dart", "tone": "good", "actor": "player", "show": ["player", "pct", "eff"],
    "fields": {"eff": "%s", "pct": "%s", "player": "player%s"}, "visibility": "score", "score": [{"field": "eff", "factor": 1}, {"field": "pct", "factor": 6}]}',
    n % 601, n % 101, n % 40)::jsonb, decode(repeat('7b', 90), 'hex')
FROM generate_series($1::bigint, $2::bigint) AS g, generate_series(1, $3::bigint) AS n`

// fill puts the lines in, and has the statistics and the visibility map made that a table of such an age would have.
func (s store) fill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, fillLimit)
	defer cancel()
	if _, err := s.pool.Exec(ctx, fullGames, growthGames, growthLines); err != nil {
		return fmt.Errorf("fill the games: %w", err)
	}
	const step = 100
	for first := 1; first <= growthGames; first += step {
		if _, err := s.pool.Exec(ctx, fullLines, first, first+step-1, growthLines/growthGames); err != nil {
			return fmt.Errorf("fill the lines: %w", err)
		}
	}
	_, err := s.pool.Exec(ctx, `VACUUM (ANALYZE) lines`)
	return err
}
