package main

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/codemojex/feedrenderer/consumer"
	"github.com/codemojex/feedrenderer/feed/tenants"
	"github.com/codemojex/feedrenderer/feed/timeline"
	"github.com/codemojex/feedrenderer/render"
)

// renderer is the render role: a member of the group, and what tells it which streams there are.
type renderer struct {
	worker    *render.Worker
	consumer  *consumer.Consumer
	discovery *render.Discovery
	upkeep    *render.Upkeep
}

func (c *serveCommand) newRenderer(b *backends, log *slog.Logger) (*renderer, error) {
	s := &c.settings
	writer := timeline.NewWriter(b.render)
	r := &renderer{worker: render.NewWorker(render.WorkerConfig{
		Kinds:    s.kinds,
		Timeline: writer,
		Doorbell: b.bell(),
		Logger:   log,
	})}
	var err error
	if r.consumer, err = consumer.New(c.member(r.worker.Step, log)); err != nil {
		return nil, err
	}
	r.discovery = render.NewDiscovery(render.DiscoveryConfig{
		Client:  b.valkey,
		Group:   c.Group,
		Streams: r.consumer,
		Tenants: tenants.NewStore(b.render),
		Games:   writer,
		Logger:  log,
	})
	r.upkeep = render.NewUpkeep(render.UpkeepConfig{
		Client:   b.valkey,
		Group:    c.Group,
		Tenants:  tenants.NewStore(b.render),
		Timeline: writer,
		Doorbell: b.bell(),
		Logger:   log,
		Every:    s.upkeep,
		Grace:    s.groupGrace,
	})
	return r, nil
}

// member is the renderer in its group. The streams of a tenant have one hash tag, and so are one share to the consumer: a
// tenant's flood delays the lines of another by about a batch.
func (c *serveCommand) member(handler consumer.Handler, log *slog.Logger) consumer.Config {
	s := &c.settings
	return consumer.Config{
		Options:     s.valkey,
		Group:       c.Group,
		Name:        c.Name,
		Start:       consumer.StartHead,
		Handler:     handler,
		Workers:     s.workers,
		BatchSize:   s.batch,
		MinIdle:     s.minIdle,
		MaxAttempts: s.maxAttempts,
		DeadLetter:  deadLetters,
		RetryStream: retryStream,
		StopTimeout: s.grace,
		Logger:      log,

		DegradedAfter: s.degradedAfter,
	}
}

// run renders until the context ends; what is begun by then is finished.
func (r *renderer) run(ctx context.Context) error {
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return r.consumer.Run(ctx) })
	parts.Go(func() error { return r.discovery.Run(ctx) })
	parts.Go(func() error { return r.upkeep.Run(ctx) })
	return parts.Wait()
}

// show adds the role to what the process says of itself.
func (r *renderer) show(s *state) error {
	for _, collector := range []prometheus.Collector{r.worker, r.discovery, r.upkeep, r.consumer.Collector()} {
		if err := s.registry.Register(collector); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.health = r.consumer.Health
	return nil
}
