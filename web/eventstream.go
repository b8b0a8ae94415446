package web

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/codemojex/feedrenderer/feed"
)

// stream carries the frames of one game as server-sent events. The id of an event is the cursor after it, so a browser
// that comes back resumes by itself.
func (s *Server) stream(c echo.Context) error {
	key, err := s.key(c)
	if err != nil {
		return err
	}
	p := queryOf(c)
	in := clientFrame{T: "sub", Game: string(key.Game), Limit: p.limit(), Since: p.text("since")}
	if p.err != nil {
		return p.err
	}
	if last := c.Request().Header.Get("Last-Event-ID"); last != "" {
		in.Since = last
	}
	if s.draining.Load() {
		return errDraining
	}
	// A stream of nothing would be reopened for ever; a page falls back to asking.
	if _, err := s.config.Timeline.Head(c.Request().Context(), key); err != nil {
		return err
	}
	events := &eventStream{w: c.Response(), control: http.NewResponseController(c.Response().Writer), times: s.config.Times}
	woken := make(chan struct{}, 1)
	w := newWatcher(key.Tenant, s.config.QueueBytes)
	w.wake = func() { woken <- struct{}{} }
	if err := s.greet(c.Request().Context(), w, callerOf(c), c.RealIP()); err != nil {
		return err
	}
	defer s.unseat(w)
	if !s.outlets.add(w, events, func() {}) {
		return errDraining
	}
	defer s.outlets.remove(w)
	gauge := s.meter.watchers.WithLabelValues(string(key.Tenant), "stream")
	gauge.Inc()
	defer gauge.Dec()
	defer w.leave()
	stop := context.AfterFunc(c.Request().Context(), func() { w.close(closing{}) })
	defer stop()

	h := c.Response().Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // proxies that gather answers would hold the frames back
	c.Response().WriteHeader(http.StatusOK)
	defer s.ticking(w)() // a peer that is gone without a word fails one of them
	s.subscribe(w, in)
	why, ended, err := s.pump(w, events)
	for !ended {
		<-woken
		why, ended, err = s.pump(w, events)
	}
	if err == nil && why.code != 0 {
		s.meter.closed(why)
	}
	if err != nil {
		s.log.Debug("event stream broke", "tenant", key.Tenant, "game", key.Game, "err", err)
	}
	return nil // the head of the answer is long gone
}

// eventStream writes frames as server-sent events.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	times   Times
	buffer  bytes.Buffer
}

func (e *eventStream) send(frames []frame) error {
	e.buffer.Reset()
	for i := range frames {
		f := &frames[i]
		if f.moves() {
			e.buffer.WriteString("id: ")
			e.buffer.WriteString(feed.Cursor{Epoch: f.epoch, Ver: f.to}.String())
			e.buffer.WriteByte('\n')
		}
		e.buffer.WriteString("data: ")
		e.buffer.Write(f.bytes)
		e.buffer.WriteString("\n\n")
	}
	if err := e.control.SetWriteDeadline(time.Now().Add(e.times.Write)); err != nil {
		return err
	}
	if _, err := e.w.Write(e.buffer.Bytes()); err != nil {
		return err
	}
	return e.control.Flush()
}

// force makes what is being written fail.
func (e *eventStream) force() {
	_ = e.control.SetWriteDeadline(time.Now()) // fails where it is closed already
}
