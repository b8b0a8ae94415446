package render

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
)

// Streams is the consumer that is told what to read. Both methods return at once and may be repeated.
type Streams interface {
	Join(streams ...string)
	Leave(streams ...string)
}

// Tenants lists the known tenants, suspended ones too: what they append meanwhile is not lost.
type Tenants interface {
	List(ctx context.Context) ([]tenants.Tenant, error)
}

// Games says where games stand.
type Games interface {
	// Statuses answers in the order of the games: feed.StatusUnknown for one that is not there yet.
	Statuses(ctx context.Context, games []feed.GameKey) ([]feed.Status, error)
}

// DiscoveryConfig is what finding games needs.
type DiscoveryConfig struct {
	Client  valkey.Client // shared; may be of a cluster
	Group   string        // of the consumer
	Streams Streams
	Tenants Tenants
	Games   Games        // nil: no game is ever left
	Logger  *slog.Logger // nil: no logs

	// Pause is the least time between two passes over the keys; after a pass that took long it is four times as long as
	// the pass, so that looking never takes more than a fifth of the time. 1 s
	Pause time.Duration
	// IdleAfter is how long a final game must have been silent to be left. 10 min
	IdleAfter time.Duration
	// IdleCheck is the time between two looks at the joined games for some to leave. 1 min
	IdleCheck time.Duration
}

// Discovery finds the streams of known tenants and has them read: all streams of games that are there, and each
// tenant's retry stream. It is a prometheus.Collector.
type Discovery struct {
	cfg     DiscoveryConfig
	looks   chan feed.GameKey
	metrics discoveryMetrics

	// What follows belongs to the goroutine of Run.
	tenants map[feed.TenantID]bool
	found   map[string]*stream // by key
	strange map[string]int     // keys of another type, with the pass that saw them last
	pass    int
	checked time.Time // when joined games were last asked whether they are idle
	blind   recurring
	seen    keyCounts // by this pass
	trouble error     // that did not end this pass
}

// stream is the stream of a game of a known tenant.
type stream struct {
	key    string
	game   feed.GameKey
	joined bool
	asleep bool // left until it grows
	pass   int  // that saw it last

	delivered string    // the group's last delivered entry id when last asked, "" before that
	changed   time.Time // when that was first seen to have moved
}

const (
	pageKeys  = 1000 // a step of SCAN looks at about so many keys of the server: well below a millisecond
	passShare = 4    // pauses are so many times as long as passes
	maxLooks  = 1024 // games named since the last time anybody looked
)

// NewDiscovery returns a Discovery that has not looked yet.
func NewDiscovery(cfg DiscoveryConfig) *Discovery {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	orDefault := func(d *time.Duration, otherwise time.Duration) {
		if *d == 0 {
			*d = otherwise
		}
	}
	orDefault(&cfg.Pause, time.Second)
	orDefault(&cfg.IdleAfter, 10*time.Minute)
	orDefault(&cfg.IdleCheck, time.Minute)
	return &Discovery{
		cfg:     cfg,
		looks:   make(chan feed.GameKey, maxLooks),
		metrics: newDiscoveryMetrics(),
		tenants: make(map[feed.TenantID]bool),
		found:   make(map[string]*stream),
		strange: make(map[string]int),
		blind:   recurring{log: cfg.Logger, bad: "looking for streams failed: those of new games are not read", good: "looking for streams works again"},
	}
}

// Look says that a game may be there which no pass has seen yet: somebody appended to it, or wants to watch it. Run
// looks at it at once. Look never waits and may be called for games that are known; beyond 1024 at a time they are left
// to the next pass.
func (d *Discovery) Look(game feed.GameKey) {
	select {
	case d.looks <- game:
	default:
	}
}

// Run looks for streams until ctx ends, and returns nil then.
func (d *Discovery) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		begun := time.Now()
		d.report(ctx, d.Pass(ctx))
		d.idle(ctx, max(d.cfg.Pause, passShare*time.Since(begun)))
	}
	return nil
}

// idle waits, and looks at what it is asked to look at.
func (d *Discovery) idle(ctx context.Context, pause time.Duration) {
	next := time.NewTimer(pause)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			return
		case game := <-d.looks:
			if err := d.look(ctx, game); err != nil {
				d.report(ctx, err)
				return
			}
		}
	}
}

