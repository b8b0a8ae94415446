package main

import (
	"context"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
	"golang.org/x/sync/errgroup"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/render"
)

type serveCommand struct {
	Roles          string `default:"render,web" help:"What this process does: render, web or both."`
	Tenants        string `help:"Tenants that are made at start, a,b,c, with games that anybody may watch."`
	ValkeyURL      string `help:"Valkey or Redis with the streams: redis://[user:password@]host:port[/db]."`
	DatabaseURL    string `help:"Postgres with the lines: postgres://user:password@host:port/database."`
	Connections    string `default:"8" help:"Connections to Postgres at most, for each role."`
	Kinds          string `help:"Directory of event kinds (*.toml) that add to the built-in ones or replace them."`
	Group          string `default:"feedrenderer" help:"Consumer group that the renderers share."`
	Name           string `help:"Name of this renderer in the group; by default one after the host."`
	Workers        string `default:"2" help:"Batches rendered at a time. A game belongs to one of them."`
	Batch          string `default:"500" help:"Events in a batch at most."`
	MinIdle        string `default:"30s" help:"How long an event must have been silent before another renderer takes it over."`
	MaxAttempts    string `default:"5" help:"Deliveries after which an event that still fails is a dead letter."`
	DegradedAfter  string `default:"2m" help:"How long an event may wait, to be read or to be settled, before its stream is called degraded."`
	Upkeep         string `default:"10m" help:"How often old lines and entries are looked for, of tenants that keep them for so many days."`
	GroupGrace     string `default:"168h" help:"How long another group on a stream must be silent for its entries to be trimmed away unsettled."`
	Listen         string `default:":8080" help:"Public address, of the web role: pages, REST, sockets."`
	PrivateListen  string `default:"127.0.0.1:9090" help:"Private address: /readyz, /healthz, /metrics and /debug/pprof/."`
	Origins        string `help:"Origins beside our own from which browsers may open sockets, such as https://feeds.example."`
	TrustedProxies string `help:"Proxies whose X-Forwarded-For counts, such as 10.0.0.7/32; by default none."`
	MasterKey      string `help:"Key that manages tenants over REST, of 24 characters at least; better a variable than a flag. By default nobody does."`
	Grace          string `default:"10s" help:"How long a stop may take to finish what is begun and to send watchers elsewhere."`

	settings serveSettings
}

type serveSettings struct {
	roles       []string
	render, web bool
	tenants     []feed.TenantID
	valkey      valkey.ClientOption
	connections int32
	workers     int
	batch       int
	minIdle     time.Duration
	maxAttempts int64
	origins     []string
	proxies     []netip.Prefix
	grace       time.Duration
	kinds       *render.Kinds

	degradedAfter time.Duration

	upkeep, groupGrace time.Duration
}

func (c *serveCommand) check(f *faults) {
	roles := list(f, "roles", c.Roles, func(role string) (string, error) {
		choice(f, "roles", role, map[string]bool{"render": true, "web": true})
		return role, nil
	})
	if len(roles) == 0 {
		f.flag("roles", "missing; want render, web or both")
	}
	s := &c.settings
	s.roles = roles
	s.render, s.web = slices.Contains(roles, "render"), slices.Contains(roles, "web")
	s.tenants = tenantList(f, "tenants", c.Tenants)
	s.valkey = valkeyURL(f, c.ValkeyURL)
	databaseURL(f, c.DatabaseURL)
	s.connections = int32(integer(f, "connections", c.Connections, 1, 1000)) // #nosec G115 -- in range
	var err error
	if s.kinds, err = render.LoadKinds(c.Kinds); err != nil {
		f.flag("kinds", "%v", err)
	}
	name(f, "group", c.Group)
	if c.Name != "" {
		name(f, "name", c.Name)
	}
	s.workers = integer(f, "workers", c.Workers, 1, 64)
	s.batch = integer(f, "batch", c.Batch, 1, 5000)
	s.minIdle = duration(f, "min-idle", c.MinIdle, time.Second, time.Hour)
	s.maxAttempts = int64(integer(f, "max-attempts", c.MaxAttempts, 1, 1000))
	s.degradedAfter = duration(f, "degraded-after", c.DegradedAfter, time.Second, 30*24*time.Hour)
	s.upkeep = duration(f, "upkeep", c.Upkeep, time.Second, 24*time.Hour)
	s.groupGrace = duration(f, "group-grace", c.GroupGrace, time.Minute, 365*24*time.Hour)
	listenAddress(f, "listen", c.Listen)
	listenAddress(f, "private-listen", c.PrivateListen)
	s.origins = originList(f, "origins", c.Origins)
	s.proxies = prefixList(f, "trusted-proxies", c.TrustedProxies)
	masterKey(f, "master-key", c.MasterKey)
	s.grace = duration(f, "grace", c.Grace, time.Second, 10*time.Minute)

	if s.render && s.connections > 0 && s.workers > int(s.connections) {
		f.flag("workers", "%d, each of which needs a connection, above --connections ($%s), %d", s.workers, variable("connections"), s.connections)
	}
	if s.web && c.Listen == c.PrivateListen && !anyPort(c.Listen) {
		f.flag("private-listen", "%s is --listen ($%s) as well; want an address of its own", c.Listen, variable("listen"))
	}
}

// renderGC is the growth of the heap, in percent, after which a process that only renders collects garbage. It holds next
// to nothing between two batches, so that the default of 100 has it collect again and again for a few megabytes. The
// variable GOGC overrules it.
const renderGC = 400

func (c *serveCommand) run(ctx context.Context, p process) error {
	if !c.settings.web && !slices.ContainsFunc(p.environ, func(v string) bool { return strings.HasPrefix(v, "GOGC=") }) {
		debug.SetGCPercent(renderGC)
	}
	state := newState(c.settings.roles...)
	private, err := listen(ctx, "private-listen", c.PrivateListen, state.handler(), p.log)
	if err != nil {
		return err
	}
	defer private.close()
	p.log.Info("starting", "version", version(), "roles", c.Roles, "private", private.address)

	if c.settings.web { // until it listens: who hears that we are ready comes at once
		state.check(listeningCheck, func(context.Context) error { return errNotYet })
	}
	backends, err := c.connect(ctx, p.log, state)
	if err != nil || backends == nil {
		return err
	}
	defer backends.close()

	roles, ctx := errgroup.WithContext(ctx)
	var run []func(context.Context) error
	var unseen func(feed.GameKey)
	if c.settings.render {
		renderer, err := c.newRenderer(backends, p.log)
		if err != nil {
			return err
		}
		if err := renderer.show(state); err != nil {
			return err
		}
		unseen = renderer.discovery.Look
		reporter, err := newReporter(backends.valkey, c.Group, renderer, p.log)
		if err != nil {
			return err
		}
		run = append(run, renderer.run, reporter.run)
	}
	if c.settings.web {
		site, err := c.newSite(ctx, backends, state, unseen, p.log)
		if err != nil {
			return err
		}
		defer site.public.close()
		p.log.Info("serving", "public", site.public.address)
		run = append(run, site.run)
	}
	for _, role := range run {
		roles.Go(func() error { return role(ctx) })
	}
	err = roles.Wait()
	p.log.Info("stopped")
	return err
}
