package tenants_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

// What each role may do to each table and view: all of it, so that a new right has to be stated here. Rights to some
// columns only are marked so.
var rights = []string{
	"feedrenderer_admin api_keys INSERT SELECT UPDATE",
	"feedrenderer_admin tenants INSERT SELECT UPDATE",
	"feedrenderer_admin token_secrets INSERT SELECT UPDATE",
	"feedrenderer_render games INSERT SELECT UPDATE",
	"feedrenderer_render goose_db_version SELECT",
	"feedrenderer_render lines DELETE INSERT SELECT UPDATE",
	"feedrenderer_render server_epoch SELECT",
	"feedrenderer_render tenants INSERT SELECT",
	"feedrenderer_render tenants UPDATE of some columns",
	"feedrenderer_web api_keys SELECT",
	"feedrenderer_web games SELECT",
	"feedrenderer_web goose_db_version SELECT",
	"feedrenderer_web lines SELECT of some columns",
	"feedrenderer_web server_epoch SELECT",
	"feedrenderer_web tenants SELECT",
	"feedrenderer_web token_secrets SELECT",
}

// TestTheCatalogOfTheDatabase asks Postgres itself what there is, so that a table, view or function that is added without
// its rule fails it.
func TestTheCatalogOfTheDatabase(t *testing.T) {
	t.Parallel()
	url := serverstest.Database(t)
	owner, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := owner.Close(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	list := func(sql string, args ...any) []string {
		t.Helper()
		rows, _ := owner.Query(t.Context(), sql, args...) // the error comes with the rows
		got, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	tables := list(`
select relname from pg_class where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p', 'm', 'f')
  and relname <> 'goose_db_version' order by 1`)

	t.Run("EveryTableForcesRowSecurityAndHasARuleForEachRole", func(t *testing.T) {
		if len(tables) < 5 {
			t.Fatalf("found only %v", tables)
		}
		for _, table := range tables {
			if forced := list(`select (relrowsecurity and relforcerowsecurity)::text from pg_class where oid = $1::text::regclass`, table); forced[0] != "true" {
				t.Errorf("%s: row security is not forced", table)
			}
			for _, right := range rights {
				role, of, _ := strings.Cut(right, " ")
				if !strings.HasPrefix(of, table+" ") {
					continue
				}
				if rules := list(`select policyname from pg_policies where tablename = $1 and $2 = any (roles) and permissive = 'PERMISSIVE'`, table, role); len(rules) != 1 {
					t.Errorf("%s: %s has %d rules", table, role, len(rules))
				}
			}
		}
	})
	t.Run("TheRendererDeletesOnlyWhatAFloorHasHidden", func(t *testing.T) {
		got := list(`select tablename || ': ' || cmd || ' ' || qual from pg_policies where permissive = 'RESTRICTIVE'`)
		want := []string{"lines: DELETE (evt <= ( SELECT g.floor\n   FROM games g\n  WHERE ((g.tenant = lines.tenant) AND (g.game = lines.game))))"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
	t.Run("EveryRuleOfTheWebRoleNamesTheTenantAndReadsOnly", func(t *testing.T) {
		for _, bad := range list(`
select tablename || '.' || policyname from pg_policies
where 'public' = any (roles) or 'feedrenderer_web' = any (roles) and (cmd <> 'SELECT' or cardinality(roles) > 1 or
  qual not in ('(tenant = current_setting(''feedrenderer.tenant''::text, true))', '(id = current_setting(''feedrenderer.tenant''::text, true))'))`) {
			t.Errorf("%s shows more than one tenant, or lets the web role write", bad)
		}
	})
	t.Run("EveryViewReadsNoTableOrIsBoundByItsCaller", func(t *testing.T) { // server_epoch has the identity of one for a constant
		for _, bad := range list(`
select v.relname from pg_class v
where v.relname <> 'server_epoch' and v.relnamespace = current_schema()::regnamespace and v.relkind = 'v' and not coalesce(v.reloptions::text like '%security_invoker=true%', false)
  and exists (select from pg_rewrite r join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
    join pg_class c on d.refclassid = 'pg_class'::regclass and c.oid = d.refobjid
    where r.ev_class = v.oid and c.oid <> v.oid and c.relnamespace = v.relnamespace and c.relkind <> 'i')`) {
			t.Errorf("view %s reads tables past their rules", bad)
		}
	})
	t.Run("EveryFunctionIsBoundByItsCallerButTheSweep", func(t *testing.T) {
		got := list(`select proname from pg_proc where pronamespace = current_schema()::regnamespace and prosecdef order by 1`)
		if !slices.Equal(got, []string{"game_heads"}) { // looks across tenants, for a process that serves them all
			t.Errorf("functions that run with the rights of their owner: %v", got)
		}
		for _, open := range list(`
select proname from pg_proc where pronamespace = current_schema()::regnamespace and provolatile <> 'i' and has_function_privilege('public', oid, 'execute')`) {
			t.Errorf("anybody may run %s, which reads or writes", open)
		}
	})
	t.Run("RolesMayDoWhatIsWrittenHereAndNoMore", func(t *testing.T) {
		got := list(`
select grantee || ' ' || table_name || ' ' || string_agg(privilege_type, ' ' order by privilege_type)
from information_schema.role_table_grants where grantee like 'feedrenderer\_%' and table_schema = current_schema() group by grantee, table_name
union all
select grantee || ' ' || table_name || ' ' || string_agg(distinct privilege_type, ' ') || ' of some columns'
from information_schema.column_privileges c where grantee like 'feedrenderer\_%' and table_schema = current_schema()
  and not exists (select from information_schema.role_table_grants t where (t.grantee, t.table_name, t.privilege_type) = (c.grantee, c.table_name, c.privilege_type))
group by grantee, table_name`)
		slices.Sort(got)
		if diff := cmp.Diff(rights, got); diff != "" {
			t.Errorf("-written +real:\n%s", diff)
		}
		for _, role := range list(`
select rolname from pg_roles where rolname like 'feedrenderer\_%' and (rolsuper or rolcanlogin or rolcreatedb or rolcreaterole or rolbypassrls or rolreplication
  or has_schema_privilege(oid, current_schema(), 'create'))`) {
			t.Errorf("%s may do more than it has to", role)
		}
		if members := list(`
select m.rolname from pg_auth_members a join pg_roles r on r.oid = a.roleid join pg_roles m on m.oid = a.member
where r.rolname like 'feedrenderer\_%' and m.rolname like 'feedrenderer\_%'`); len(members) > 0 {
			t.Errorf("%v are members of other roles of ours", members)
		}
	})
	t.Run("AWebQueryThatForgetsItsTenantSeesNoRow", func(t *testing.T) {
		admin := tenants.NewAdmin(poolAs(t, url, tenants.AdminRole))
		for _, id := range []feed.TenantID{"acme", "globex"} {
			if err := admin.Create(t.Context(), tenants.Tenant{ID: id}); err != nil {
				t.Fatal(err)
			}
			key, _, err := admin.CreateKey(t.Context(), id, tenants.Watch, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := admin.Mint(t.Context(), tenants.Token{Tenant: id, Expires: time.Now().Add(time.Minute), Key: key.ID}); err != nil {
				t.Fatal(err)
			}
			for _, sql := range []string{`insert into games (tenant, game) values ($1, 'g1')`, `insert into lines (tenant, game, evt, ver) values ($1, 'g1', 1, 1)`} {
				if _, err := poolAs(t, url, "feedrenderer_render").Exec(t.Context(), sql, id); err != nil {
					t.Fatal(err)
				}
			}
		}
		web := poolAs(t, url, "feedrenderer_web")
		for _, table := range tables {
			column := "tenant"
			if table == "tenants" {
				column = "id"
			}
			for named, want := range map[string]int{"": 0, "acme": 1, "nobody": 0} {
				var seen, foreign int
				batch := &pgx.Batch{}
				if named != "" {
					batch.Queue(`select set_config('feedrenderer.tenant', $1, true)`, named)
				}
				batch.Queue(`select count(`+column+`), count(*) filter (where `+column+` <> $1) from `+table, named).QueryRow(func(row pgx.Row) error { return row.Scan(&seen, &foreign) })
				if err := web.SendBatch(t.Context(), batch).Close(); err != nil || seen != want || foreign != 0 {
					t.Errorf("%s, tenant %q: %d rows, %d foreign, %v", table, named, seen, foreign, err)
				}
			}
		}
	})
}
