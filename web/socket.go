package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/coder/websocket"
	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"github.com/codemojex/feedrenderer/feed"
)

// socket is one WebSocket connection. A reader takes the client's frames; the pump alone writes and closes. The reader is
// a goroutine of its own, the pump one whenever there is something to write: the request's handler has returned, and a
// watcher at rest holds one stack.
type socket struct {
	*watcher
	server  *Server
	conn    *websocket.Conn
	label   string        // of the tenant in metrics: names are cheap to make up
	raw     *rawConn      // under conn: here is the deadline set, once for all frames of a flush, and here is the end forced
	pace    *rate.Limiter // of the client's frames
	misread int           // frames that were not understood; the reader's
	stop    []func()      // of ticks and probes
}

// live upgrades to a socket. Names that are well-formed always upgrade: what is refused is refused in frames.
func (s *Server) live(c echo.Context) error {
	tenant, err := feed.ParseTenantID(c.Param("tenant"))
	if err != nil {
		return errNoSuch
	}
	if s.draining.Load() {
		return errDraining
	}
	if err := s.accept(c, tenant); err != nil {
		s.log.Debug("no upgrade", "tenant", tenant, "err", err) // it is answered
	}
	return nil
}

// closeTime is how long a close frame may take to be written and answered. The library would wait longer; but an answer
// is a courtesy, and a process that ends has none to wait for.
const closeTime = 2 * time.Second

// accept upgrades a request and lets the socket run. A request that it refuses is answered.
func (s *Server) accept(c echo.Context, tenant feed.TenantID) error {
	r := c.Request()
	hijacked := &hijackWriter{Response: c.Response()}
	conn, err := websocket.Accept(hijacked, r, &websocket.AcceptOptions{
		OriginPatterns:  s.config.Origins,
		CompressionMode: websocket.CompressionDisabled, // with context takeover a client can crash a read pump
	})
	if err != nil {
		return fmt.Errorf("upgrade: %w", err)
	}
	conn.SetReadLimit(-1) // the reader has a limit of its own, which closes with our code
	sock := &socket{watcher: newWatcher(tenant, s.config.QueueBytes), server: s, conn: conn, label: "unknown", raw: hijacked.raw, pace: rate.NewLimiter(framesASecond, 2*maxGames)}
	if _, err := s.known(r.Context(), tenant); err == nil {
		sock.label = string(tenant)
	}
	full := s.greet(r.Context(), sock.watcher, callerOf(c), c.RealIP())
	if !s.outlets.add(sock.watcher, sock, sock.start) {
		s.unseat(sock.watcher)
		return conn.Close(closeDraining.code, closeDraining.reason)
	}
	var no *refusal
	if errors.As(full, &no) {
		sock.sendAway(no.after)
	}
	return nil
}

// start lets the socket run; finish is its end.
func (s *socket) start() {
	s.server.running.Add(1)
	s.server.meter.watchers.WithLabelValues(s.label, "socket").Inc()
	s.stop = []func(){s.server.ticking(s.watcher), repeat(s.server.config.Times.Probe, s.probe)}
	s.wake = func() { go s.write() }
	s.server.running.Go(s.read)
	go s.write()
}

// write pumps until nothing is left to be written, or until the end.
func (s *socket) write() {
	if why, ended, err := s.server.pump(s.watcher, s); ended {
		s.finish(why, err)
	}
}

// finish makes the end: with a code, or without where the connection is beyond one.
func (s *socket) finish(why closing, err error) {
	defer s.server.running.Done()
	meter := s.server.meter
	defer meter.watchers.WithLabelValues(s.label, "socket").Dec()
	s.leave()
	s.server.unseat(s.watcher)
	switch {
	case err == nil && why.code != 0:
		meter.closed(why)
		unanswered := time.AfterFunc(closeTime, s.force)
		err = s.conn.Close(why.code, why.reason)
		unanswered.Stop()
	case errors.Is(err, os.ErrDeadlineExceeded):
		meter.closed(closeSlow) // half a frame is written: no code can follow it
		err = s.conn.CloseNow()
	default:
		err = s.conn.CloseNow()
	}
	if err != nil {
		s.server.log.Debug("socket closed", "tenant", s.tenant, "code", int(why.code), "err", err)
	}
	for _, stop := range s.stop {
		stop()
	}
	s.server.outlets.remove(s.watcher)
}

// send writes frames by one system call.
func (s *socket) send(frames []frame) error {
	// It fails on a closed connection only, and so will the write that follows.
	if err := s.raw.SetWriteDeadline(time.Now().Add(s.server.config.Times.Write)); err != nil {
		s.server.log.Debug("no write deadline", "tenant", s.tenant, "err", err)
	}
	s.raw.hold()
	for _, f := range frames {
		if err := s.conn.Write(context.Background(), websocket.MessageText, f.bytes); err != nil {
			return errors.Join(err, s.raw.release())
		}
	}
	return s.raw.release()
}

// probe pings. A peer that is gone without a word is found out by its silence.
func (s *socket) probe() {
	ctx, cancel := context.WithTimeout(s.server.ctx, s.server.config.Times.Write)
	defer cancel()
	if err := s.conn.Ping(ctx); err != nil {
		s.watcher.close(closeSilent)
	}
}

func (s *socket) force() {
	if err := s.raw.Close(); err != nil {
		s.server.log.Debug("socket forced", "tenant", s.tenant, "err", err)
	}
}

// read takes the client's frames until the connection ends or one is unbearable.
func (s *socket) read() {
	for {
		why, ok := s.readOne()
		if !ok {
			s.watcher.close(why)
			return
		}
	}
}

// readOne takes a frame; not ok where it was the last one, with the code to close with, if any.
func (s *socket) readOne() (closing, bool) {
	kind, r, err := s.conn.Reader(context.Background())
	if err != nil {
		return closing{}, false
	}
	if kind != websocket.MessageText {
		return closeBinary, false
	}
	data, err := io.ReadAll(io.LimitReader(r, maxClientFrame+1))
	if err != nil {
		return closing{}, false
	}
	if len(data) > maxClientFrame {
		return closeTooLarge, false
	}
	if err := s.pace.Wait(s.server.ctx); err != nil { // who sends too fast is read more slowly
		return closing{}, false
	}
	in, err := parseClientFrame(data)
	if err != nil {
		if s.misread++; s.misread > maxMisread {
			return closeMalformed, false
		}
		s.say(errorFrame(errFrame, err.Error(), feed.GameID(shorten(in.Game))))
		return closing{}, true
	}
	s.obey(in)
	return closing{}, true
}

func (s *socket) obey(in clientFrame) {
	switch in.T {
	case "sub":
		s.server.subscribe(s.watcher, in)
	case "unsub":
		if before := s.remove(feed.GameID(in.Game)); before != nil {
			before.hub.leave(before)
		}
	case "ping":
		s.say(pongFrame)
	case "auth":
		s.server.authenticate(s.watcher, in.Token)
	case "operate":
		s.server.operate(s.watcher)
	}
}
