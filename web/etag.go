package web

import (
	"encoding/base64"
	"hash/fnv"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/codemojex/feedrenderer/feed"
)

// etag names an answer: the state of the game that it is of, and everything that shapes it, the path and the query.
func etag(c echo.Context, at feed.Cursor) string {
	shape := fnv.New64a()
	shape.Write([]byte(c.Request().URL.Path)) // a hash takes all
	shape.Write([]byte{0})
	shape.Write([]byte(c.QueryParams().Encode())) // sorted by name
	return `"` + at.String() + "." + base64.RawURLEncoding.EncodeToString(shape.Sum(nil)) + `"`
}

// unchanged answers 304 where the client already holds what it asks for: at the cost of one row. It says so by true.
func (s *Server) unchanged(c echo.Context, key feed.GameKey) (bool, error) {
	held := c.Request().Header.Get("If-None-Match")
	if held == "" {
		return false, nil
	}
	head, err := s.config.Timeline.Head(c.Request().Context(), key)
	if err != nil {
		return false, err
	}
	tag := etag(c, head.Cursor)
	if !holds(held, tag) {
		return false, nil
	}
	cacheable(c, tag)
	return true, c.NoContent(http.StatusNotModified)
}

func cacheable(c echo.Context, tag string) {
	c.Response().Header().Set("ETag", tag)
	c.Response().Header().Set("Cache-Control", "no-cache") // keep it, but ask
}

// holds reports whether an If-None-Match names a tag.
func holds(list, tag string) bool {
	for held := range strings.SplitSeq(list, ",") {
		held = strings.TrimPrefix(strings.TrimSpace(held), "W/")
		if held == tag || held == "*" {
			return true
		}
	}
	return false
}