// report counts failures and logs them.
func (d *Discovery) report(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil: // being stopped
	case err != nil:
		d.metrics.failures.Inc()
		d.blind.failed(err)
	default:
		d.blind.over()
	}
}

// Pass looks once through all keys of all primaries: it joins streams of known tenants that are new or have grown since
// they were left, and leaves those that are final and idle. It is not to be called beside Run.
func (d *Discovery) Pass(ctx context.Context) error {
	begun := time.Now()
	d.pass++
	d.seen, d.trouble = keyCounts{}, nil
	if err := d.learnTenants(ctx); err != nil {
		return err
	}
	nodes, err := primaries(ctx, d.cfg.Client)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if err := d.scan(ctx, node); err != nil {
			return err
		}
	}
	d.forget()
	if d.cfg.Games != nil && time.Since(d.checked) >= d.cfg.IdleCheck {
		if err := d.leaveIdle(ctx); err != nil {
			return err
		}
		d.checked = time.Now()
	}
	d.metrics.passed(d, time.Since(begun))
	return d.trouble
}

// learnTenants joins the retry streams of new tenants, and leaves all streams of those that are gone.
func (d *Discovery) learnTenants(ctx context.Context) error {
	list, err := d.cfg.Tenants.List(ctx)
	if err != nil {
		return fmt.Errorf("list tenants: %w", err)
	}
	now := make(map[feed.TenantID]bool, len(list))
	var joined, left []string
	for _, tenant := range list {
		now[tenant.ID] = true
		if !d.tenants[tenant.ID] {
			joined = append(joined, tenant.ID.RetryStream())
		}
	}
	for tenant := range d.tenants {
		if !now[tenant] {
			left = append(left, tenant.RetryStream())
		}
	}
	if len(left) > 0 {
		for key, s := range d.found {
			if now[s.game.Tenant] {
				continue
			}
			if s.joined {
				left = append(left, key)
			}
			delete(d.found, key)
		}
		d.cfg.Streams.Leave(left...)
	}
	if len(joined) > 0 {
		d.cfg.Streams.Join(joined...)
	}
	d.tenants = now
	return nil
}

// primaries are the nodes that SCAN must be asked of: each knows its own keys only, and a replica those of its primary.
func primaries(ctx context.Context, client valkey.Client) ([]valkey.Client, error) {
	if client.Mode() != valkey.ClientModeCluster {
		return []valkey.Client{client}, nil
	}
	var nodes []valkey.Client
	for address, node := range client.Nodes() {
		role, err := node.Do(ctx, node.B().Role().Build()).ToArray()
		if err != nil {
			return nil, fmt.Errorf("role of %s: %w", address, err)
		}
		if len(role) == 0 {
			return nil, fmt.Errorf("role of %s: an empty answer", address)
		}
		name, err := role[0].ToString()
		if err != nil {
			return nil, fmt.Errorf("role of %s: %w", address, err)
		}
		if name == "master" {
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}

// scan looks through the keys of one node, a page at a time: what is asked about a page goes out with the request for
// the next one.
func (d *Discovery) scan(ctx context.Context, node valkey.Client) error {
	var page []*stream
	for cursor, last := uint64(0), false; !last; {
		step := node.B().Scan().Cursor(cursor).Match(feed.StreamPattern).Count(pageKeys).Build()
		asked, replies := d.ask(ctx, node, page, step)
		entry, err := replies[0].AsScanEntry()
		if err != nil {
			return fmt.Errorf("scan: %w", err)
		}
		if err := d.take(ctx, node, asked, replies[1:]); err != nil {
			return err
		}
		page, cursor, last = d.sort(entry.Elements), entry.Cursor, entry.Cursor == 0
		if err := d.lookAll(ctx); err != nil {
			return err
		}
	}
	asked, replies := d.ask(ctx, node, page)
	return d.take(ctx, node, asked, replies)
}

// lookAll looks at what was named while a pass is under way.
func (d *Discovery) lookAll(ctx context.Context) error {
	for {
		select {
		case game := <-d.looks:
			if err := d.look(ctx, game); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// look looks at one game, known or not.
func (d *Discovery) look(ctx context.Context, game feed.GameKey) error {
	counted := d.seen
	page := d.sort([]string{game.Stream()})
	d.seen = counted // of keys that passes see
	if len(page) == 0 {
		return nil
	}
	asked, replies := d.ask(ctx, d.cfg.Client, page)
	return d.take(ctx, d.cfg.Client, asked, replies)
}
