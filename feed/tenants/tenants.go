// Package tenants keeps the customers of an installation in Postgres: who they are, what they may use, and what they show
// to be let in. A key is kept as a hash and told once; a watch token is signed and not kept at all.
package tenants

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/codemojex/feedrenderer/feed"
)

// Tenant is a customer.
type Tenant struct {
	ID        feed.TenantID
	Public    bool // its games may be watched by anyone
	Suspended bool // nothing of it is served
	Limits    Limits
}

// ErrUnknown is returned for a tenant that does not exist.
var ErrUnknown = errors.New("unknown tenant")

// Store reads tenants as either role of the database. Only the renderer's role sees all of them and may write.
type Store struct{ pool *pgxpool.Pool }

// NewStore returns a store over a pool opened by timeline.Open.
func NewStore(pool *pgxpool.Pool) *Store { return &Store{pool} }

// Sorted, so two processes with the same list cannot deadlock.
const ensureSQL = `
insert into tenants (id, public) select id, true from unnest($1::text[]) as t(id) order by id
on conflict (id) do nothing`

// Ensure creates the tenants that do not exist yet, as public ones. Those that exist are left as they are.
func (s *Store) Ensure(ctx context.Context, ids []feed.TenantID) error {
	if _, err := s.pool.Exec(ctx, ensureSQL, ids); err != nil {
		return fmt.Errorf("ensure %d tenants: %w", len(ids), err)
	}
	return nil
}

const tenantColumns = `id, public, suspended,
  max_sockets, joins_per_second, requests_per_second, events_per_second, max_games, max_event_bytes, retention_days, stream_days`

func scanTenant(row pgx.Row) (t Tenant, err error) {
	l := &t.Limits
	err = row.Scan(&t.ID, &t.Public, &t.Suspended, &l.Sockets, &l.Joins, &l.Requests, &l.Events, &l.Games, &l.EventBytes, &l.RetentionDays, &l.StreamDays)
	return t, err
}

const lookupSQL = `select ` + tenantColumns + ` from tenants where id = $1`

// Lookup returns a tenant, or an error that wraps [ErrUnknown].
func (s *Store) Lookup(ctx context.Context, id feed.TenantID) (Tenant, error) {
	var tenant Tenant
	err := s.ask(ctx, id, lookupSQL, []any{id}, func(row pgx.Row) (err error) {
		tenant, err = scanTenant(row)
		return err
	})
	if err != nil {
		return Tenant{}, fmt.Errorf("look up tenant %s: %w", id, err)
	}
	return tenant, nil
}

// ask reads one row behind the name of its tenant, without which row security shows the web role nothing. The two are
// one implicit transaction.
func (s *Store) ask(ctx context.Context, tenant feed.TenantID, sql string, args []any, read func(pgx.Row) error) error {
	batch := &pgx.Batch{}
	batch.Queue(`select set_config('feedrenderer.tenant', $1, true)`, tenant)
	batch.Queue(sql, args...).QueryRow(read)
	return known(s.pool.SendBatch(ctx, batch).Close())
}

const listSQL = `select ` + tenantColumns + ` from tenants order by id`

// List returns all tenants in order of their names.
func (s *Store) List(ctx context.Context) ([]Tenant, error) {
	rows, _ := s.pool.Query(ctx, listSQL) // the error comes with the rows
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Tenant, error) { return scanTenant(row) })
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	return list, nil
}

// Renderers that ask at once get different tenants.
const claimSQL = `
with due as materialized (
  select id as its from tenants where tended_at <= now() - make_interval(secs => $1) order by tended_at limit $2 for update skip locked
)
update tenants as t set tended_at = now() from due where t.id = its
returning ` + tenantColumns

// Claim returns tenants that nobody has claimed for so long, at most so many: those whose turn came first. A tenant of
// which something was changed is due at once.
func (s *Store) Claim(ctx context.Context, every time.Duration, most int) ([]Tenant, error) {
	rows, _ := s.pool.Query(ctx, claimSQL, every.Seconds(), most) // the error comes with the rows
	due, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Tenant, error) { return scanTenant(row) })
	if err != nil {
		return nil, fmt.Errorf("claim tenants: %w", err)
	}
	return due, nil
}

// The limit is a bound of the work: a tenant may have very many.
const countGamesSQL = `select count(*) from (select from games where tenant = $1 limit $2) as g`

// CountGames counts the games of a tenant, up to most.
func (s *Store) CountGames(ctx context.Context, tenant feed.TenantID, most int) (int, error) {
	var n int
	err := s.ask(ctx, tenant, countGamesSQL, []any{tenant, most}, func(row pgx.Row) error { return row.Scan(&n) })
	if err != nil {
		return 0, fmt.Errorf("count games of %s: %w", tenant, err)
	}
	return n, nil
}
