package timeline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/codemojex/feedrenderer/feed"
)

// planned is a statement and the indexes by which alone it may find rows, each with the columns that its condition names.
type planned struct {
	name, sql string
	params    int
	role      Role
	indexes   map[string][]string
	ordered   bool // rows come from the index in order: nothing is sorted below a limit
}

var (
	gameByKey    = []string{"tenant", "game"}
	lineByPlace  = []string{"tenant", "game", "evt"}
	lineByChange = []string{"tenant", "game", "ver"}

	statements = []planned{
		{"apply", storeSQL, 34, RoleRender, map[string][]string{"games_pkey": gameByKey, "lines_pkey": lineByPlace}, false},
		{"open", openSQL, 13, RoleRender, map[string][]string{"games_pkey": gameByKey, "lines_pkey": lineByPlace}, false},
		{"append", appendSQL, 13, RoleRender, map[string][]string{"games_pkey": gameByKey, "lines_pkey": lineByPlace}, false},
		{"older", olderSQL, 8, RoleWeb, map[string][]string{"games_pkey": gameByKey, "lines_pkey": lineByPlace, "lines_public": lineByPlace}, true},
		{"newer", newerSQL, 8, RoleWeb, map[string][]string{"games_pkey": gameByKey, "lines_pkey": lineByPlace, "lines_public": lineByPlace}, true},
		{"changes", changesSQL, 4, RoleWeb, map[string][]string{"games_pkey": gameByKey, "lines_ver": lineByChange}, true},
		{"game", gameSQL, 2, RoleWeb, map[string][]string{"games_pkey": gameByKey, "lines_pkey": lineByPlace, "lines_public": lineByPlace}, false},
		{"games", gamesSQL, 4, RoleWeb, map[string][]string{"games_pkey": gameByKey, "lines_pkey": lineByPlace, "lines_public": lineByPlace}, false},
		{"head", headSQL, 2, RoleWeb, map[string][]string{"games_pkey": gameByKey}, false},
		{"expired", expiredSQL, 4, RoleRender, map[string][]string{"games_pkey": gameByKey, "lines_pkey": lineByPlace}, true},
		{"expire", expireSQL, 3, RoleRender, map[string][]string{"games_pkey": gameByKey, "lines_pkey": lineByPlace}, false},
		{"emptying", emptyingSQL, 1, RoleRender, map[string][]string{"games_emptying": {"tenant"}}, true},
		{"drop", dropSQL, 3, RoleRender, map[string][]string{"games_pkey": gameByKey, "lines_pkey": lineByPlace}, true},
		{"emptied", emptiedSQL, 2, RoleRender, map[string][]string{"games_pkey": gameByKey, "games_emptying": gameByKey, "lines_pkey": lineByPlace}, false},
	}
)

func TestEveryStatementFindsItsRowsByItsIndexWhateverTheStatistics(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, complaint := range s.complaints(t) {
		t.Error(complaint)
	}
}

// The check can fail: an index of versions that is not partial draws the search for stale lines to itself.
func TestAPlainVersionIndexWouldBeNoticed(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.exec(t, `drop index lines_ver`)
	s.exec(t, `create index lines_ver on lines (tenant, game, ver)`)
	complaints := s.complaints(t)
	if !slices.ContainsFunc(complaints, func(c string) bool { return strings.HasPrefix(c, "apply,") }) {
		t.Errorf("the plans of apply are not complained of; of others: %q", complaints)
	}
}

