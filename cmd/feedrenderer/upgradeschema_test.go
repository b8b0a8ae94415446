package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
	"github.com/codemojex/feedrenderer/feed/timeline"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

// contracted is what migrations took away that an older schema had, and why nothing missed it.
var contracted = map[string]string{
	"role feedrenderer_render may update tenants": "00005: no statement of a renderer did",
}

// promisesSQL lists what a schema promises to those who use it: its relations and their columns, its functions, what each
// role may do, and (negated) what an insert must give.
const promisesSQL = `
select 'column ' || table_name || '.' || column_name || ' ' || data_type from information_schema.columns where table_schema = 'public'
union all
select 'an insert into ' || table_name || ' may leave out ' || column_name from information_schema.columns
where table_schema = 'public' and (is_nullable = 'YES' or column_default is not null)
union all
select 'function ' || oid::regprocedure || ' returns ' || pg_get_function_result(oid) from pg_proc
where pronamespace = 'public'::regnamespace and prokind = 'f' and prorettype <> 'trigger'::regtype
union all
select 'role ' || grantee || ' may ' || lower(privilege_type) || ' ' || table_name from information_schema.role_table_grants
where table_schema = 'public' and grantee like 'feedrenderer%'
union all
select 'role ' || grantee || ' may ' || lower(privilege_type) || ' ' || table_name || '.' || column_name from information_schema.role_column_grants
where table_schema = 'public' and grantee like 'feedrenderer%'
  and not exists (select from information_schema.role_table_grants as g
    where g.grantee = role_column_grants.grantee and g.table_name = role_column_grants.table_name and g.privilege_type = role_column_grants.privilege_type)
union all
select 'role ' || grantee || ' may execute ' || specific_name from information_schema.role_routine_grants
where specific_schema = 'public' and grantee like 'feedrenderer%'
union all
select 'policy ' || policyname || ' on ' || tablename || ' for ' || cmd from pg_policies where schemaname = 'public' and permissive = 'PERMISSIVE'
union all
select 'unique index ' || indexname || ' on ' || tablename from pg_indexes where schemaname = 'public' and indexdef like 'CREATE UNIQUE%'`

