package timeline

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codemojex/feedrenderer/feed"
)

// The games come sorted, and the function locks each in turn.
const releaseSQL = `
with server as materialized (select epoch from server_epoch)
select k.tenant, k.game, r.seed || server.epoch, r.from_ver, r.to_ver, r.released, r.mode, r.evt, r.ver, r.base, r.amendment
from server, rows from (unnest($1::text[]), unnest($2::text[]), unnest($3::bigint[])) as k (tenant, game, revealed_by),
  lateral release_game(k.tenant, k.game, k.revealed_by) as r`

// noReveal stands where no event reveals.
const noReveal feed.ID = -1

// release looks at the release of games, given in sorted order, and answers what it changed. Each may be revealed by an
// event of this id at most: one at or below the floor reveals nothing.
func (w *Writer) release(ctx context.Context, games []feed.GameKey, revealedBy map[feed.GameKey]feed.ID) ([]feed.Change, error) {
	if len(games) == 0 {
		return nil, nil
	}
	tenants, names, revealed := make([]string, len(games)), make([]string, len(games)), make([]int64, len(games))
	for i, game := range games {
		tenants[i], names[i], revealed[i] = string(game.Tenant), string(game.Game), int64(revealedBy[game])
	}
	rows, _ := w.pool.Query(ctx, releaseSQL, tenants, names, revealed) // the error comes with the rows
	stamped, err := pgx.CollectRows(rows, pgx.RowToStructByPos[restamped])
	if err != nil {
		return nil, fmt.Errorf("release %d games: %w", len(games), err)
	}
	var changes []feed.Change
	for _, s := range stamped {
		key := feed.GameKey{Tenant: feed.TenantID(s.Tenant), Game: feed.GameID(s.Game)}
		if len(changes) == 0 || changes[len(changes)-1].Game != key {
			changes = append(changes, feed.Change{
				Game: key, Epoch: s.Epoch, From: s.From, To: s.To, Released: s.Released, Mode: feed.Mode(s.Mode),
			})
		}
		if s.Evt == nil { // nothing was hidden
			continue
		}
		line, err := parseLine(feed.ID(*s.Evt), *s.Ver, s.Base, s.Amendment)
		if err != nil {
			return nil, err
		}
		change := &changes[len(changes)-1]
		change.Lines = append(change.Lines, line)
	}
	return changes, nil
}

type restamped struct {
	Tenant, Game, Epoch string
	From, To            int64
	Released            bool
	Mode                string
	Evt, Ver            *int64
	Base, Amendment     []byte
}

// What an operator states is newer than all that events said so far, and older than what events will say.
const setModeSQL = `
with written as (
  insert into games as t (tenant, game, ver, mode, mode_by, mode_kv) values ($1, $2, 1, $3, $4, 0)
  on conflict (tenant, game) do update set ver = t.ver + 1, mode = excluded.mode, mode_kv = 0,
    mode_by = greatest(excluded.mode_by, least(t.mode_by, 9223372036854775806) + 1)
  returning seed, ver - 1 as from_ver, ver, released, mode
)
select seed || (select epoch from server_epoch), from_ver, ver, released, mode from written`

// SetMode states the mode of a game whose opening event is gone, and releases the game if that mode does. It creates
// the game where there is none yet. A later event may still say otherwise.
func (w *Writer) SetMode(ctx context.Context, game feed.GameKey, mode feed.Mode) ([]feed.Change, error) {
	if mode == feed.ModeUnknown {
		return nil, fmt.Errorf("set mode of %s: want classic, golden or blind", game)
	}
	rows, _ := w.pool.Query(ctx, setModeSQL, string(game.Tenant), string(game.Game), string(mode), int64(feed.IDAt(time.Now())))
	changes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (feed.Change, error) {
		change := feed.Change{Game: game}
		return change, row.Scan(&change.Epoch, &change.From, &change.To, &change.Released, &change.Mode)
	})
	if err != nil {
		return nil, fmt.Errorf("set mode of %s: %w", game, err)
	}
	released, err := w.release(ctx, []feed.GameKey{game}, map[feed.GameKey]feed.ID{game: noReveal})
	if err != nil {
		return nil, fmt.Errorf("set mode of %s: %w", game, err)
	}
	return append(changes, released...), nil
}
