package web

import (
	"context"
	"net/http"
	"net/url"
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
	need         need
	handle       echo.HandlerFunc
}

// public lists what anybody may ask for, with what each asks of its caller. A GET answers HEAD too.
//
// The first segments v1, static, healthz, readyz and docs are ours: a tenant of such a name has no pages, but all of its API.
func (s *Server) public() []route {
	const tenant = "/v1/tenants/:tenant"
	const game = tenant + "/games/:game"
	const letters = tenant + "/streams/:game/dead-letters"
	return []route{
		{http.MethodGet, "/", nobody, s.front},
		{http.MethodGet, "/healthz", nobody, s.healthz},
		{http.MethodGet, "/readyz", nobody, s.readyz},
		{http.MethodGet, "/openapi.yaml", nobody, s.document},
		{http.MethodGet, "/docs", nobody, s.document},
		{http.MethodGet, "/static/*", nobody, s.asset},
		{http.MethodGet, "/:tenant", watching, s.toLobby},
		{http.MethodGet, "/:tenant/", watching, s.lobbyPage},
		{http.MethodGet, "/:tenant/:game", watching, s.feedPage},
		{http.MethodGet, "/:tenant/-/operate", nobody, s.operatePage},

		{http.MethodGet, tenant + "/live", frames, s.live},
		{http.MethodGet, tenant + "/games", watching, s.games},
		{http.MethodGet, game, watching, s.game},
		{http.MethodGet, game + "/board", watching, s.board},
		{http.MethodGet, game + "/timeline", watching, s.timeline},
		{http.MethodGet, game + "/changes", watching, s.changes},
		{http.MethodGet, game + "/lines/:evt", watching, s.line},
		{http.MethodGet, game + "/stream", watching, s.stream},
		{http.MethodPost, game + "/events", producing, s.events},
		{http.MethodPost, game + "/mode", operating, s.mode},
		{http.MethodGet, tenant + "/streams", operating, s.streams},
		{http.MethodGet, letters, operating, s.deadLetters},
		{http.MethodPost, letters + "/retry", operating, s.retryLetters},
		{http.MethodDelete, letters, operating, s.dropLetters},
		{http.MethodGet, letters + "/:id", operating, s.oneLetter},
		{http.MethodPost, letters + "/:id/retry", operating, s.retryLetter},
		{http.MethodDelete, letters + "/:id", operating, s.dropLetter},
		{http.MethodPost, tenant + "/watch-tokens", minting, s.mint},

		{http.MethodGet, "/v1/tenants", managing, s.listTenants},
		{http.MethodPost, "/v1/tenants", managing, s.createTenant},
		{http.MethodGet, tenant, managing, s.showTenant},
		{http.MethodPatch, tenant, managing, s.changeTenant},
		{http.MethodGet, tenant + "/keys", managing, s.listKeys},
		{http.MethodPost, tenant + "/keys", managing, s.createKey},
		{http.MethodDelete, tenant + "/keys/:key", managing, s.revokeKey},
		{http.MethodPost, tenant + "/token-secret", managing, s.rotateSecret},
	}
}

// private lists what operators may ask for without a credential: it belongs on a listener that nobody else reaches.
func (s *Server) private() []route {
	var list []route
	if s.config.SetMode != nil {
		list = append(list, route{http.MethodPost, "/v1/tenants/:tenant/games/:game/mode", operators, s.mode})
	}
	if s.config.Group != nil {
		list = append(list, route{http.MethodGet, "/v1/tenants/:tenant/streams", operators, s.streams})
	}
	if s.config.DeadLetters != nil {
		const letters = "/v1/tenants/:tenant/streams/:game/dead-letters"
		list = append(
			list,
			route{http.MethodGet, letters, operators, s.deadLetters},
			route{http.MethodPost, letters + "/retry", operators, s.retryLetters},
			route{http.MethodDelete, letters, operators, s.dropLetters},
			route{http.MethodGet, letters + "/:id", operators, s.oneLetter},
			route{http.MethodPost, letters + "/:id/retry", operators, s.retryLetter},
			route{http.MethodDelete, letters + "/:id", operators, s.dropLetter},
		)
	}
	return list
}

// Public is the handler for everybody.
func (s *Server) Public() http.Handler { return s.handler(s.public()) }

// Private is the handler for operators, of the routes that public asks a key for that operates. It asks for none, so it
// takes no orders from pages of other sites that an operator's browser happens to show.
func (s *Server) Private() http.Handler {
	return http.NewCrossOriginProtection().Handler(s.handler(s.private()))
}

func (s *Server) handler(list []route) http.Handler {
	e := echo.New()
	e.HTTPErrorHandler = s.answerError
	e.IPExtractor = s.peerAddress()
	e.Logger.SetLevel(glog.OFF) // what is worth a word goes through slog
	e.Use(s.observe, headers, bounded, decoded, middleware.RecoverWithConfig(middleware.RecoverConfig{LogErrorFunc: s.panicked}))
	if len(s.config.Origins) > 0 {
		e.Use(middleware.CORSWithConfig(s.cors()))
	}
	for _, r := range list {
		handle := s.guard(r)
		e.Add(r.method, r.path, handle)
		if r.method == http.MethodGet && !strings.HasSuffix(r.path, "/live") && !strings.HasSuffix(r.path, "/stream") {
			e.Add(http.MethodHead, r.path, handle)
		}
	}
	return e
}

// decoded reads names in paths that are percent-encoded without need, as some clients send them. The route was found by
// the path as it came, so an encoded slash parts nothing.
func decoded(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if c.Request().URL.RawPath == "" { // the router had the decoded path
			return next(c)
		}
		values := c.ParamValues()
		for i, value := range values {
			name, err := url.PathUnescape(value)
			if err != nil {
				return errNoSuch
			}
			values[i] = name
		}
		c.SetParamValues(values...)
		return next(c)
	}
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
		case strings.HasSuffix(path, "/live"), strings.HasSuffix(path, "/stream"):
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
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
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