// TestMigrationsOnlyExpandAndHoldNobodyUp applies the migrations one by one, each under the load of a writer and a reader
// that know the schema before it alone. In the end what they wrote is what a renderer of today reads.
func TestMigrationsOnlyExpandAndHoldNobodyUp(t *testing.T) {
	t.Parallel()
	postgres := serverstest.OwnPostgres(t)
	s := &system{t: t, database: postgres.URL}
	db, err := sql.Open("pgx", s.database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	migrations, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("../../migrations"))
	if err != nil {
		t.Fatal(err)
	}
	owner := s.owner()
	promises := func() (out []string) {
		t.Helper()
		rows, err := owner.Query(t.Context(), promisesSQL)
		if err != nil {
			t.Fatal(err)
		}
		if out, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			t.Fatal(err)
		}
		return out
	}
	const timelineFrom = 4 // the first version whose schema a renderer can work with
	written := 0
	for _, source := range migrations.ListSources() {
		before := promises()
		var load *oldLoad
		if source.Version > timelineFrom {
			load = s.oldLoad(fmt.Sprint("g", source.Version))
		}
		begun := time.Now()
		if _, err := migrations.UpTo(t.Context(), source.Version); err != nil {
			t.Fatal(err)
		}
		took := time.Since(begun)
		if load != nil {
			load.finish()
			written += load.written
			t.Logf("%s took %v; of %d writes beside it the slowest took %v, %d statements were repeated", source.Path, took, load.written, load.slowest, load.repeated)
		}
		after := promises()
		for _, promise := range before {
			if !slices.Contains(after, promise) && contracted[promise] == "" {
				t.Errorf("%s takes away: %s", source.Path, promise)
			}
		}
	}

	if err := tenants.NewStore(s.pool(timeline.RoleRender)).Ensure(t.Context(), []feed.TenantID{"old"}); err != nil {
		t.Fatal(err)
	}
	reader, read := s.reader(), 0
	games, err := reader.Games(t.Context(), "old", timeline.GamesQuery{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, game := range games {
		read += len(lines(t, reader, feed.GameKey{Tenant: "old", Game: game.Game}))
	}
	if read != written || written == 0 {
		t.Errorf("%d lines are read of %d that were written under older schemas", read, written)
	}
}

// oldLoad writes and reads a game by statements that every schema since 00004 has been able to answer, in the roles and
// with the timeouts of renderers and web processes.
type oldLoad struct {
	t       *testing.T
	end     context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex // guards what follows
	written  int
	repeated int // statements that were to be repeated: a migration and they waited for each other
	slowest  time.Duration
}

const oldWriteSQL = `
with g as (
  insert into games as t (tenant, game, ver, mode, mode_by, mode_kv) values ('old', $1, 1, 'classic', 1, 1)
  on conflict (tenant, game) do update set ver = t.ver + 1
  returning ver, floor
)
insert into lines (tenant, game, evt, ver, base_kv, public, base, base_raw)
select 'old', $1, $2, ver, 1, true, '{"kind":"notice","text":"old","visibility":"public"}', '\x00' from g where $2 > floor`

const oldReadSQL = `
select g.ver, g.released, g.mode, g.seed || (select epoch from server_epoch), l.evt, l.base, l.amendment
from games as g join lines as l on l.tenant = g.tenant and l.game = g.game
where g.tenant = 'old' and g.game = $1 and l.evt > g.floor order by l.evt desc limit 100`

func (s *system) oldLoad(game string) *oldLoad {
	s.t.Helper()
	ctx, end := context.WithCancel(s.t.Context())
	load := &oldLoad{t: s.t, end: end}
	s.t.Cleanup(load.stop)
	render, web := s.pool(timeline.RoleRender), s.pool(timeline.RoleWeb)
	again := func(who string, err error) bool { // as renderers and web processes do it
		if err != nil && !timeline.Unavailable(err) {
			s.t.Errorf("a %s beside the migration: %v", who, err)
		}
		if err != nil {
			load.mu.Lock()
			defer load.mu.Unlock()
			load.repeated++
		}
		return err != nil
	}
	load.running.Go(func() {
		for id := feed.IDAt(time.Now()); ctx.Err() == nil && !s.t.Failed(); id++ {
			begun := time.Now()
			_, err := render.Exec(s.t.Context(), oldWriteSQL, game, int64(id))
			if again("writer", err) {
				continue
			}
			load.mu.Lock()
			load.written++
			load.slowest = max(load.slowest, time.Since(begun))
			load.mu.Unlock()
			_, err = render.Exec(s.t.Context(), `select from release_game('old', $1, false)`, game)
			again("writer", err)
		}
	})
	load.running.Go(func() {
		for ctx.Err() == nil && !s.t.Failed() {
			again("reader", oldRead(s.t.Context(), web, game))
		}
	})
	load.more()
	return load
}

// more waits until a good deal more is written.
func (l *oldLoad) more() {
	l.t.Helper()
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.written
	}
	begun := count()
	until(l.t, "old statements write on", func() bool { return count() > begun+50 || l.t.Failed() })
}

// finish goes on for a while under the schema that there is now.
func (l *oldLoad) finish() {
	l.t.Helper()
	l.more()
	l.stop()
}

func (l *oldLoad) stop() {
	l.end()
	l.running.Wait()
}

func oldRead(ctx context.Context, web interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}, game string,
) error {
	batch := &pgx.Batch{}
	batch.Queue(`select set_config('feedrenderer.tenant', 'old', true)`)
	batch.Queue(oldReadSQL, game)
	results := web.SendBatch(ctx, batch)
	_, err := results.Exec()
	if err == nil {
		var rows pgx.Rows
		if rows, err = results.Query(); err == nil {
			_, err = pgx.CollectRows(rows, func(pgx.CollectableRow) (struct{}, error) { return struct{}{}, nil })
		}
	}
	return errors.Join(err, results.Close())
}
