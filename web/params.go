package web

import (
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/codemojex/feedrenderer/feed"
)

// params reads the query of a request and keeps the first fault. What is read here shapes the answer, so it is part of
// its ETag.
type params struct {
	query url.Values
	err   error
}

// queryOf reads the query of a request. A part that is not percent-encoded right is a fault: leaving it out would answer
// another question than the one asked.
func queryOf(c echo.Context) params {
	query, err := url.ParseQuery(c.Request().URL.RawQuery)
	p := params{query: query}
	if err != nil {
		p.fail(badRequest("query: " + err.Error()))
	}
	return p
}

// maxText bounds the texts of a query, in bytes.
const maxText = 200

func (p *params) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

func (p *params) text(name string) string {
	value := p.query.Get(name)
	if len(value) > maxText || !utf8.ValidString(value) {
		p.fail(badParam(name, value, "UTF-8 of at most "+strconv.Itoa(maxText)+" bytes"))
	}
	for i := range len(value) {
		if value[i] == 0 {
			p.fail(badParam(name, value, "text without NUL"))
		}
	}
	return value
}

func (p *params) limit() int {
	value := p.query.Get("limit")
	if value == "" {
		return defaultLimit
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > maxLimit {
		p.fail(badParam("limit", value, "1 to "+strconv.Itoa(maxLimit)))
	}
	return n
}

func (p *params) evt(name string) *feed.ID {
	value := p.query.Get(name)
	if value == "" {
		return nil
	}
	id, err := feed.ParseID(value)
	if err != nil {
		p.fail(badParam(name, value, "an EVT id"))
	}
	return &id
}

func (p *params) time(name string) time.Time {
	value := p.query.Get(name)
	if value == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, value)
	if err != nil {
		p.fail(badParam(name, value, "a time as of RFC 3339"))
	}
	return t
}

func (p *params) status() feed.Status {
	switch status := feed.Status(p.query.Get("status")); status {
	case feed.StatusUnknown, feed.StatusGathering, feed.StatusOpen, feed.StatusRevealing, feed.StatusSettled, feed.StatusVoided:
		return status
	}
	p.fail(badParam("status", p.query.Get("status"), "gathering, open, revealing, settled or voided"))
	return ""
}

// duration reads a time to wait, such as 25s, up to a most.
func (p *params) duration(name string, most time.Duration) time.Duration {
	value := p.query.Get(name)
	if value == "" {
		return 0
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 || d > most {
		p.fail(badParam(name, value, "a duration up to "+most.String()))
	}
	return d
}

func (p *params) cursor(name string) feed.Cursor {
	value := p.query.Get(name)
	cursor, err := feed.ParseCursor(value)
	if err != nil {
		p.fail(badParam(name, value, "a cursor, <epoch>:<version>"))
	}
	return cursor
}

// tenant reads the tenant of the path. That the caller may come here was seen to by [Server.guard].
func (s *Server) tenant(c echo.Context) (feed.TenantID, error) {
	id, err := feed.ParseTenantID(c.Param("tenant"))
	if err != nil {
		return "", errNoSuch
	}
	return id, nil
}

// key reads the game of the path. Whether there is such a game is not asked.
func (s *Server) key(c echo.Context) (feed.GameKey, error) {
	game, err := feed.ParseGameID(c.Param("game"))
	if err != nil {
		return feed.GameKey{}, errNoSuch
	}
	tenant, err := s.tenant(c)
	return feed.GameKey{Tenant: tenant, Game: game}, err
}
