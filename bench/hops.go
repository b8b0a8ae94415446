package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
)

// hops are the round trips that one entry needs on its way to a watcher, each as bare as it can be: XADD to a blocked
// XREADGROUP, the commit of a row, a publication to its subscriber, a socket frame to its reader.
type hops struct {
	client  valkey.Client
	pool    *pgxpool.Pool
	source  *source
	read    chan error // of XREADGROUP, one for each entry
	heard   chan string
	server  *httptest.Server
	sockets chan *websocket.Conn
	socket  *websocket.Conn // the server's end
	reader  *websocket.Conn // the client's
	stop    context.CancelFunc
	loops   sync.WaitGroup
}

const hopsStream, hopsGroup, hopsChannel = "bench:{hops}", "hops", "bench:{hops}:channel"

func newHops(ctx context.Context, r *rig, pool *pgxpool.Pool) (*hops, error) {
	source, err := newSource()
	if err != nil {
		return nil, err
	}
	client := r.client
	if err := client.Do(ctx, client.B().XgroupCreate().Key(hopsStream).Group(hopsGroup).Id("$").Mkstream().Build()).Error(); err != nil {
		return nil, err
	}
	h := &hops{client: client, pool: pool, source: source, read: make(chan error), heard: make(chan string), sockets: make(chan *websocket.Conn)}
	h.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		conn, err := websocket.Accept(w, request, nil)
		if err != nil {
			return // the client sees it
		}
		h.sockets <- conn
		<-conn.CloseRead(context.WithoutCancel(request.Context())).Done()
	}))
	h.reader, _, err = websocket.Dial(ctx, strings.Replace(h.server.URL, "http", "ws", 1), nil) //nolint:bodyclose // the library closes it
	if err != nil {
		h.server.Close()
		return nil, err
	}
	h.socket = <-h.sockets
	loops, stop := context.WithCancel(ctx)
	h.stop = stop
	h.loops.Go(func() {
		for loops.Err() == nil {
			err := client.Do(loops, client.B().Xreadgroup().Group(hopsGroup, "hops").Count(10).Block(1000).Streams().Key(hopsStream).Id(">").Build()).Error()
			if valkey.IsValkeyNil(err) {
				continue
			}
			select {
			case h.read <- err:
			case <-loops.Done():
			}
		}
	})
	subscribed := make(chan struct{}, 1)
	listening := valkey.WithOnSubscriptionHook(loops, func(valkey.PubSubSubscription) {
		select {
		case subscribed <- struct{}{}:
		default:
		}
	})
	h.loops.Go(func() {
		// Were it to end early, the next trip would find its message missing.
		_ = client.Receive(listening, client.B().Ssubscribe().Channel(hopsChannel).Build(), func(message valkey.PubSubMessage) {
			select {
			case h.heard <- message.Message:
			case <-loops.Done():
			}
		})
	})
	select {
	case <-subscribed:
	case <-time.After(latencyLimit):
		return nil, errors.Join(errors.New("no answer to a subscription"), h.close())
	}
	return h, nil
}

func (h *hops) close() error {
	h.stop()
	h.loops.Wait()
	err := h.reader.CloseNow()
	h.server.Close()
	return err
}

// trip makes each round trip once, one after the other, and reports them.
func (h *hops) trip(ctx context.Context, report *report) error {
	lines, err := h.source.lines(1, 1)
	if err != nil {
		return err
	}
	row := newRows(1)
	if err := row.add(&lines[0]); err != nil {
		return err
	}
	total := 0.0
	for _, hop := range []struct {
		name string
		make func() error
	}{
		{"XADD to a blocked XREADGROUP", func() error {
			if err := appendTo(ctx, h.client, hopsStream, score(1)); err != nil {
				return err
			}
			return received(ctx, h.read, func(err error) error { return err })
		}},
		{"commit of a row", func() error { return row.upsert(ctx, h.pool) }},
		{"SPUBLISH to a subscriber", func() error {
			if err := h.client.Do(ctx, h.client.B().Spublish().Channel(hopsChannel).Message(row.bases[0]).Build()).Error(); err != nil {
				return err
			}
			return received(ctx, h.heard, func(string) error { return nil })
		}},
		{"socket frame to its reader", func() error {
			if err := h.socket.Write(ctx, websocket.MessageText, []byte(row.bases[0])); err != nil {
				return err
			}
			_, _, err := h.reader.Read(ctx)
			return err
		}},
	} {
		began := time.Now()
		if err := hop.make(); err != nil {
			return fmt.Errorf("%s: %w", hop.name, err)
		}
		ms := time.Since(began).Seconds() * 1000
		report.add("one entry, bare: "+hop.name, "ms", ms)
		total += ms
	}
	report.add(idleHops, "ms", total)
	return nil
}

func received[T any](ctx context.Context, from <-chan T, check func(T) error) error {
	select {
	case got := <-from:
		return check(got)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func appendTo(ctx context.Context, client valkey.Client, stream string, fields feed.Fields) error {
	add := client.B().Xadd().Key(stream).Id("*").FieldValue()
	for name, value := range fields.All() {
		add = add.FieldValue(name, value)
	}
	return client.Do(ctx, add.Build()).Error()
}
