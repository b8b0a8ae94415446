package main

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
)

// plainBatch turns one reply into rows, without kinds, versions or visibility, writes them in one upsert and
// acknowledges them in one pipeline.
func plainBatch(ctx context.Context, rig *rig, pool *pgxpool.Pool, group string, games map[string]feed.GameKey, reply map[string][]valkey.XRangeSlice) (int, error) {
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
		acks = append(acks, rig.client.B().Xack().Key(stream).Group(group).Id(ids...).Build())
	}
	if _, err := pool.Exec(ctx, plainUpsert, names, evts, kinds, lines); err != nil {
		return 0, err
	}
	for _, ack := range rig.client.DoMulti(ctx, acks...) {
		if err := ack.Error(); err != nil {
			return 0, err
		}
	}
	return len(evts), nil
}
