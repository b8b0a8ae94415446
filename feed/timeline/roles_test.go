package timeline

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
	"github.com/codemojex/feedrenderer/migrations"
)

func TestTheRolesOfTheDatabase(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, tenant := range []feed.TenantID{"acme", "other"} {
		g := line{tenant, "g1"}
		s.apply(t, g.notice(at(1), "of "+string(tenant)))
		s.exec(t, `insert into tenants (id) values ($1)`, string(tenant))
	}
	web, render := openPool(t, s.url, RoleWeb), openPool(t, s.url, RoleRender)

	t.Run("EveryTableHasForcedRowSecurity", func(t *testing.T) {
		t.Parallel()
		rows, _ := s.owner(t).Query(t.Context(), `
select relname from pg_class where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p', 'v', 'm')
  and relname not like 'goose%' and relname <> 'server_epoch' and not (relrowsecurity and relforcerowsecurity)`)
		open, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(open) > 0 {
			t.Errorf("without forced row security: %v, %v", open, err)
		}
	})
	t.Run("AWebQueryThatForgetsItsTenantSeesNothing", func(t *testing.T) {
		t.Parallel()
		for _, table := range []string{"games", "tenants", "(select evt from lines) as l"} {
			var n int
			if err := web.QueryRow(t.Context(), `select count(*) from `+table).Scan(&n); err != nil || n != 0 {
				t.Errorf("%s: %d rows, %v", table, n, err)
			}
		}
	})
	t.Run("AWebQuerySeesTheTenantThatItNamesAloneAndForThatTransactionAlone", func(t *testing.T) {
		t.Parallel()
		conn, err := web.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		for _, step := range []struct{ tenant, want string }{{"acme", "acme"}, {"", ""}, {"other", "other"}, {"nobody", ""}} {
			var got string
			batch := &pgx.Batch{}
			if step.tenant != "" {
				batch.Queue(nameTenantSQL, step.tenant)
			}
			batch.Queue(`select coalesce(string_agg(tenant, ','), '') from games`).QueryRow(func(row pgx.Row) error { return row.Scan(&got) })
			if err := conn.SendBatch(t.Context(), batch).Close(); err != nil || got != step.want {
				t.Errorf("tenant %q: sees games of %q, %v", step.tenant, got, err)
			}
		}
	})
	t.Run("TheWebRoleMayNot", func(t *testing.T) {
		t.Parallel()
		for _, sql := range []string{
			`select base_raw from lines`, `select amend_raw from lines`, `select * from lines`,
			`insert into games (tenant, game) values ('acme', 'g2')`, `update games set released = true`, `delete from lines`,
			`insert into tenants (id) values ('x')`, `truncate games`, `select release_game('acme', 'g1', true)`, `select release_game('acme', 'g1', 9)`, `create table t ()`,
			`alter table games disable row level security`, `drop policy watcher on lines`,
		} {
			_, err := web.Exec(t.Context(), nameTenantSQL+`; `+sql, pgx.QueryExecModeSimpleProtocol, "acme")
			if !hasState(err, "42501") {
				t.Errorf("%s: got %v, want permission to be denied", sql, err)
			}
		}
	})
	t.Run("TheRenderRoleSeesAllTenantsAndMayNot", func(t *testing.T) {
		t.Parallel()
		var n int
		if err := render.QueryRow(t.Context(), `select count(*) from games where tenant in ('acme', 'other')`).Scan(&n); err != nil || n != 2 {
			t.Errorf("sees %d games, %v", n, err)
		}
		for _, sql := range []string{`delete from games`, `delete from tenants`, `truncate lines`, `create table t ()`} {
			if _, err := render.Exec(t.Context(), sql); !hasState(err, "42501") {
				t.Errorf("%s: got %v, want permission to be denied", sql, err)
			}
		}
	})
	t.Run("TheRenderRoleDeletesNoLineAboveTheFloorWhateverItAsksFor", func(t *testing.T) {
		t.Parallel()
		g := line{"floors", "g1"}
		s.apply(t, g.notice(at(1), "below"), g.notice(at(2), "above"))
		s.exec(t, `update games set floor = $1 where tenant = 'floors'`, int64(at(1)))
		for _, want := range []int64{1, 0} {
			if deleted, err := render.Exec(t.Context(), `delete from lines where tenant = 'floors'`); err != nil || deleted.RowsAffected() != want {
				t.Errorf("deleted %d lines, %v, want %d", deleted.RowsAffected(), err, want)
			}
		}
		expect(t, s.texts(t, g.key()), "above")
	})
	t.Run("ReadersOfOneTenantDoNotFindGamesOfAnother", func(t *testing.T) {
		t.Parallel()
		games, err := s.Games(t.Context(), "acme", GamesQuery{Limit: 9})
		if err != nil || len(games) != 1 {
			t.Errorf("got %+v, %v", games, err)
		}
		expect(t, s.texts(t, feed.GameKey{Tenant: "other", Game: "g1"}), "of other")
	})
	t.Run("TheSweepLooksAcrossTenants", func(t *testing.T) {
		t.Parallel()
		keys := []feed.GameKey{{Tenant: "other", Game: "g1"}, {Tenant: "other", Game: "g2"}, {Tenant: "acme", Game: "g1"}}
		heads, err := s.Heads(t.Context(), keys)
		if err != nil || len(heads) != 2 || heads[0].Game != keys[0] || heads[1].Game != keys[2] {
			t.Fatalf("got %+v, %v", heads, err)
		}
		one, err := s.Head(t.Context(), keys[0])
		if err != nil || one != heads[0] || one.Cursor != s.game(t, keys[0]).Cursor {
			t.Errorf("got %+v and %+v, %v", one, heads[0], err)
		}
	})
	t.Run("ConnectionsKeepTheirPlansAndTheirTimeouts", func(t *testing.T) {
		t.Parallel()
		for name, want := range map[string]string{
			"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off", "statement_timeout": "10s", "lock_timeout": "1s",
			"idle_in_transaction_session_timeout": "10s", "role": "feedrenderer_web",
		} {
			var got string
			if err := web.QueryRow(t.Context(), `select current_setting($1)`, name).Scan(&got); err != nil || got != want {
				t.Errorf("%s is %q, want %q, %v", name, got, want, err)
			}
		}
	})
}

