package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// crowd is many sockets that read as cheaply as a client can: of a frame they look at its type and its version, and
// throw the rest away. The readers share the machine with the server, so what they cost flatters nobody's ratio.
type crowd struct {
	conns    []net.Conn
	versions []atomic.Int64 // that each socket has got to; -1: it broke
	pace     atomic.Pointer[pace]
	loops    sync.WaitGroup
}

// pace notes how long lines took that were sent one at a time, each with a version of its own.
type pace struct {
	first int64          // version of the first line
	sent  []atomic.Int64 // of each line, in unix nanoseconds
	took  [][]float64    // of each socket, in ms, that of the lines it saw
}

func newPace(first int64, lines, sockets int) *pace {
	return &pace{first, make([]atomic.Int64, lines), make([][]float64, sockets)}
}

// saw notes a line in the hands of a socket.
func (p *pace) saw(socket int, version int64) {
	if n := version - p.first; n >= 0 && n < int64(len(p.sent)) {
		p.took[socket] = append(p.took[socket], float64(time.Now().UnixNano()-p.sent[n].Load())/1e6)
	}
}

const crowdBuffer = 16 << 10

// gather connects n sockets. Each says first at once, unless that is empty.
func gather(ctx context.Context, listen, path string, n int, first []byte) (*crowd, error) {
	c := &crowd{versions: make([]atomic.Int64, n)}
	for i := range n {
		conn, reader, err := upgrade(ctx, listen, path)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("socket %d: %w", len(c.conns)+1, err), c.close())
		}
		c.conns = append(c.conns, conn)
		c.loops.Go(func() { c.follow(i, reader) })
		if len(first) > 0 {
			if _, err := conn.Write(clientFrame(first)); err != nil {
				return nil, errors.Join(err, c.close())
			}
		}
	}
	return c, nil
}

func upgrade(ctx context.Context, listen, path string) (net.Conn, *bufio.Reader, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", listen)
	if err != nil {
		return nil, nil, err
	}
	reader := bufio.NewReaderSize(conn, crowdBuffer)
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", path, listen)
	if err == nil {
		var response *http.Response
		if response, err = http.ReadResponse(reader, nil); err == nil && response.StatusCode != http.StatusSwitchingProtocols {
			err = errors.New(response.Status)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, reader, nil
}

// clientFrame is a text frame under a mask of zeros.
func clientFrame(text []byte) []byte {
	b := []byte{0x81}
	if len(text) < 126 {
		b = append(b, 0x80|byte(len(text))) // #nosec G115 -- below 126
	} else {
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(len(text))) // #nosec G115 -- short
	}
	return append(append(b, 0, 0, 0, 0), text...)
}

func (c *crowd) follow(socket int, from *bufio.Reader) {
	reached := &c.versions[socket]
	for {
		version, err := readVersion(from)
		if err != nil {
			reached.Store(-1)
			return
		}
		if p := c.pace.Load(); p != nil {
			p.saw(socket, version)
		}
		if version > reached.Load() {
			reached.Store(version)
		}
	}
}

var errBroken = errors.New("a socket broke")

// until waits until every socket has got to a version.
func (c *crowd) until(ctx context.Context, version int64) error {
	for i := range c.versions {
		for got := c.versions[i].Load(); got < version; got = c.versions[i].Load() {
			if got < 0 {
				return errBroken
			}
			if err := pause(ctx, time.Millisecond); err != nil {
				return fmt.Errorf("socket %d stands at version %d, not %d: %w", i+1, got, version, err)
			}
		}
	}
	return nil
}

// say sends a frame from every socket.
func (c *crowd) say(text []byte) error {
	for _, conn := range c.conns {
		if _, err := conn.Write(clientFrame(text)); err != nil {
			return err
		}
	}
	return nil
}

func (c *crowd) close() error {
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	c.loops.Wait()
	return errors.Join(errs...)
}

var (
	versionMark = []byte(`"to":`)
	frameHeads  = [][]byte{[]byte(`{"t":"snap"`), []byte(`{"t":"delta"`), []byte(`{"t":"lines"`)}
)

// readVersion reads a frame and gives the version that it takes a watcher to; 0 where it takes it nowhere.
func readVersion(from *bufio.Reader) (int64, error) {
	head, err := from.Peek(2)
	if err != nil {
		return 0, err
	}
	opcode, size, skip := head[0]&0xf, int(head[1]&0x7f), 2
	switch size {
	case 126:
		skip = 4
	case 127:
		skip = 10
	}
	if head, err = from.Peek(skip); err != nil {
		return 0, err
	}
	switch skip {
	case 4:
		size = int(binary.BigEndian.Uint16(head[2:]))
	case 10:
		size = int(binary.BigEndian.Uint64(head[2:])) // #nosec G115 -- a frame's
	}
	if opcode == 8 {
		return 0, errBroken
	}
	start, err := from.Peek(skip + min(size, 240))
	if err != nil {
		return 0, err
	}
	version := int64(0)
	for _, mark := range frameHeads {
		if bytes.HasPrefix(start[skip:], mark) {
			version = versionIn(start[skip:])
		}
	}
	_, err = from.Discard(skip + size)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return version, err
}

func versionIn(frame []byte) int64 {
	at := bytes.Index(frame, versionMark)
	if at < 0 {
		return 0
	}
	digits := frame[at+len(versionMark):]
	end := bytes.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
	version, err := strconv.ParseInt(string(digits[:max(end, 0)]), 10, 64)
	if err != nil {
		return 0
	}
	return version
}
