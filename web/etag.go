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

// unchanged answers 304 where the client names what it asks for by its tag: at the cost of one row. It says so by true.
// Only reading it tells whether there is anything that `*` would name: see tagged.
func (s *Server) unchanged(c echo.Context, key feed.GameKey) (bool, error) {
	held := heldBy(c)
	if held == "" || held == "*" {
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

// tagged answers what was found, or 304 where the client holds it.
func tagged(c echo.Context, at feed.Cursor, body any) error {
	tag := etag(c, at)
	cacheable(c, tag)
	if holds(heldBy(c), tag) {
		return c.NoContent(http.StatusNotModified)
	}
	return c.JSON(http.StatusOK, body)
}

func cacheable(c echo.Context, tag string) {
	c.Response().Header().Set("ETag", tag)
	c.Response().Header().Set("Cache-Control", "no-cache") // keep it, but ask
}

// heldBy is the If-None-Match of a request: `*`, or a list of tags.
func heldBy(c echo.Context) string {
	return strings.TrimSpace(c.Request().Header.Get("If-None-Match"))
}

// holds reports whether an If-None-Match names a tag of what is there.
func holds(list, tag string) bool {
	if list == "*" {
		return true
	}
	for held := range strings.SplitSeq(list, ",") {
		if strings.TrimPrefix(strings.TrimSpace(held), "W/") == tag {
			return true
		}
	}
	return false
}