// complaints checks the plans in four states of the tables, on connections that prepared while they were empty.
func (s *store) complaints(t *testing.T) []string {
	t.Helper()
	states := []struct{ name, fill string }{
		{"empty", ``},
		{"analyzed with one row", fillSQL(1, 1)},
		{"many tiny games beside a hot one", fillSQL(3000, 2) + fillSQL(1, 20_000)},
		{"full", fillSQL(300, 300)},
	}
	conns := map[Role]*pgx.Conn{}
	for _, role := range []Role{RoleRender, RoleWeb} {
		pooled, err := openPool(t, s.url, role).Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pooled.Release)
		conns[role] = pooled.Conn()
	}
	for _, p := range statements {
		if _, err := conns[p.role].Exec(t.Context(), "prepare "+p.name+" as "+p.sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	var complaints []string
	for i, state := range states {
		if state.fill != "" {
			s.exec(t, fmt.Sprintf(`select set_config('test.tenant', 'tenant%d', false);`, i)+state.fill+`analyze`)
		}
		for _, p := range statements {
			for _, complaint := range p.check(t, conns[p.role]) {
				complaints = append(complaints, p.name+", "+state.name+": "+complaint)
			}
		}
	}
	return complaints
}

func fillSQL(games, lines int) string {
	return fmt.Sprintf(`
insert into games (tenant, game) select current_setting('test.tenant'), 'g%[2]dx' || g from generate_series(1, %[1]d) as g;
insert into lines (tenant, game, evt, ver, base_kv, public)
select current_setting('test.tenant'), 'g%[2]dx' || g, l, l, 1, l %% 3 = 0 from generate_series(1, %[1]d) as g, generate_series(1, %[2]d) as l;`, games, lines)
}

// check explains the prepared statement and says what is wrong with its plan.
func (p planned) check(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	var text []byte
	sql := "explain (format json) execute " + p.name + "(" + strings.TrimSuffix(strings.Repeat("null, ", p.params), ", ") + ")"
	if err := conn.QueryRow(t.Context(), sql, pgx.QueryExecModeSimpleProtocol).Scan(&text); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	var explained []struct{ Plan plan }
	if err := json.Unmarshal(text, &explained); err != nil {
		t.Fatal(err)
	}
	return explained[0].Plan.faults(p, false)
}

type plan struct {
	NodeType  string `json:"Node Type"`
	Relation  string `json:"Relation Name"`
	Index     string `json:"Index Name"`
	Condition string `json:"Index Cond"`
	Plans     []plan
}

// faults walks down the plan; sorted says that rows are sorted between here and the nearest limit above.
func (n plan) faults(p planned, sorted bool) []string {
	var faults []string
	switch {
	case n.NodeType == "Limit":
		sorted = false
	case strings.HasSuffix(n.NodeType, "Sort"):
		sorted = true
	}
	reads := n.Relation != "" && n.NodeType != "ModifyTable" && n.NodeType != "Bitmap Heap Scan" // the index of that is below it
	if columns := p.indexes[n.Index]; reads || n.Index != "" {
		if columns == nil {
			faults = append(faults, fmt.Sprintf("%s of %s by index %q", n.NodeType, n.Relation, n.Index))
		}
		for _, column := range columns {
			if !strings.Contains(n.Condition, "("+column+" ") {
				faults = append(faults, fmt.Sprintf("%s by %s with %s, which leaves %s out", n.NodeType, n.Index, n.Condition, column))
			}
		}
		if p.ordered && sorted && strings.HasPrefix(n.Index, "lines") {
			faults = append(faults, "all lines by "+n.Index+" are sorted before the limit")
		}
	}
	for _, below := range n.Plans {
		faults = append(faults, below.faults(p, sorted)...)
	}
	return faults
}

// What the plans promise, seen from outside: with 20 000 hidden lines in a game, a page and changes of it stay cheap.
func TestHiddenLinesCostAPageNothing(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.apply(t, g1.opened(at(0), feed.ModeBlind))
	s.exec(t, `
insert into lines (tenant, game, evt, ver, base_kv, base)
select 'acme', 'g1', $1::bigint + n, 1 + n, 1, '{"kind": "scored", "visibility": "score"}' from generate_series(1, 20000) as n`, int64(at(1)))
	s.exec(t, `update games set ver = 20001`)
	conn := s.owner(t)
	if _, err := conn.Exec(t.Context(), `set plan_cache_mode = force_generic_plan; set enable_seqscan = off`); err != nil {
		t.Fatal(err)
	}
	var text []byte
	args := (&PageQuery{Limit: 100}).args(g1.key())
	if err := conn.QueryRow(t.Context(), `explain (analyze, buffers, format json) `+olderSQL, args...).Scan(&text); err != nil {
		t.Fatal(err)
	}
	var explained []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal(text, &explained); err != nil {
		t.Fatal(err)
	}
	if touched := explained[0].Plan.Hit + explained[0].Plan.Read; touched > 50 {
		t.Errorf("a page of one line touched %d blocks", touched)
	}
}
