package timeline

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
)

func TestScratch(t *testing.T) {
	s := newStore(t)
	fmt.Println(s.apply(t, g1.opened(at(1), feed.ModeClassic), g1.scored(at(2), "ann", "50"), g1.corrects(at(3), at(2), map[string]string{"pct": "60"})))
	fmt.Printf("%+v\n", s.rows(t, g1.key()))
	fmt.Printf("%+v\n", s.game(t, g1.key()))
}


const plainSQL = `insert into lines as t (tenant, game, evt, ver, base_kv, public, modal, actor, points, base, base_raw)
select tenant, game, evt, evt, base_kv, public, modal, nullif(actor, ''), nullif(points, 'NaN'), base::jsonb, base_raw
from unnest($1::text[], $2::text[], $3::bigint[], $4::integer[], $5::boolean[], $6::boolean[], $7::text[], $8::double precision[], $9::text[], $10::bytea[])
 as l (tenant, game, evt, base_kv, public, modal, actor, points, base, base_raw)
on conflict (tenant, game, evt) do update set base_kv = excluded.base_kv, public = excluded.public, modal = excluded.modal, actor=excluded.actor,
points = excluded.points, base = excluded.base, base_raw = excluded.base_raw`

func BenchmarkApply(b *testing.B) {
	url := os.Getenv("BENCHDB")
	pool := openPool(b, url, RoleRender)
	w := NewWriter(pool)
	id := at(1)
	for _, n := range []int{1, 200} {
		gs := games(feed.TenantID(fmt.Sprintf("t%d", time.Now().UnixNano())), n)
		mk := func() []feed.Line {
			var ls []feed.Line
			for i := range 500 {
				id++
				l := gs[i%n].scored(id, fmt.Sprintf("player%d", i%37), "55")
				l.Raw = feed.Fields{{Name: "kind", Value: "scored"}, {Name: "player", Value: "player11"}, {Name: "pct", Value: "55"}, {Name: "guess", Value: "aa,bb,cc,dd,ee,ff"}}.Raw()
				ls = append(ls, l)
			}
			return ls
		}
		apply := func(ls []feed.Line) {
			if a, err := w.Apply(b.Context(), ls); err != nil || len(a.Rejected) > 0 {
				b.Fatal(a, err)
			}
		}
		plain := func(ls []feed.Line) {
			texts := make([]encoded, len(ls))
			var tenants, games []string
			var evts []int64
			var kvs []int32
			var public, modal []bool
			var actors, bases []string
			var points []float64
			var raws [][]byte
			for i := range ls {
				texts[i], _ = encode(&ls[i])
				tenants = append(tenants, string(ls[i].Game.Tenant))
				games = append(games, string(ls[i].Game.Game))
				evts = append(evts, int64(ls[i].Evt))
				kvs = append(kvs, 1)
				public = append(public, false)
				modal = append(modal, false)
				actors = append(actors, "player11")
				bases = append(bases, texts[i].base)
				points = append(points, 330)
				raws = append(raws, ls[i].Raw)
			}
			if _, err := pool.Exec(b.Context(), plainSQL, tenants, games, evts, kvs, public, modal, actors, points, bases, raws); err != nil {
				b.Fatal(err)
			}
		}
		apply(mk())
		plain(mk())
		b.Run(fmt.Sprintf("games=%d", n), func(b *testing.B) {
			var took [3]time.Duration
			for range b.N {
				fresh, other := mk(), mk()
				t0 := time.Now()
				apply(fresh)
				t1 := time.Now()
				plain(other)
				t2 := time.Now()
				apply(fresh)
				took[0] += t1.Sub(t0)
				took[1] += t2.Sub(t1)
				took[2] += time.Since(t2)
			}
			rate := func(i int) float64 { return float64(b.N*500) / took[i].Seconds() }
			b.ReportMetric(rate(0), "apply/s")
			b.ReportMetric(rate(1), "plain/s")
			b.ReportMetric(rate(2), "stale/s")
			b.ReportMetric(rate(0)/rate(1), "ratio")
			b.ReportMetric(rate(2)/rate(0), "staleratio")
		})
	}
}
