package timeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/codemojex/feedrenderer/feed"
)

// ErrNotFound is wrapped where there is no such game, or no such line that may be seen.
var ErrNotFound = errors.New("not found")

// Reader answers what watchers of one tenant may see. Each call is one round trip; what it answers is of one instant.
// The connections are shared among tenants: reads of one, many or slow, leave some for the others'. One that waits in vain
// for those of its own tenant wraps [ErrBusy].
type Reader struct {
	pool  *pgxpool.Pool
	turns *turns
}

// NewReader returns a reader over a pool of [RoleWeb]. One reader shares out all that the pool has.
func NewReader(pool *pgxpool.Pool) *Reader {
	return &Reader{pool, newTurns(int(pool.Config().MaxConns))}
}

const nameTenantSQL = `select set_config('feedrenderer.tenant', $1, true)`

// ask sends one query behind the name of its tenant, without which row security shows it nothing. The two are one
// implicit transaction, so the name is gone with it.
func (r *Reader) ask(ctx context.Context, who claimant, sql string, args []any, read func(pgx.Rows) error) error {
	return r.send(ctx, who, func(batch *pgx.Batch) {
		batch.Queue(nameTenantSQL, string(who.tenant))
		batch.Queue(sql, args...).Query(read)
	})
}

// send makes one round trip of the queries that are queued, when it is the claimant's turn.
func (r *Reader) send(ctx context.Context, who claimant, queue func(*pgx.Batch)) error {
	mine, err := r.turns.take(ctx, who)
	if err != nil {
		return err
	}
	defer r.turns.give(who)
	for range 2 {
		batch := &pgx.Batch{}
		queue(batch)
		if err = r.pool.SendBatch(ctx, batch).Close(); !hasState(err, stateStalePlan) {
			break
		}
	}
	r.turns.saw(err)
	if ctx.Err() != nil {
		err = r.turns.late(mine, err)
	}
	return err
}

// Snapshot is a game and its newest lines at the version of Game.Cursor.
type Snapshot struct {
	Game  feed.Game
	Lines []feed.View // newest first
	Older bool        // there are more
}

// Snapshot reads a game and its newest lines, at most limit.
func (r *Reader) Snapshot(ctx context.Context, key feed.GameKey, limit int) (Snapshot, error) {
	var game gameRow
	var page Page
	bounds := PageQuery{Limit: limit}
	err := r.send(ctx, claimant{tenant: key.Tenant}, func(batch *pgx.Batch) {
		batch.Queue(`begin isolation level repeatable read read only`)
		batch.Queue(nameTenantSQL, string(key.Tenant))
		batch.Queue(gameSQL, string(key.Tenant), string(key.Game)).Query(game.read)
		batch.Queue(olderSQL, bounds.args(key)...).Query(func(rows pgx.Rows) (err error) {
			page, err = bounds.read(rows)
			return err
		})
		batch.Queue(`commit`)
	})
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot of %s: %w", key, err)
	}
	return Snapshot{Game: game.view(), Lines: page.Lines, Older: page.More}, nil
}

// Head is where a game stands: all that a sweep, an ETag or a resume has to know of it.
type Head struct {
	Game     feed.GameKey
	Cursor   feed.Cursor
	Released bool
	Mode     feed.Mode
}

const headSQL = `
select seed || (select epoch from server_epoch), ver, released, mode from games where tenant = $1 and game = $2`

// Head reads one row of one game.
func (r *Reader) Head(ctx context.Context, key feed.GameKey) (Head, error) {
	head := Head{Game: key}
	err := r.ask(ctx, claimant{tenant: key.Tenant}, headSQL, []any{string(key.Tenant), string(key.Game)}, func(rows pgx.Rows) error {
		return one(rows, &head.Cursor.Epoch, &head.Cursor.Ver, &head.Released, &head.Mode)
	})
	if err != nil {
		return Head{}, fmt.Errorf("head of %s: %w", key, err)
	}
	return head, nil
}

// The function looks across tenants, on behalf of a process that serves them all.
const headsSQL = `select no, epoch, ver, released, mode from game_heads($1, $2) order by no`

// Heads reads the heads of games of any tenants, in the order of the keys. Games that do not exist are left out.
func (r *Reader) Heads(ctx context.Context, keys []feed.GameKey) ([]Head, error) {
	tenants, games := make([]string, len(keys)), make([]string, len(keys))
	for i, key := range keys {
		tenants[i], games[i] = string(key.Tenant), string(key.Game)
	}
	rows, _ := r.pool.Query(ctx, headsSQL, tenants, games) // the error comes with the rows
	heads, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Head, error) {
		var no int64
		var head Head
		err := row.Scan(&no, &head.Cursor.Epoch, &head.Cursor.Ver, &head.Released, &head.Mode)
		if err == nil {
			head.Game = keys[no-1]
		}
		return head, err
	})
	r.turns.saw(err)
	if err != nil {
		return nil, fmt.Errorf("heads of %d games: %w", len(keys), err)
	}
	return heads, nil
}

// one scans the only row, or returns ErrNotFound.
func one(rows pgx.Rows, into ...any) error {
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return err
		}
		return ErrNotFound
	}
	return rows.Scan(into...)
}
