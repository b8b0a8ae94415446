package consumer

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"github.com/valkey-io/valkey-go"
)

// wires are the connections of a consumer, for as long as its current context lasts: then they are cut, which ends every
// command that waits for a server that does not answer, and none is made. A command by itself ends with its reply, or after
// Options.ConnWriteTimeout.
type wires struct {
	mu sync.Mutex
	// Guarded by mu:
	ctx  context.Context
	stop func() bool // ends the watch over ctx
	open map[*wire]bool
}

func newWires(ctx context.Context) *wires {
	w := &wires{open: map[*wire]bool{}}
	w.until(ctx)
	return w
}

// until makes ctx the current context.
func (w *wires) until(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop != nil {
		w.stop()
	}
	w.ctx = ctx
	w.stop = context.AfterFunc(ctx, func() { w.cut(ctx) })
}

// cut closes all connections, unless ctx is not the current context any more.
func (w *wires) cut(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx != ctx {
		return
	}
	for c := range w.open {
		_ = c.Conn.Close() // whoever uses it is told by its next call
	}
	clear(w.open)
}

// option has a client dial through w.
func (w *wires) option(opt valkey.ClientOption) valkey.ClientOption {
	own := opt.DialCtxFn
	opt.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		w.mu.Lock()
		current := w.ctx
		w.mu.Unlock()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(current, cancel)()
		var conn net.Conn
		var err error
		switch {
		case own != nil:
			conn, err = own(ctx, address, dialer, config)
		case opt.DialFn != nil: //nolint:staticcheck // deprecated, but whoever sets it means it
			conn, err = opt.DialFn(address, dialer, config) //nolint:staticcheck // likewise
		case config != nil:
			conn, err = (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", address)
		default:
			conn, err = dialer.DialContext(ctx, "tcp", address)
		}
		if err != nil {
			return nil, err
		}
		return w.add(&wire{Conn: conn, w: w})
	}
	return opt
}

func (w *wires) add(c *wire) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.ctx.Err(); err != nil {
		_ = c.Conn.Close() // nobody has used it
		return nil, err
	}
	w.open[c] = true
	return c, nil
}

// wire is one connection.
type wire struct {
	net.Conn
	w *wires
}

func (c *wire) Close() error {
	c.w.mu.Lock()
	delete(c.w.open, c)
	c.w.mu.Unlock()
	return c.Conn.Close()
}
