package main

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
)

// trial is what a loop in this process works with.
type trial struct {
	client  valkey.Client
	pool    *pgxpool.Pool
	group   string
	backlog *backlog
}

const plainBatch = 500

const plainTable = `CREATE TABLE plain (tenant text COLLATE "C", game text COLLATE "C", evt bigint, kind text, line jsonb, PRIMARY KEY (tenant, game, evt))`

const plainUpsert = `
INSERT INTO plain SELECT 'bench', * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::jsonb[])
ON CONFLICT (tenant, game, evt) DO UPDATE SET kind = excluded.kind, line = excluded.line`

// plainLoop is the loop that anybody would write first: read a batch of all streams, upsert it, acknowledge it. It knows
// no kinds, versions, visibility or watchers.
func plainLoop(ctx context.Context, r *trial, entries int) error {
	games := r.backlog.games
	keys, newer := make([]string, len(games)), make([]string, len(games))
	byStream := make(map[string]feed.GameKey, len(games))
	for i, game := range games {
		keys[i], newer[i], byStream[game.Stream()] = game.Stream(), ">", game
	}
	for done := 0; done < entries; {
		reply, err := r.client.Do(ctx, r.client.B().Xreadgroup().Group(r.group, "plain").Count(int64(plainBatch/len(games))).
			Streams().Key(keys...).Id(newer...).Build()).AsXReadSlices()
		if err != nil {
			return err
		}
		n, err := plainly(ctx, r, byStream, reply)
		if err != nil {
			return err
		}
		done += n
	}
	return nil
}

// plainly turns one reply into rows, writes them in one upsert and acknowledges them in one pipeline.
func plainly(ctx context.Context, r *trial, games map[string]feed.GameKey, reply map[string][]valkey.XRangeSlice) (int, error) {
	var (
		names, kinds []string
		evts         []int64
		lines        [][]byte
		acks         []valkey.Completed
	)
	for stream, entries := range reply {
		ids := make([]string, len(entries))
		for i, entry := range entries {
			id, err := feed.IDOfEntry(entry.ID)
			if err != nil {
				return 0, err
			}
			fields := make(map[string]string, len(entry.FieldValues))
			for _, f := range entry.FieldValues {
				fields[f.Field] = f.Value
			}
			line, err := json.Marshal(fields)
			if err != nil {
				return 0, err
			}
			ids[i], names, kinds = entry.ID, append(names, string(games[stream].Game)), append(kinds, fields["kind"])
			evts, lines = append(evts, int64(id)), append(lines, line)
		}
		acks = append(acks, r.client.B().Xack().Key(stream).Group(r.group).Id(ids...).Build())
	}
	if _, err := r.pool.Exec(ctx, plainUpsert, names, evts, kinds, lines); err != nil {
		return 0, err
	}
	for _, ack := range r.client.DoMulti(ctx, acks...) {
		if err := ack.Error(); err != nil {
			return 0, err
		}
	}
	return len(evts), nil
}
