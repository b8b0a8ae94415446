package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/coder/websocket"
	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/render"
)

// e2eStraight is the straight line, live: one goroutine reads all streams, writes an upsert, writes a frame for each line
// to its one watcher, and acknowledges with the next read.
func (r *rig) e2eStraight(ctx context.Context, games []feed.GameKey, group string) (side, error) {
	_, pool, drop, err := r.database(ctx)
	if err != nil {
		return side{}, err
	}
	for _, game := range games {
		if err := r.client.Do(ctx, r.client.B().XgroupCreate().Key(game.Stream()).Group(group).Id("0").Build()).Error(); err != nil {
			return side{}, errors.Join(err, drop())
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.URL.Path == "/readyz" {
			return
		}
		conn, err := websocket.Accept(w, request, nil)
		if err == nil {
			err = liveLoop(ctx, &trial{client: r.client, pool: pool, group: group, backlog: &backlog{games: games}}, conn)
		}
		ended <- err
	}))
	return side{strings.TrimPrefix(server.URL, "http://"), os.Getpid(), func() error {
		cancel()
		err := <-ended
		server.Close()
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		return errors.Join(err, drop())
	}}, nil
}

func liveLoop(ctx context.Context, t *trial, conn *websocket.Conn) error {
	kinds, err := render.LoadKinds("")
	if err != nil {
		return err
	}
	// The client subscribes to one game after the other; each gets the answer that lets it go on.
	for range t.backlog.games {
		_, text, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		var asked struct {
			G feed.GameID `json:"g"`
		}
		if err := json.Unmarshal(text, &asked); err != nil {
			return err
		}
		if err := sendLine(ctx, conn, "snap", asked.G, feed.View{Evt: 1}); err != nil {
			return err
		}
	}
	keys, newer := make([]string, len(t.backlog.games)), make([]string, len(t.backlog.games))
	for i, game := range t.backlog.games {
		keys[i], newer[i] = game.Stream(), ">"
	}
	read := t.client.B().Xreadgroup().Group(t.group, "straight").Count(straightBatch).Block(500).Streams().Key(keys...).Id(newer...).Build().Pin()
	for {
		reply, err := t.client.Do(ctx, read).AsXReadSlices()
		if valkey.IsValkeyNil(err) {
			continue
		}
		if err != nil {
			return err
		}
		acks, err := liveBatch(ctx, t, kinds, conn, reply)
		if err != nil {
			return err
		}
		for _, ack := range t.client.DoMulti(ctx, acks...) {
			if err := ack.Error(); err != nil {
				return err
			}
		}
	}
}

func liveBatch(ctx context.Context, t *trial, kinds *render.Kinds, conn *websocket.Conn, reply map[string][]valkey.XRangeSlice) ([]valkey.Completed, error) {
	rows := newRows(straightBatch)
	var lines []feed.Line
	var acks []valkey.Completed
	for stream, entries := range reply {
		ids := make([]string, len(entries))
		for i, entry := range entries {
			line, err := lineOf(kinds, stream, entry)
			if err != nil {
				return nil, err
			}
			if err := rows.add(&line); err != nil {
				return nil, err
			}
			lines, ids[i] = append(lines, line), entry.ID
		}
		acks = append(acks, t.client.B().Xack().Key(stream).Group(t.group).Id(ids...).Build())
	}
	if err := rows.upsert(ctx, t.pool); err != nil {
		return nil, err
	}
	for i := range lines {
		view := feed.Fold(lines[i].Evt, feed.ModeClassic, lines[i].Base, nil)
		if err := sendLine(ctx, conn, "lines", lines[i].Game.Game, view); err != nil {
			return nil, err
		}
	}
	return acks, nil
}

func sendLine(ctx context.Context, conn *websocket.Conn, kind string, game feed.GameID, line feed.View) error {
	text, err := json.Marshal(map[string]any{"t": kind, "g": game, "lines": []feed.View{line}})
	if err != nil {
		return err
	}
	return conn.Write(ctx, websocket.MessageText, text)
}
