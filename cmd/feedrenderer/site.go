package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
	"github.com/codemojex/feedrenderer/feed/timeline"
	"github.com/codemojex/feedrenderer/web"
)

// listeningCheck is the name under which /readyz says that the public address does not answer yet.
const listeningCheck = "listening"

// site is the web role: what watchers are connected to.
type site struct {
	server *web.Server
	public *listener
	grace  time.Duration
	log    *slog.Logger
}

// newSite listens on the public address. unseen is told of games that somebody wants to watch and that are not there; it
// may be nil.
func (c *serveCommand) newSite(ctx context.Context, b *backends, state *state, unseen func(feed.GameKey), log *slog.Logger) (*site, error) {
	writer, publisher := timeline.NewWriter(b.render), b.bell()
	mint, err := newMint()
	if err != nil {
		return nil, err
	}
	store := tenants.NewStore(b.web)
	checks := state.currentChecks()
	delete(checks, listeningCheck) // on the public address it has been answered by then
	group := newGroup(b.valkey, c.Group, c.settings.degradedAfter)
	if err := state.registry.Register(newGroupMetrics(group, c.settings.degradedAfter)); err != nil {
		return nil, err
	}
	server, err := web.New(web.Config{
		Timeline: timeline.NewReader(b.web),
		Tenants:  store,
		Access:   store,
		Admin:    tenants.NewAdmin(b.admin),
		Doorbell: b.ears,
		SetMode: func(ctx context.Context, game feed.GameKey, mode feed.Mode) error {
			return setMode(ctx, writer, publisher, log, game, mode)
		},
		Group:          group,
		DeadLetters:    group,
		Append:         feed.NewProducer(b.valkey, mint).AppendOnce,
		MasterKey:      c.MasterKey,
		TrustedProxies: c.settings.proxies,
		OnUnseen:       unseen,
		Checks:         checks,
		Front:          c.settings.tenants,
		Origins:        c.settings.origins,
		Registry:       state.registry,
		Logger:         log,
	})
	if err != nil {
		return nil, err
	}
	public, err := listen(ctx, "listen", c.Listen, server.Public(), log)
	if err != nil {
		return nil, err
	}
	state.serve(server.Private())
	state.uncheck(listeningCheck)
	return &site{server, public, c.settings.grace, log}, nil
}

// run serves until the context ends; then it sends the watchers elsewhere, within the grace.
func (s *site) run(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { s.server.Run(life) })
	<-ctx.Done()

	leaving, cancel := context.WithTimeout(life, s.grace)
	defer cancel()
	if err := errors.Join(s.server.Drain(leaving), s.public.shutdown(leaving)); err != nil {
		s.log.Warn("watchers or requests were cut off", "grace", s.grace, "err", err)
	}
	end()
	running.Wait()
	return nil
}
