package main

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/codemojex/feedrenderer/consumer"
)

// state is what a serve process says of itself on its private address, from its first moment on.
type state struct {
	registry *prometheus.Registry
	roles    []string

	mu        sync.Mutex // guards what follows
	checks    map[string]func(context.Context) error
	health    func(context.Context) (consumer.Health, error) // of the group; nil where nothing is rendered
	operators http.Handler                                   // the web role's routes for operators; nil without it
}

var errNotYet = errors.New("not connected yet")

func newState(roles ...string) *state {
	s := &state{registry: prometheus.NewRegistry(), roles: roles, checks: map[string]func(context.Context) error{}}
	for _, server := range []string{"valkey", "postgres"} {
		s.check(server, func(context.Context) error { return errNotYet })
	}
	s.registry.MustRegister(s, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return s
}

// check sets what /readyz asks by that name.
func (s *state) check(name string, ask func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checks[name] = ask
}

// uncheck takes a check away.
func (s *state) uncheck(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.checks, name)
}

// serve adds the web role's routes for operators.
func (s *state) serve(operators http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.operators = operators
}

func (s *state) currentChecks() map[string]func(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.checks)
}

func (s *state) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, map[string]bool{"alive": true}) })
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		operators := s.operators
		s.mu.Unlock()
		if operators == nil {
			operators = http.NotFoundHandler()
		}
		operators.ServeHTTP(w, r)
	})
	return mux
}

// readyz says whether all this process needs is there, and by name what is not. Warnings do not make it unready.
func (s *state) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
	defer cancel()
	s.mu.Lock()
	health := s.health
	s.mu.Unlock()

	said := struct {
		Ready    bool              `json:"ready"`
		Checks   map[string]string `json:"checks"`
		Warnings []string          `json:"warnings,omitempty"`
	}{true, map[string]string{}, nil}
	for name, err := range ask(ctx, s.currentChecks()) {
		said.Checks[name] = "ok"
		if err != nil {
			said.Ready, said.Checks[name] = false, err.Error()
		}
	}
	if health != nil && said.Ready {
		if group, err := health(ctx); err != nil {
			said.Warnings = []string{"health of the group: " + err.Error()}
		} else {
			said.Warnings = group.Reasons
		}
	}
	status := http.StatusOK
	if !said.Ready {
		status = http.StatusServiceUnavailable
	}
	answer(w, status, said)
}

var (
	readyDesc = prometheus.NewDesc("feedrenderer_ready", "1 for each role of a process that has all it needs.", []string{"role"}, nil)
	checkDesc = prometheus.NewDesc("feedrenderer_check_ok", "1 for each thing that a process needs and that is there.", []string{"check"}, nil)
	buildDesc = prometheus.NewDesc("feedrenderer_build_info", "1, with the version of the program.", []string{"version"}, nil)
)

// Describe implements prometheus.Collector.
func (s *state) Describe(ch chan<- *prometheus.Desc) {
	ch <- readyDesc
	ch <- checkDesc
	ch <- buildDesc
}

// Collect implements prometheus.Collector: what /readyz says, as metrics.
func (s *state) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
	defer cancel()
	ready := true
	for name, err := range ask(ctx, s.currentChecks()) {
		ready = ready && err == nil
		gauge(ch, checkDesc, yes(err == nil), name)
	}
	for _, role := range s.roles {
		gauge(ch, readyDesc, yes(ready), role)
	}
	gauge(ch, buildDesc, 1, version())
}

// ask asks all checks at once.
func ask(ctx context.Context, checks map[string]func(context.Context) error) map[string]error {
	type result struct {
		name string
		err  error
	}
	results := make(chan result, len(checks))
	for name, check := range checks {
		go func() { results <- result{name, check(ctx)} }()
	}
	out := make(map[string]error, len(checks))
	for range checks {
		r := <-results
		out[r.name] = r.err
	}
	return out
}

func answer(w http.ResponseWriter, status int, said any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(said) // whoever asked is gone
}