// The database is made by a login that is no superuser and owns nothing but it: row security binds it too, so the
// functions that run on its behalf must still see what they need.
func TestAnOwnerThatIsNoSuperuserIsEnough(t *testing.T) {
	t.Parallel()
	super := serverstest.EmptyDatabase(t)
	admin, err := pgx.Connect(t.Context(), super)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeConn(t, admin) })
	address, err := url.Parse(super)
	if err != nil {
		t.Fatal(err)
	}
	database := strings.TrimPrefix(address.Path, "/")
	owner := database + "_owner"
	script := func(sql string) {
		t.Helper()
		for name, value := range map[string]string{"OWNER": owner, "DATABASE": database} {
			sql = strings.ReplaceAll(sql, name, pgx.Identifier{value}.Sanitize())
		}
		if _, err := admin.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	script(`create role OWNER login createrole password 'owner'; alter database DATABASE owner to OWNER`)
	if _, err := admin.Exec(t.Context(), `
do $$ begin create role feedrenderer_render; exception when duplicate_object or unique_violation then null; end $$;
do $$ begin create role feedrenderer_web; exception when duplicate_object or unique_violation then null; end $$`); err != nil {
		t.Fatal(err)
	}
	script(`grant feedrenderer_render, feedrenderer_web to OWNER`)
	address.User = url.UserPassword(owner, "owner")
	if err := migrations.Up(t.Context(), address.String()); err != nil {
		t.Fatal(err)
	}
	render, web := openPool(t, address.String(), RoleRender), openPool(t, address.String(), RoleWeb)
	s := &store{url: address.String(), Writer: NewWriter(render), Reader: NewReader(web)}
	s.apply(t, g1.scored(at(1), "ann", "5"), g1.opened(at(0), feed.ModeClassic))
	expect(t, s.texts(t, g1.key()), "ann scored 5 %", "classic game opened")
	heads, err := s.Heads(t.Context(), []feed.GameKey{g1.key()})
	if err != nil || len(heads) != 1 || heads[0].Cursor != s.game(t, g1.key()).Cursor {
		t.Errorf("got %+v, %v", heads, err)
	}
	render.Close()
	web.Close()
	script(`reassign owned by OWNER to current_user; drop owned by OWNER; drop role OWNER`)
}

// Roles belong to the cluster: databases that are migrated at the same time make them once.
func TestDatabasesMayBeMigratedAtTheSameTime(t *testing.T) {
	t.Parallel()
	const databases = 4
	done := make(chan error, databases)
	for range databases {
		address := serverstest.EmptyDatabase(t)
		go func() { done <- migrations.Up(t.Context(), address) }()
	}
	for range databases {
		if err := <-done; err != nil {
			t.Error(fmt.Errorf("migrate: %w", err))
		}
	}
}
