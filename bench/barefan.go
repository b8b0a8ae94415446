package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// bareFan is the barest server of sockets: each handler is blocked, a goroutine beside it reads, and whoever has a
// message writes it to one socket after the other.
type bareFan struct {
	server *httptest.Server
	mu     sync.Mutex
	conns  []*websocket.Conn // guarded by mu
}

func newBareFan() *bareFan {
	f := &bareFan{}
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return // the client sees it
		}
		f.mu.Lock()
		f.conns = append(f.conns, conn)
		f.mu.Unlock()
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			for {
				if _, _, err := conn.Read(context.Background()); err != nil {
					return
				}
			}
		}()
		<-gone
	}))
	return f
}

func (f *bareFan) listen() string { return strings.TrimPrefix(f.server.URL, "http://") }

// full waits until so many sockets are there.
func (f *bareFan) full(ctx context.Context, sockets int) error {
	for {
		f.mu.Lock()
		n := len(f.conns)
		f.mu.Unlock()
		if n == sockets {
			return nil
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d sockets: %w", n, sockets, err)
		}
	}
}

// broadcast writes one message to all.
func (f *bareFan) broadcast(ctx context.Context, message []byte) error {
	f.mu.Lock()
	conns := f.conns
	f.mu.Unlock()
	for _, conn := range conns {
		if err := conn.Write(ctx, websocket.MessageText, message); err != nil {
			return err
		}
	}
	return nil
}

func (f *bareFan) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conn := range f.conns {
		_ = conn.CloseNow() // most are closed by their client
	}
	f.server.Close()
}

// bareLine is a frame of one line of about the size that a scored line has.
func bareLine(version int) []byte {
	return fmt.Appendf(nil, `{"t":"lines","g":"fan","epoch":"e","from":%d,"to":%d,"lines":[%s]}`, version-1, version, barePayload)
}

const barePayload = `{"evt":"EVT0NfVGPXDswS","ver":1234,"kind":"scored","at":"2026-11-30T14:31:58.123Z","actor":"player17","text":"player17 scored 57 %",` +
	`"fields":{"eff":"334","pct":"57","player":"player17"},"icon":"dart","tone":"good","state":"live"}`
