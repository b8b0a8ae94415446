package web

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
)

// rawConn is the connection under a socket. It stands in for the buffers of 4 kB each that a connection brings along from
// its time as HTTP: they would be the largest part of a watcher at rest. What a flush consists of is gathered in a buffer
// that is borrowed, and goes out by one system call.
type rawConn struct {
	net.Conn
	early []byte // what the client sent before the upgrade was answered; the reader's

	mu   sync.Mutex    // guards what follows, and keeps writes in order
	held *bytes.Buffer // nil: writes go out at once
}

const (
	rawReads  = 512     // bytes of the buffer in which frames of the client arrive
	rawWrites = 128     // bytes of the buffer before held: a control frame fits
	rawDirect = 8 << 10 // a write from this size on goes out without being copied
	rawKept   = 64 << 10
)

// controlTime is how long a frame that belongs to no flush may take to be written.
const controlTime = 10 * time.Second

// borrowed are the buffers of flushes.
var borrowed = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// hijackWriter keeps hold of the connection that the upgrade takes over.
type hijackWriter struct {
	*echo.Response
	raw *rawConn
}

func (h *hijackWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := http.NewResponseController(h.Response).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.raw = &rawConn{Conn: conn}
	if n := buffers.Reader.Buffered(); n > 0 {
		h.raw.early = make([]byte, n)
		if _, err := io.ReadFull(buffers.Reader, h.raw.early); err != nil {
			return nil, nil, err
		}
	}
	return h.raw, bufio.NewReadWriter(bufio.NewReaderSize(h.raw, rawReads), bufio.NewWriterSize(h.raw, rawWrites)), nil
}

func (w *rawConn) Read(p []byte) (int, error) {
	if len(w.early) > 0 {
		n := copy(p, w.early)
		w.early = w.early[n:]
		return n, nil
	}
	return w.Conn.Read(p)
}

func (w *rawConn) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.held == nil: // a ping, a pong or a close; the deadline of the last flush may have passed long ago
		if err := w.SetWriteDeadline(time.Now().Add(controlTime)); err != nil {
			return 0, err
		}
		return w.Conn.Write(p)
	case len(p) < rawDirect:
		return w.held.Write(p)
	}
	first := w.held.Len()
	both := net.Buffers{w.held.Bytes(), p}
	n, err := both.WriteTo(w.Conn)
	w.held.Reset()
	return max(int(n)-first, 0), err
}

// hold gathers what is written until release sends it. One goroutine calls the two.
func (w *rawConn) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = borrowed.Get().(*bytes.Buffer)
}

func (w *rawConn) release() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	held := w.held
	w.held = nil
	defer func() {
		if held.Cap() <= rawKept {
			held.Reset()
			borrowed.Put(held)
		}
	}()
	if held.Len() == 0 {
		return nil
	}
	_, err := w.Conn.Write(held.Bytes())
	return err
}
