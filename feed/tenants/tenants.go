// Package tenants keeps the customers of an installation in Postgres.
package tenants

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/codemojex/feedrenderer/feed"
)

// Tenant is a customer.
type Tenant struct {
	ID        feed.TenantID
	Public    bool // its games may be watched by anyone
	Suspended bool // nothing of it is served
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

const lookupSQL = `select id, public, suspended from tenants where id = $1`

// Lookup returns a tenant, or an error that wraps [ErrUnknown].
func (s *Store) Lookup(ctx context.Context, id feed.TenantID) (Tenant, error) {
	var tenant Tenant
	batch := &pgx.Batch{}
	batch.Queue(`select set_config('feedrenderer.tenant', $1, true)`, id)
	batch.Queue(lookupSQL, id).QueryRow(func(row pgx.Row) error {
		return row.Scan(&tenant.ID, &tenant.Public, &tenant.Suspended)
	})
	err := s.pool.SendBatch(ctx, batch).Close()
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrUnknown
	}
	if err != nil {
		return Tenant{}, fmt.Errorf("look up tenant %s: %w", id, err)
	}
	return tenant, nil
}

const listSQL = `select id, public, suspended from tenants order by id`

// List returns all tenants in order of their names.
func (s *Store) List(ctx context.Context) ([]Tenant, error) {
	rows, _ := s.pool.Query(ctx, listSQL) // the error comes with the rows
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Tenant])
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	return list, nil
}
