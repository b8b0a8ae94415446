package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/render"
)

const straightBatch = 500

// straightLoop is the straight line: in one goroutine the cheapest read (one stream after the other, 500 entries at a
// time, the last acknowledgement in the same round trip), the product's own decoding and rendering, and one upsert into
// the product's own table, with its indexes and in its order, but without versions, stale test or games. It neither
// rings nor reclaims, and live it would starve all games but one.
func straightLoop(ctx context.Context, r *trial, entries int) error {
	kinds, err := render.LoadKinds("")
	if err != nil {
		return err
	}
	done := 0
	for _, game := range r.backlog.games {
		stream := game.Stream()
		read := func() valkey.Completed {
			return r.client.B().Xreadgroup().Group(r.group, "straight").Count(straightBatch).Streams().Key(stream).Id(">").Build()
		}
		next := []valkey.Completed{read()}
		for {
			replies := r.client.DoMulti(ctx, next...)
			reply, err := replies[len(replies)-1].AsXReadSlices()
			if valkey.IsValkeyNil(err) {
				break
			}
			if err != nil {
				return err
			}
			ids := make([]string, 0, straightBatch)
			rows := newRows(straightBatch)
			for _, entry := range reply[stream] {
				line, err := lineOf(kinds, stream, entry)
				if err != nil {
					return err
				}
				if err := rows.add(&line); err != nil {
					return err
				}
				ids = append(ids, entry.ID)
			}
			if err := rows.upsert(ctx, r.pool); err != nil {
				return err
			}
			done += len(ids)
			next = []valkey.Completed{r.client.B().Xack().Key(stream).Group(r.group).Id(ids...).Build(), read()}
		}
	}
	if done != entries {
		return fmt.Errorf("%d of %d entries", done, entries)
	}
	return nil
}

// rows are lines as columns of the product's table.
type rows struct {
	tenants, games []string
	evts           []int64
	versions       []int32
	public         []bool
	actors         []string
	points         []*float64
	bases          []string
	raws           [][]byte
}

func newRows(n int) *rows {
	return &rows{
		make([]string, 0, n), make([]string, 0, n), make([]int64, 0, n), make([]int32, 0, n), make([]bool, 0, n),
		make([]string, 0, n), make([]*float64, 0, n), make([]string, 0, n), make([][]byte, 0, n),
	}
}

// The version, which must differ from line to line, is the id: nobody counts it.
const rowsUpsert = `
INSERT INTO lines AS t (tenant, game, evt, ver, base_kv, public, actor, points, base, base_raw)
SELECT tenant, game, evt, evt, base_kv, public, nullif(actor, ''), points, base::jsonb, base_raw
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::integer[], $5::boolean[], $6::text[], $7::double precision[], $8::text[], $9::bytea[])
  AS r (tenant, game, evt, base_kv, public, actor, points, base, base_raw)
ON CONFLICT (tenant, game, evt) DO UPDATE SET base_kv = excluded.base_kv, public = excluded.public, actor = excluded.actor,
  points = excluded.points, base = excluded.base, base_raw = excluded.base_raw`

func (r *rows) add(line *feed.Line) error {
	base, err := json.Marshal(line.Base)
	if err != nil {
		return err
	}
	var points *float64
	if n, ok := feed.Points(feed.ModeUnknown, line.Base, nil); ok {
		points = &n
	}
	r.tenants, r.games = append(r.tenants, string(line.Game.Tenant)), append(r.games, string(line.Game.Game))
	r.evts, r.versions = append(r.evts, int64(line.Evt)), append(r.versions, int32(line.KindVersion)) // #nosec G115 -- 1
	r.public = append(r.public, line.Base.Visibility == feed.Public)
	r.actors, r.points = append(r.actors, line.Base.Fields[line.Base.Actor]), append(r.points, points)
	r.bases, r.raws = append(r.bases, string(base)), append(r.raws, line.Raw)
	return nil
}

func (r *rows) upsert(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, rowsUpsert, r.tenants, r.games, r.evts, r.versions, r.public, r.actors, r.points, r.bases, r.raws)
	return err
}

func lineOf(kinds *render.Kinds, stream string, entry valkey.XRangeSlice) (feed.Line, error) {
	event, err := feed.Decode(stream, entry.ID, fieldsOf(entry))
	if err != nil {
		return feed.Line{}, err
	}
	line, _, err := kinds.Render(event)
	return line, err
}

func fieldsOf(entry valkey.XRangeSlice) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, f := range entry.FieldValues {
			if !yield(f.Field, f.Value) {
				return
			}
		}
	}
}
