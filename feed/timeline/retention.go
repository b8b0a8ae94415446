package timeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codemojex/feedrenderer/feed"
)

// A scalar lookup of one line: a join might be planned over all lines of the tenant. Every game that was looked at comes
// back, so that a statement has a bound however few of them have expired.
const expiredSQL = `
select g.game, g.status in ('settled', 'voided') and g.status_by <= $3
  and coalesce((select true from lines as l where l.tenant = $1 and l.game = g.game and l.evt > g.floor and l.evt <= $3 limit 1), false)
from games as g where g.tenant = $1 and g.game > $2 order by g.game limit $4`

// Expired lists games of a tenant that ended before an instant and have lines from before it, in order of their ids. It
// looks at most games behind one, "" for the first, and says behind which to go on, "" where there are no more.
func (w *Writer) Expired(ctx context.Context, tenant feed.TenantID, before time.Time, after feed.GameID, most int) (expired []feed.GameKey, next feed.GameID, err error) {
	rows, _ := w.pool.Query(ctx, expiredSQL, string(tenant), string(after), highestBefore(before), most) // the error comes with the rows
	seen := 0
	var game feed.GameID
	var has bool
	_, err = pgx.ForEachRow(rows, []any{&game, &has}, func() error {
		if seen++; seen == most {
			next = game
		}
		if has {
			expired = append(expired, feed.GameKey{Tenant: tenant, Game: game})
		}
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("expired games of %s: %w", tenant, err)
	}
	return expired, next, nil
}

// Floor and epoch in one step under the game's lock, which is the only one that is taken. Deletes come after it is
// committed, of rows that no writer touches any more: neither can wait for the other in a circle.
const expireSQL = `
with raised as (
  update games as g set floor = $3, seed = right(gen_random_uuid()::text, 12), emptying = true
  where g.tenant = $1 and g.game = $2 and g.status in ('settled', 'voided') and g.status_by <= $3 and g.floor < $3
    and (select true from lines as l where l.tenant = $1 and l.game = $2 and l.evt > g.floor and l.evt <= $3 limit 1)
  returning seed, ver, released, mode
)
select seed || (select epoch from server_epoch), ver, released, mode from raised`

// Expire ends all lines of a game from before an instant, and the part in it of all events from before it, whenever they
// come: if the game ended before that, and has such lines. The header stays. It answers the change to ring for, which is
// of a new epoch, or none. The rows are left to [Writer.Drop].
func (w *Writer) Expire(ctx context.Context, game feed.GameKey, before time.Time) ([]feed.Change, error) {
	rows, _ := w.pool.Query(ctx, expireSQL, string(game.Tenant), string(game.Game), highestBefore(before)) // the error comes with the rows
	changes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (feed.Change, error) {
		change := feed.Change{Game: game}
		err := row.Scan(&change.Epoch, &change.To, &change.Released, &change.Mode)
		change.From = change.To
		return change, err
	})
	if err != nil {
		return nil, fmt.Errorf("expire %s: %w", game, err)
	}
	return changes, nil
}

// highestBefore is the highest id from before an instant, -1 where there is none.
func highestBefore(t time.Time) int64 { return int64(feed.IDAt(t)) - 1 }

const emptyingSQL = `select game from games where tenant = $1 and emptying order by game limit 1`

const dropSQL = `
delete from lines
where tenant = $1 and game = $2 and evt <= (select max(evt) from (
  select evt from lines
  where tenant = $1 and game = $2 and evt <= (select floor from games where tenant = $1 and game = $2)
  order by evt limit $3) as lowest)`

const emptiedSQL = `
update games as g set emptying = false
where g.tenant = $1 and g.game = $2 and g.emptying
  and (select true from lines as l where l.tenant = $1 and l.game = $2 and l.evt <= g.floor limit 1) is null`

// Drop deletes lines of one game of a tenant that a floor has hidden, at most so many, and reports whether there are
// more to be dropped, in this game or another.
func (w *Writer) Drop(ctx context.Context, tenant feed.TenantID, most int) (dropped int64, more bool, err error) {
	var game string
	err = w.pool.QueryRow(ctx, emptyingSQL, string(tenant)).Scan(&game)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	if err == nil {
		dropped, err = w.drop(ctx, tenant, game, most)
	}
	if err != nil {
		return dropped, false, fmt.Errorf("drop lines of %s: %w", tenant, err)
	}
	return dropped, true, nil
}

func (w *Writer) drop(ctx context.Context, tenant feed.TenantID, game string, most int) (int64, error) {
	deleted, err := w.pool.Exec(ctx, dropSQL, string(tenant), game, most)
	if err != nil || deleted.RowsAffected() >= int64(most) {
		return deleted.RowsAffected(), err
	}
	_, err = w.pool.Exec(ctx, emptiedSQL, string(tenant), game)
	return deleted.RowsAffected(), err
}
