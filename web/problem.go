package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

// problem is an answer that is an error, as of RFC 9457.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

// badRequest is the client's fault; its text is for the client.
type badRequest string

func (e badRequest) Error() string { return string(e) }

// badParam names a parameter, what it was, and what is allowed.
func badParam(name, value, want string) error {
	return badRequest(fmt.Sprintf("%s %q: want %s", name, shorten(value), want))
}

// problemOf says what an error is to a client. Those of no kind known here stay ours.
func problemOf(err error) problem {
	var bad badRequest
	var no *refusal
	var he *echo.HTTPError
	switch {
	case errors.Is(err, errCredential):
		return problem{Status: http.StatusUnauthorized, Detail: errCredential.Error()}
	case errors.As(err, &no):
		return problem{Status: no.status, Detail: no.detail}
	case errors.As(err, &bad):
		return problem{Status: http.StatusBadRequest, Detail: string(bad)}
	case errors.Is(err, errNoSuch), errors.Is(err, timeline.ErrNotFound):
		return problem{Status: http.StatusNotFound, Detail: errNoSuch.Error()}
	case errors.Is(err, timeline.ErrEpoch):
		return problem{Status: http.StatusGone, Detail: "the cursor is not of this game's present epoch: start over from a snapshot"}
	case errors.Is(err, feed.ErrBadCursor):
		return problem{Status: http.StatusBadRequest, Detail: err.Error()}
	case errors.Is(err, errDraining):
		return problem{Status: http.StatusServiceUnavailable, Detail: err.Error()}
	case errors.Is(err, timeline.ErrBusy): // which Unavailable is true of too
		return problem{Status: http.StatusTooManyRequests, Detail: "other requests of the tenant take all that the store may do for it at once"}
	case timeline.Unavailable(err), errors.Is(err, context.DeadlineExceeded):
		return problem{Status: http.StatusServiceUnavailable, Detail: "the store is not available now"}
	case errors.As(err, &he) && he.Code == http.StatusNotFound:
		return problem{Status: http.StatusNotFound, Detail: errNoSuch.Error()}
	case errors.As(err, &he) && he.Code < 500:
		return problem{Status: he.Code}
	}
	return problem{Status: http.StatusInternalServerError}
}

var errDraining = errors.New("this server goes away: come back to another")

// answerError is the one place where an error becomes an answer.
func (s *Server) answerError(err error, c echo.Context) {
	if c.Response().Committed || errors.Is(c.Request().Context().Err(), context.Canceled) { // written, taken over by an upgrade, or nobody is there
		return
	}
	p := problemOf(err)
	p.Type, p.Title = "about:blank", http.StatusText(p.Status)
	switch {
	case errors.Is(err, errDraining):
	case p.Status == http.StatusServiceUnavailable:
		s.faults.warn("requests find no store", "route", c.Path(), "err", err)
	case p.Status >= 500:
		s.faults.say(slog.LevelError, "request failed", "method", c.Request().Method, "route", c.Path(), "status", p.Status, "err", err)
	}
	h := c.Response().Header()
	h.Del("ETag")
	h.Set("Cache-Control", "no-store")
	var no *refusal
	switch {
	case errors.As(err, &no) && no.after > 0:
		h.Set("Retry-After", seconds(no.after))
	case errors.Is(err, timeline.ErrBusy):
		h.Set("Retry-After", seconds(comeBack))
	case p.Status == http.StatusServiceUnavailable:
		h.Set("Retry-After", "1")
	case p.Status == http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	}
	if writeErr := s.writeProblem(c, p); writeErr != nil {
		s.log.Debug("error not answered", "route", c.Path(), "err", writeErr)
	}
}

// seconds is a Retry-After that is no sooner.
func seconds(after time.Duration) string { return strconv.Itoa(int(math.Ceil(after.Seconds()))) }

// writeProblem answers a page with a page, anything else with JSON.
func (s *Server) writeProblem(c echo.Context, p problem) error {
	if strings.Contains(c.Request().Header.Get("Accept"), "text/html") {
		return s.problemPage(c, p)
	}
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return c.Blob(p.Status, "application/problem+json", body)
}

// panicked logs what a handler died of, with its stack.
func (s *Server) panicked(c echo.Context, err error, stack []byte) error {
	s.faults.say(slog.LevelError, "handler panicked", "route", c.Path(), "err", err, "stack", string(stack))
	return err
}

// allowsOrigin reports whether a site's pages may read our answers.
func (s *Server) allowsOrigin(origin string) (bool, error) {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false, nil //nolint:nilerr // an origin that is none is not allowed
	}
	for _, pattern := range s.config.Origins {
		if ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(u.Scheme+"://"+u.Host)); err == nil && ok {
			return true, nil
		}
	}
	return false, nil
}
