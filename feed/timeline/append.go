package timeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/codemojex/feedrenderer/feed"
)

// appendSQL writes lines that are all new to games that exist, as nearly all batches do, at less than two thirds of what
// openSQL costs: it looks nothing up, compares nothing, and answers games alone. Where a line is not new after all the
// primary key refuses it, and with it the batch. Games are locked in sorted order, as there. A seed is drawn once, for
// games that are new; a default would be for each.
const appendSQL = `
with g as materialized (
  select * from rows from (unnest($1::text[]), unnest($2::text[]), unnest($3::bigint[])) with ordinality as g (tenant, game, events, no)
),
locked as (
  insert into games as t (tenant, game, ver, seed)
  select tenant, game, events, (select right(gen_random_uuid()::text, 12)) from g order by no
  on conflict (tenant, game) do update set ver = t.ver + excluded.ver
  returning tenant, game, ver, seed, released, mode, floor
),
stored as (
  insert into lines (tenant, game, evt, ver, base_kv, public, modal, actor, points, base, base_raw)
  select g.tenant, g.game, l.evt, t.ver - g.events + l.ordinal, l.base_kv, l.public, l.modal, nullif(l.actor, ''),
    nullif(l.points, 'NaN'), l.base::jsonb, l.base_raw
  from rows from (unnest($4::integer[]), unnest($5::bigint[]), unnest($6::bigint[]), unnest($7::integer[]), unnest($8::boolean[]),
      unnest($9::boolean[]), unnest($10::text[]), unnest($11::double precision[]), unnest($12::text[]), unnest($13::bytea[]))
    as l (no, ordinal, evt, base_kv, public, modal, actor, points, base, base_raw)
  join g on g.no = l.no join locked as t on t.tenant = g.tenant and t.game = g.game
  where l.evt > t.floor
)
select tenant, game, seed || (select epoch from server_epoch), ver, released, mode, floor from locked`

// append stores those of the inputs listed that are likely all that is needed to bring their games further, and returns
// the ones that are left.
func (a *application) append(ctx context.Context, inputs []int) (left []int, err error) {
	w := a.writer
	if w.locksFirst {
		return inputs, nil
	}
	appends, left := w.fronts.divide(a.lines, inputs)
	if len(appends) == 0 {
		return inputs, nil
	}
	batch := newBatch(a.lines, a.texts, appends)
	changes, err := w.append(ctx, batch)
	var pg *pgconn.PgError
	switch {
	case err == nil:
		w.fronts.appended(batch)
		a.wrote(appends, changes)
		return left, nil
	case errors.As(err, &pg) && (pg.Code == stateDuplicate || pg.Code == stateLockTimeout || pg.Code == stateStalePlan || faultOfRow(pg.Code)):
		w.fronts.forget(batch.keys...)
		return inputs, nil // the other statement tells whose fault it is
	}
	return nil, err
}

func (w *Writer) append(ctx context.Context, b *batch) ([]feed.Change, error) {
	g, l := &b.games, &b.lines
	rows, _ := w.pool.Query(ctx, appendSQL, g.tenants, g.games, g.events, // the error comes with the rows
		l.no, l.ordinals, l.evts, l.baseVersions, l.public, l.modal, l.actors, l.points, l.bases, l.baseRaws)
	changes := make([]feed.Change, 0, len(b.keys))
	var (
		change feed.Change
		floor  feed.ID
	)
	to := []any{&change.Game.Tenant, &change.Game.Game, &change.Epoch, &change.To, &change.Released, &change.Mode, &floor}
	_, err := pgx.ForEachRow(rows, to, func() error {
		i, err := b.game(change.Game)
		if err != nil {
			return err
		}
		told := change
		told.From = told.To - g.events[i]
		told.Lines = b.appendedTo(i, told.From, floor)
		changes = append(changes, told)
		return nil
	})
	if err == nil && len(changes) != len(b.keys) {
		err = fmt.Errorf("append: %d of %d games are answered", len(changes), len(b.keys))
	}
	return changes, err
}

// appendedTo are the lines of a game as they stand once they were appended to a version, those at or below the floor left out.
func (b *batch) appendedTo(game int, ver int64, floor feed.ID) []feed.ChangedLine {
	rows := b.rowsOf(game)
	lines := make([]feed.ChangedLine, 0, len(rows))
	for i := range rows {
		if evt := rows[i].Key.evt; evt > floor {
			lines = append(lines, feed.ChangedLine{Evt: evt, Ver: ver + int64(i) + 1, Base: rows[i].First.Value.value})
		}
	}
	return lines
}
