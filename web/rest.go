package web

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/broadcast"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

// Timeline is what the server reads: the games, their lines, and what the hubs need.
type Timeline interface {
	games
	lines
	liveTable
	heads
}

// games reads headers. Errors wrap timeline.ErrNotFound where there is no such game.
type games interface {
	Game(ctx context.Context, game feed.GameKey) (feed.Game, error)
	Games(ctx context.Context, tenant feed.TenantID, q timeline.GamesQuery) ([]feed.Game, error)
	Head(ctx context.Context, game feed.GameKey) (timeline.Head, error)
}

// lines reads lines.
type lines interface {
	Page(ctx context.Context, game feed.GameKey, q timeline.PageQuery) (timeline.Page, error)
	Line(ctx context.Context, game feed.GameKey, evt feed.ID) (feed.View, error)
}

// games lists a tenant's games from the greatest id down, a page at a time: `after` is the last id of the page before.
func (s *Server) games(c echo.Context) error {
	tenant, err := s.tenant(c)
	if err != nil {
		return err
	}
	p := queryOf(c)
	q := timeline.GamesQuery{Status: p.status(), Limit: p.limit()}
	if after := p.text("after"); after != "" {
		if q.After, err = feed.ParseGameID(after); err != nil {
			p.fail(badParam("after", after, "the id of a game"))
		}
	}
	if p.err != nil {
		return p.err
	}
	limit := q.Limit
	q.Limit++ // one more tells whether there are more
	list, err := s.lists.of(c.Request().Context(), tenant, q)
	if err != nil {
		return err
	}
	more := len(list) > limit
	if more {
		list = list[:limit]
	}
	c.Response().Header().Set("Cache-Control", "no-cache")
	return c.JSON(http.StatusOK, struct {
		Games []feed.Game `json:"games"`
		More  bool        `json:"more"`
	}{orEmpty(list), more})
}

// header reads the game that is asked for. done says that the request is answered: the client has this version.
func (s *Server) header(c echo.Context) (game feed.Game, done bool, err error) {
	key, err := s.key(c)
	if err != nil {
		return feed.Game{}, false, err
	}
	if done, err = s.unchanged(c, key); done || err != nil {
		return feed.Game{}, done, err
	}
	game, err = s.lists.game(c.Request().Context(), key)
	return game, false, err
}

func (s *Server) game(c echo.Context) error {
	game, done, err := s.header(c)
	if done || err != nil {
		return err
	}
	return tagged(c, game.Cursor, game)
}

// board answers what is derived from a game's lines, without the rest of its header.
func (s *Server) board(c echo.Context) error {
	game, done, err := s.header(c)
	if done || err != nil {
		return err
	}
	return tagged(c, game.Cursor, struct {
		Game     feed.GameID       `json:"game"`
		Released bool              `json:"released"`
		Counts   feed.Counts       `json:"counts"`
		Board    []feed.BoardEntry `json:"board"`
		Cursor   feed.Cursor       `json:"cursor"`
	}{game.Game, game.Released, game.Counts, orEmpty(game.Board), game.Cursor})
}

// timeline answers a page of lines, newest first: those below `before`, those nearest above `after`, or the newest.
func (s *Server) timeline(c echo.Context) error {
	key, err := s.key(c)
	if err != nil {
		return err
	}
	p := queryOf(c)
	q := timeline.PageQuery{
		Before: p.evt("before"), After: p.evt("after"), Limit: p.limit(),
		Kind: p.text("kind"), Actor: p.text("actor"), Q: p.text("q"), From: p.time("from"), To: p.time("to"),
	}
	if q.Before != nil && q.After != nil {
		p.fail(badRequest("before and after: want one of them"))
	}
	if p.err != nil {
		return p.err
	}
	if done, err := s.unchanged(c, key); done || err != nil {
		return err
	}
	page, err := s.config.Timeline.Page(c.Request().Context(), key, q)
	if err != nil {
		return err
	}
	return tagged(c, page.Cursor, struct {
		Lines  []feed.View `json:"lines"`
		More   bool        `json:"more"` // in the direction that was asked for
		Cursor feed.Cursor `json:"cursor"`
	}{orEmpty(page.Lines), page.More, page.Cursor})
}

func (s *Server) line(c echo.Context) error {
	key, err := s.key(c)
	if err != nil {
		return err
	}
	evt, err := feed.ParseID(c.Param("evt"))
	if err != nil {
		return errNoSuch
	}
	if done, err := s.unchanged(c, key); done || err != nil {
		return err
	}
	// The head is read first: should the line change in between, its tag is too old, never too new.
	head, err := s.config.Timeline.Head(c.Request().Context(), key)
	if err != nil {
		return err
	}
	line, err := s.config.Timeline.Line(c.Request().Context(), key, evt)
	if err != nil {
		return err
	}
	return tagged(c, head.Cursor, line)
}

// maxWait is the longest that a poll waits: below the minute after which proxies cut.
const maxWait = 25 * time.Second

// changes answers what changed since a cursor, as a delta. With `wait` and nothing new it waits for the next change.
func (s *Server) changes(c echo.Context) error {
	key, err := s.key(c)
	if err != nil {
		return err
	}
	p := queryOf(c)
	since, limit, wait := p.cursor("since"), p.limit(), p.duration("wait", maxWait)
	if p.err != nil {
		return p.err
	}
	answer, err := s.changed(c.Request().Context(), key, since, limit)
	if err != nil {
		return err
	}
	if answer.To == since.Ver && wait > 0 && !s.draining.Load() {
		answer, err = s.await(c.Request().Context(), key, since, limit, wait)
		if err != nil {
			return err
		}
		if err := s.again(c); err != nil {
			return err
		}
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.JSON(http.StatusOK, answer)
}

// delta is the frame of that name, and whether there is more: then ask again at once, since epoch:to.
type delta struct {
	T     string            `json:"t"`
	Game  feed.GameID       `json:"g"`
	Epoch string            `json:"epoch"`
	From  int64             `json:"from"`
	To    int64             `json:"to"`
	Lines []json.RawMessage `json:"lines"`
	More  bool              `json:"more"`
}

func newDelta(game feed.GameID, since feed.Cursor, to int64, lines []broadcast.Line, more bool) delta {
	out := delta{"delta", game, since.Epoch, since.Ver, to, make([]json.RawMessage, len(lines)), more}
	for i := range lines {
		out.Lines[i] = lines[i].JSON
	}
	return out
}

// changed asks the table what changed.
func (s *Server) changed(ctx context.Context, key feed.GameKey, since feed.Cursor, limit int) (delta, error) {
	page, err := s.config.Timeline.Changes(ctx, key, since, limit)
	if err != nil {
		return delta{}, err
	}
	return newDelta(key.Game, since, page.To, encodeViews(page.Lines), page.More), nil
}

// await waits for what changes next. The hub remembers it, so that many who wait for the same cost no query each.
func (s *Server) await(ctx context.Context, key feed.GameKey, since feed.Cursor, limit int, wait time.Duration) (delta, error) {
	h := s.hubs.of(key)
	defer h.release()
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	defer context.AfterFunc(s.leaving, cancel)()
	h.await(waiting, since)
	if to, lines, ok := h.since(since); ok && len(lines) <= limit {
		return newDelta(key.Game, since, to, lines, false), nil
	}
	return s.changed(ctx, key, since, limit)
}

// orEmpty makes a list that is empty in JSON, never null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
