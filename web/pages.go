package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"math/rand/v2"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

//go:embed static templates
var files embed.FS

// asset is a file of /static/.
type asset struct {
	body []byte
	kind string // media type
	etag string // by content
}

func newAsset(body []byte, kind string) asset {
	sum := sha256.Sum256(body)
	return asset{body, kind, `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
}

// embedded reads the pages and the files they need out of the binary.
func embedded() (*template.Template, map[string]asset, error) {
	pages, err := template.ParseFS(files, "templates/*.html")
	if err != nil {
		return nil, nil, fmt.Errorf("parse templates: %w", err)
	}
	assets := map[string]asset{}
	err = fs.WalkDir(files, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		assets[strings.TrimPrefix(name, "static/")] = newAsset(body, mediaType(name))
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read static files: %w", err)
	}
	return pages, assets, nil
}

// mediaType does not ask the system's tables for what browsers are strict about.
func mediaType(name string) string {
	switch path.Ext(name) {
	case ".js", ".mjs":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".html":
		return "text/html; charset=utf-8"
	case ".txt", ".md":
		return "text/plain; charset=utf-8"
	}
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	return "application/octet-stream"
}

// asset serves a file. Any site may import our modules, so all may read them.
func (s *Server) asset(c echo.Context) error {
	file, ok := s.static[c.Param("*")]
	if !ok {
		return errNoSuch
	}
	h := c.Response().Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	return serveAsset(c, file)
}

func serveAsset(c echo.Context, file asset) error {
	cacheable(c, file.etag)
	if holds(heldBy(c), file.etag) {
		return c.NoContent(http.StatusNotModified)
	}
	return c.Blob(http.StatusOK, file.kind, file.body)
}

// Reserved reports whether a tenant of this name has no pages, its address being one of ours. Its API is whole.
func Reserved(tenant feed.TenantID) bool {
	return slices.Contains([]feed.TenantID{"v1", "static", "healthz", "readyz", "docs"}, tenant)
}

// pageTenant reads the tenant of a page's address.
func (s *Server) pageTenant(c echo.Context) (feed.TenantID, error) {
	tenant, err := s.tenant(c)
	if err == nil && Reserved(tenant) {
		err = errNoSuch
	}
	return tenant, err
}

func (s *Server) front(c echo.Context) error {
	switch len(s.config.Front) {
	case 0:
		return errNoSuch
	case 1:
		return c.Redirect(http.StatusFound, "/"+string(s.config.Front[0])+"/")
	}
	return s.page(c, "front.html", s.config.Front)
}

func (s *Server) toLobby(c echo.Context) error {
	tenant, err := s.pageTenant(c)
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusMovedPermanently, "/"+string(tenant)+"/")
}

// lobbyGames is how many games a lobby shows before its script runs.
const lobbyGames = 100

func (s *Server) lobbyPage(c echo.Context) error {
	tenant, err := s.pageTenant(c)
	if err != nil {
		return err
	}
	list, err := s.lists.of(c.Request().Context(), tenant, timeline.GamesQuery{Limit: lobbyGames})
	if err != nil {
		return err
	}
	return s.page(c, "lobby.html", lobbyPage{Tenant: tenant, Games: list})
}

// lobbyPage is what the page of a tenant's games is made of; the zero one is closed.
type lobbyPage struct {
	Tenant feed.TenantID
	Title  string
	Games  []feed.Game
}

func (s *Server) feedPage(c echo.Context) error {
	if _, err := s.pageTenant(c); err != nil {
		return err
	}
	key, err := s.key(c)
	if err != nil {
		return err
	}
	// What the page's script reads off the address too, so that a page without scripts shows the same.
	p := queryOf(c)
	q := timeline.PageQuery{Before: p.evt("before"), Limit: defaultLimit, Kind: p.text("kind"), Actor: p.text("actor"), Q: p.text("q")}
	if p.err != nil {
		return p.err
	}
	ctx := c.Request().Context()
	game, err := s.lists.game(ctx, key)
	if errors.Is(err, timeline.ErrNotFound) { // a game that is not there yet is waited for by the page
		return s.page(c, "feed.html", feedPage{Tenant: key.Tenant, Game: key.Game})
	} else if err != nil {
		return err
	}
	lines, err := s.config.Timeline.Page(ctx, key, q)
	if err != nil {
		return err
	}
	out := feedPage{Tenant: key.Tenant, Game: key.Game, Title: game.Title, Lines: lines.Lines}
	if lines.More {
		query := c.QueryParams()
		query.Set("before", lines.Lines[len(lines.Lines)-1].Evt.String())
		out.Older = "?" + query.Encode()
	}
	return s.page(c, "feed.html", out)
}

// feedPage is what the page of a feed is made of; the zero one is closed.
type feedPage struct {
	Tenant feed.TenantID
	Game   feed.GameID
	Title  string
	Lines  []feed.View // newest first
	Older  string      // the address of the lines below, "" where there are none
}

func (s *Server) page(c echo.Context, name string, data any) error {
	out, err := s.render(name, data)
	if err != nil {
		return err
	}
	c.Response().Header().Set("Cache-Control", "no-cache")
	return c.HTMLBlob(http.StatusOK, out)
}

// render renders into memory: half a page is no answer.
func (s *Server) render(name string, data any) ([]byte, error) {
	var out bytes.Buffer
	if err := s.pages.ExecuteTemplate(&out, name, data); err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// problemPage is a problem as a browser shows it. Where a page of ours might stand, whatever anybody may not watch is
// answered by the closed page, which says nothing of what was asked for: its script takes a watch token. A browser's
// navigation can carry none.
func (s *Server) problemPage(c echo.Context, p problem) error {
	name, data := "problem.html", any(struct {
		problem
		Again int // seconds until the browser asks again by itself, 0 for never
	}{p, reloadAfter(c, p.Status)})
	if p.Status == http.StatusNotFound {
		switch closed := closedPage(c); closed {
		case "feed.html":
			name, data = closed, feedPage{}
		case "lobby.html":
			name, data = closed, lobbyPage{}
		}
	}
	out, err := s.render(name, data)
	if err != nil {
		return err
	}
	return c.HTMLBlob(p.Status, out)
}

// closedPage names the page that stands closed at a well-formed address of one, "" where no page could stand.
func closedPage(c echo.Context) string {
	key, err := pathKey(c)
	if err != nil || key.Tenant == "" || Reserved(key.Tenant) {
		return ""
	}
	switch c.Path() {
	case "/:tenant", "/:tenant/":
		return "lobby.html"
	case "/:tenant/:game":
		return "feed.html"
	}
	return ""
}

// reloadAfter is when a browser is to ask again for what will be there later: not all of them at once.
func reloadAfter(c echo.Context, status int) int {
	if status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests {
		return 0
	}
	after, err := strconv.Atoi(c.Response().Header().Get("Retry-After"))
	if err != nil {
		after = 1
	}
	return after + 2 + rand.IntN(7) //nolint:gosec // a spread, not a secret
}
