package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
)

// checkTime bounds a readiness check.
const checkTime = 3 * time.Second

// healthz answers as long as the process does.
func (s *Server) healthz(c echo.Context) error {
	return c.JSON(http.StatusOK, map[string]bool{"alive": true})
}

// readyz says whether watchers should be sent here, and what stands against it, by name only: reasons may name hosts.
func (s *Server) readyz(c echo.Context) error {
	out := struct {
		Ready    bool              `json:"ready"`
		Draining bool              `json:"draining"`
		Checks   map[string]string `json:"checks"`
	}{true, s.draining.Load(), map[string]string{}}
	out.Ready = !out.Draining
	for name, err := range s.check(c.Request().Context()) {
		out.Checks[name] = "ok"
		if err != nil {
			out.Ready, out.Checks[name] = false, "failing"
		}
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	if !out.Ready {
		return c.JSON(http.StatusServiceUnavailable, out)
	}
	return c.JSON(http.StatusOK, out)
}

// check asks all at once.
func (s *Server) check(ctx context.Context) map[string]error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	var mu sync.Mutex
	var asking sync.WaitGroup
	results := make(map[string]error, len(s.config.Checks))
	for name, check := range s.config.Checks {
		asking.Go(func() {
			err := check(ctx)
			mu.Lock()
			defer mu.Unlock()
			results[name] = err
		})
	}
	asking.Wait()
	return results
}
