// Package web shows feeds: REST, the live hub with its sockets and event streams, and the pages.
//
// The way of a change is
//
//	doorbell --> hub --> watcher --> socket | event stream
//
// A [hub] follows one game for all who watch it in this process and repairs what the doorbell lost from the table; a
// watcher is one connection with a bounded queue; its pump alone writes. A hub waits for nobody.
//
// All routes stand in routes.go, what each lets in in access.go; what operators see and mend is in operations*.go.
package web

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
)

// Config is what a server is made of. Timeline, Tenants and Doorbell are required.
type Config struct {
	Timeline Timeline
	Tenants  Tenants
	Doorbell Doorbell

	// Access knows keys and tokens. Nil: none is good, so that public tenants alone are served.
	Access Access
	// Admin manages tenants and mints watch tokens. Nil: nobody does.
	Admin *tenants.Admin
	// MasterKey is what the routes that manage tenants ask for. "": nobody has it.
	MasterKey string
	// TrustedProxies are the proxies whose word on the peer's address counts. None: the address of the connection.
	TrustedProxies []netip.Prefix
	// Append appends a batch of events and rings for it. Nil: nobody may append.
	Append Appender

	// SetMode states the mode of a game and rings for what that changes. Nil: the private handler has no such route.
	SetMode func(ctx context.Context, game feed.GameKey, mode feed.Mode) error
	// Group shows operators how the renderers stand with the streams. Nil: nobody is shown.
	Group Group
	// DeadLetters shows operators what the renderers gave up on, and has it mended. Nil: nobody is shown.
	DeadLetters DeadLetters
	// OnUnseen is told of games that somebody subscribed to and that are not there. It must return at once. Nil: nobody is.
	OnUnseen func(game feed.GameKey)
	// Checks are asked by /readyz, by name. None: it is ready while it does not drain.
	Checks map[string]func(ctx context.Context) error
	// Front lists the tenants that / leads to: one is redirected to, several are listed, with none / is not found.
	Front []feed.TenantID
	// Origins are the sites beside our own whose pages may watch: patterns as of path.Match with their scheme, such as
	// https://*.example.com. None: the pages of our own host.
	Origins []string
	// QueueBytes bounds what waits for one watcher. 0: 1 MiB.
	QueueBytes int
	// Registry takes the metrics. Nil: one of its own.
	Registry *prometheus.Registry
	Logger   *slog.Logger // nil: slog.Default()
	Times    Times
}

// Times are the periods of a server. A zero one is its default.
type Times struct {
	Tick    time.Duration // between the ticks of a socket, 10 s
	Probe   time.Duration // between pings that find dead peers, 30 s
	Write   time.Duration // the longest that writing what waits for a watcher may take, 10 s
	Park    time.Duration // how long a gap may close by itself before the table is asked, 30 ms
	Sweep   time.Duration // between looks at the heads of all watched games, 1 s
	Header  time.Duration // the least between two headers of a game, 1 s
	Counts  time.Duration // between words to other processes on how many watch here, 10 s
	Linger  time.Duration // how long a hub outlives its last watcher, 30 s
	Spread  time.Duration // over how long a drain sends watchers away, 5 s
	Tenant  time.Duration // how long the state of a tenant or a key is believed, 3 s
	Sample  time.Duration // between samples of the renderers' group, 15 s
	Operate time.Duration // between looks at the group while an operator is connected, 2 s
	Auth    time.Duration // how long a socket may take to show a credential where one is needed, 5 s
}

func (t *Times) fill() {
	for _, each := range []struct {
		at *time.Duration
		or time.Duration
	}{
		{&t.Tick, 10 * time.Second},
		{&t.Probe, 30 * time.Second},
		{&t.Write, 10 * time.Second},
		{&t.Park, 30 * time.Millisecond},
		{&t.Sweep, time.Second},
		{&t.Header, time.Second},
		{&t.Counts, 10 * time.Second},
		{&t.Linger, 30 * time.Second},
		{&t.Spread, 5 * time.Second},
		{&t.Tenant, 3 * time.Second},
		{&t.Sample, 15 * time.Second},
		{&t.Operate, 2 * time.Second},
		{&t.Auth, 5 * time.Second},
	} {
		*each.at = cmp.Or(*each.at, each.or)
	}
}

// Server is the web role of a process.
type Server struct {
	config  Config
	log     *slog.Logger
	faults  *faults
	meter   *meter
	tenants *believed[feed.TenantID, tenants.Tenant]
	keys    *believed[keyID, tenants.Key]
	secrets *believed[keyID, tenants.Secret]
	master  [sha256.Size]byte // hash of the master key
	managed bool              // there is a master key
	limits  *limits
	hubs    *hubs
	outlets *outlets
	pages   *template.Template
	static  map[string]asset

	documents map[string]asset // by path
	lists     *lists

	operations *operations

	draining atomic.Bool
	ctx      context.Context // ends with Run; sockets and hubs live by it, not by requests
	stop     context.CancelFunc
	leaving  context.Context // ends when the drain begins: polls answer then
	leave    context.CancelFunc
	running  sync.WaitGroup // sockets
}

