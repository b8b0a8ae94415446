package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/render"
)

// peerLoop is the pipeline that most people write: it reads some entries at a time, and for each one commits a row,
// publishes it and acknowledges it.
func peerLoop(ctx context.Context, r *trial, entries int) error {
	kinds, err := render.LoadKinds("")
	if err != nil {
		return err
	}
	const readAtATime = 100
	for done := 0; done < entries; {
		stream := r.backlog.games[done/readAtATime%len(r.backlog.games)].Stream()
		reply, err := r.client.Do(ctx, r.client.B().Xreadgroup().Group(r.group, "peer").Count(readAtATime).
			Streams().Key(stream).Id(">").Build()).AsXReadSlices()
		if err != nil {
			return err
		}
		for _, entry := range reply[stream] {
			if err := oneEntry(ctx, r, kinds, stream, entry); err != nil {
				return fmt.Errorf("entry %s of %s: %w", entry.ID, stream, err)
			}
			done++
		}
	}
	return nil
}

func oneEntry(ctx context.Context, r *trial, kinds *render.Kinds, stream string, entry valkey.XRangeSlice) error {
	line, err := lineOf(kinds, stream, entry)
	if err != nil {
		return err
	}
	row := newRows(1)
	if err := row.add(&line); err != nil {
		return err
	}
	if err := row.upsert(ctx, r.pool); err != nil {
		return err
	}
	message, err := json.Marshal(line.Base)
	if err != nil {
		return err
	}
	if err := r.client.Do(ctx, r.client.B().Publish().Channel(stream).Message(string(message)).Build()).Error(); err != nil {
		return err
	}
	return r.client.Do(ctx, r.client.B().Xack().Key(stream).Group(r.group).Id(entry.ID).Build()).Error()
}
