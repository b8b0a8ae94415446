package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/codemojex/feedrenderer/web"
)

// listener is an address that answers.
type listener struct {
	address string // host:port, with the port that the system chose
	server  *http.Server
	done    chan struct{} // closed when the server no longer accepts
}

// listen answers on the address of a flag until closed.
func listen(ctx context.Context, flag, address string, handler http.Handler, log *slog.Logger) (*listener, error) {
	socket, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--%s ($%s): %w", flag, variable(flag), err)
	}
	l := &listener{address: socket.Addr().String(), server: web.NewHTTPServer(handler, log), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		if err := l.server.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
			log.Error("no longer listening", "address", l.address, "err", err)
		}
	}()
	return l, nil
}

// shutdown lets requests under way end, until the context ends.
func (l *listener) shutdown(ctx context.Context) error {
	err := l.server.Shutdown(ctx)
	<-l.done
	return err
}

// close ends all at once.
func (l *listener) close() {
	_ = l.server.Close() // of a listener that may be closed already
	<-l.done
}