// New makes a server. All faults of the configuration are in one error.
func New(config Config) (*Server, error) {
	config.Times.fill()
	config.QueueBytes = cmp.Or(config.QueueBytes, 1<<20)
	config.Logger = cmp.Or(config.Logger, slog.Default())
	config.Registry = cmp.Or(config.Registry, prometheus.NewRegistry())
	if config.Access == nil {
		config.Access = noAccess{}
	}
	if config.OnUnseen == nil {
		config.OnUnseen = func(feed.GameKey) {}
	}
	s := &Server{config: config, log: config.Logger, faults: newFaults(config.Logger), outlets: &outlets{open: map[*watcher]outlet{}, empty: make(chan struct{})}}
	var errs []error
	if config.Timeline == nil || config.Tenants == nil || config.Doorbell == nil {
		errs = append(errs, errors.New("timeline, tenants and doorbell are required"))
	}
	for _, origin := range config.Origins {
		if _, err := path.Match(origin, ""); err != nil || !strings.Contains(origin, "://") {
			errs = append(errs, fmt.Errorf("origin %q: want scheme://host, with * for a part of the host", origin))
		}
	}
	var err error
	if s.meter, err = newMeter(config.Registry); err != nil {
		errs = append(errs, err)
	}
	if s.pages, s.static, err = embedded(); err != nil {
		errs = append(errs, err)
	}
	if s.documents, err = documents(); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	s.lists = newLists(config.Timeline, config.Times)
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.leaving, s.leave = context.WithCancel(s.ctx)
	s.tenants = newBelieved(config.Times.Tenant, config.Tenants.Lookup)
	s.keys = newBelieved(config.Times.Tenant, func(ctx context.Context, id keyID) (tenants.Key, error) {
		return config.Access.Key(ctx, id.tenant, id.id)
	})
	s.secrets = newBelieved(config.Times.Tenant, func(ctx context.Context, id keyID) (tenants.Secret, error) {
		return config.Access.Secret(ctx, id.tenant, id.id)
	})
	s.master = sha256.Sum256([]byte(config.MasterKey))
	s.config.MasterKey = "" // the hash will do, and nothing can print it
	s.managed = config.MasterKey != ""
	s.limits = newLimits(s.known)
	s.operations = newOperations(s)
	s.hubs = &hubs{
		table: config.Timeline, doorbell: config.Doorbell, known: s.known, times: config.Times, log: s.log, faults: s.faults, meter: s.meter,
		unseen: config.OnUnseen, hurry: make(chan struct{}, 1), ctx: s.ctx, games: map[feed.GameKey]openHub{},
	}
	return s, nil
}

// Run keeps the hubs in step with the table until the context ends; then it closes every socket that is still open and
// returns when all of it has ended. It must be called once, and Drain before its context ends where watchers are to be
// sent away gently.
func (s *Server) Run(ctx context.Context) {
	s.hubs.running.Go(func() { s.hubs.run(ctx) })
	s.hubs.running.Go(func() { s.hubs.tell(ctx) })
	s.hubs.running.Go(func() { s.review(ctx) })
	s.hubs.running.Go(func() { s.operations.run(ctx) })
	<-ctx.Done()
	for _, w := range s.outlets.close() {
		w.close(closeDraining)
	}
	select {
	case <-s.outlets.empty:
	case <-time.After(2 * closeTime):
		s.outlets.force()
	}
	s.stop()
	s.running.Wait()
	s.hubs.close()
}

// Drain sends the watchers away: readiness is off and no new ones are taken from now on; all are told to come back
// elsewhere at a moment of their own within the spread, and are closed in waves over it, each with its code; one that
// does not answer is not waited for. It returns when the last is gone, or, when the context ends, after breaking those
// that are left; the error says how many those were. A deadline of the context shortens the spread to two thirds of what
// is left.
func (s *Server) Drain(ctx context.Context) error {
	s.draining.Store(true)
	s.leave()
	spread := s.config.Times.Spread
	if deadline, ok := ctx.Deadline(); ok {
		spread = max(0, min(spread, time.Until(deadline)*2/3))
	}
	leaving := s.outlets.close()
	bye := byeFrame(0, spread)
	for _, w := range leaving {
		w.say(bye)
	}
	const waves = 20
	wave := time.NewTicker(max(spread/waves, time.Millisecond))
	defer wave.Stop()
	size := len(leaving)/waves + 1
	for some := range slices.Chunk(leaving, size) {
		select {
		case <-wave.C:
		case <-ctx.Done():
		}
		for _, w := range some {
			w.close(closeDraining)
		}
	}
	select {
	case <-s.outlets.empty:
		return nil
	case <-ctx.Done():
	}
	if n := s.outlets.force(); n > 0 {
		return fmt.Errorf("drain: %d watchers were not sent away in time", n)
	}
	return nil
}

// NewHTTPServer wraps a handler in a server with the timeouts that suit it. Nothing limits how long an answer is
// written: streams set deadlines of their own.
func NewHTTPServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(cmp.Or(log, slog.Default()).Handler(), slog.LevelDebug),
	}
}
