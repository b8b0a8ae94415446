package web

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	glog "github.com/labstack/gommon/log"
)

// route is a line of the list of all routes.
type route struct {
	method, path string
	handle       echo.HandlerFunc
}

// public lists what anybody may ask for. A GET answers HEAD too.
//
// The first segments v1, static, healthz and readyz are ours: a tenant of such a name has no pages, but all of its API.
func (s *Server) public() []route {
	const tenant = "/v1/tenants/:tenant"
	const game = tenant + "/games/:game"
	return []route{
		{http.MethodGet, "/", s.front},
		{http.MethodGet, "/healthz", s.healthz},
		{http.MethodGet, "/readyz", s.readyz(false)},
		{http.MethodGet, "/static/*", s.asset},
		{http.MethodGet, "/:tenant", s.toLobby},
		{http.MethodGet, "/:tenant/", s.lobbyPage},
		{http.MethodGet, "/:tenant/:game", s.feedPage},

		{http.MethodGet, tenant + "/live", s.live},
		{http.MethodGet, tenant + "/games", s.games},
		{http.MethodGet, game, s.game},
		{http.MethodGet, game + "/timeline", s.timeline},
		{http.MethodGet, game + "/changes", s.changes},
		{http.MethodGet, game + "/lines/:evt", s.line},
		{http.MethodGet, game + "/stream", s.stream},
	}
}

// private lists what only operators may ask for: it belongs on a listener that nobody else reaches.
func (s *Server) private() []route {
	list := []route{
		{http.MethodGet, "/healthz", s.healthz},
		{http.MethodGet, "/readyz", s.readyz(true)},
		{http.MethodGet, "/metrics", s.metrics()},
		{http.MethodGet, "/debug/pprof/*", pprofIndex},
		{http.MethodGet, "/debug/pprof/cmdline", pprofCmdline},
		{http.MethodGet, "/debug/pprof/profile", pprofProfile},
		{http.MethodGet, "/debug/pprof/symbol", pprofSymbol},
		{http.MethodGet, "/debug/pprof/trace", pprofTrace},
	}
	if s.config.SetMode != nil {
		list = append(list, route{http.MethodPost, "/v1/tenants/:tenant/games/:game/mode", s.mode})
	}
	return list
}

// Public is the handler for everybody.
func (s *Server) Public() http.Handler { return s.handler(s.public()) }

// Private is the handler for operators: metrics, profiles, and the routes that change something.
func (s *Server) Private() http.Handler { return s.handler(s.private()) }

func (s *Server) handler(list []route) http.Handler {
	e := echo.New()
	e.HTTPErrorHandler = s.answerError
	e.IPExtractor = echo.ExtractIPDirect() // no header of a stranger says who he is
	e.Logger.SetLevel(glog.OFF)            // what is worth a word goes through slog
	e.Use(s.observe, headers, bounded, middleware.RecoverWithConfig(middleware.RecoverConfig{LogErrorFunc: s.panicked}))
	if len(s.config.Origins) > 0 {
		e.Use(middleware.CORSWithConfig(s.cors()))
	}
	for _, r := range list {
		e.Add(r.method, r.path, r.handle)
		if r.method == http.MethodGet && !strings.HasSuffix(r.path, "/live") && !strings.HasSuffix(r.path, "/stream") {
			e.Add(http.MethodHead, r.path, r.handle)
		}
	}
	return e
}

// policy forbids whatever the pages do not need, inline scripts and styles above all.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func headers(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		return next(c)
	}
}

// observe times requests, answers their errors, and lets no error go further: after an upgrade there is nobody to write to.
func (s *Server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := time.Now()
		if err := next(c); err != nil {
			c.Error(err)
		}
		if !strings.HasSuffix(c.Path(), "/live") && !strings.HasSuffix(c.Path(), "/stream") {
			s.meter.requests.WithLabelValues(method(c.Request().Method), c.Path(), status(c.Response().Status)).Observe(time.Since(start).Seconds())
		}
		return nil
	}
}

// answerTime is the longest that an answer may take, waiting for changes aside.
const answerTime = 10 * time.Second

// bounded ends what takes too long: a store that hangs must not gather requests.
func bounded(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		most := answerTime
		switch path := c.Path(); {
		case strings.HasSuffix(path, "/live"), strings.HasSuffix(path, "/stream"), strings.HasPrefix(path, "/debug/"):
			return next(c)
		case strings.HasSuffix(path, "/changes"):
			most += maxWait
		}
		whole := c.Request()
		defer c.SetRequest(whole) // an error is answered after this
		ctx, cancel := context.WithTimeout(whole.Context(), most)
		defer cancel()
		c.SetRequest(whole.WithContext(ctx))
		return next(c)
	}
}

// method bounds the label: a client may send any word.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions:
		return m
	}
	return "other"
}

func status(code int) string { return strconv.Itoa(code/100) + "xx" }

func (s *Server) cors() middleware.CORSConfig {
	return middleware.CORSConfig{
		AllowOriginFunc: s.allowsOrigin,
		AllowMethods:    []string{http.MethodGet, http.MethodHead},
		AllowHeaders:    []string{"Authorization", "If-None-Match", "Last-Event-ID"},
		ExposeHeaders:   []string{"ETag"},
		MaxAge:          600,
	}
}
