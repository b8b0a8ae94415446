package main

import (
	"context"
	"math"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/internal/simulate"
)

type simulateCommand struct {
	ValkeyURL string `help:"Valkey or Redis to play into."`
	Tenants   string `default:"acme,globex" help:"Tenants whose games are played, a,b,c. They use the same game ids."`
	Duration  string `help:"How long to play, such as 10m. Without it, until stopped."`
	Events    string `default:"0" help:"How many events to write; 0 for no end."`
	playFlags

	valkey   valkey.ClientOption
	duration time.Duration
	config   simulate.Config
}

// playFlags say what is played, for simulate and demo.
type playFlags struct {
	Games string `default:"3" help:"Games played at a time in each tenant."`
	Rate  string `default:"10" help:"Events a second over all games."`
	Seed  string `default:"1" help:"The same seed plays the same games."`
}

func (c *playFlags) read(f *faults) simulate.Config {
	return simulate.Config{
		Games: integer(f, "games", c.Games, 1, 10_000),
		Rate:  number(f, "rate", c.Rate, 0.01, 20_000),
		Seed:  uint64(integer(f, "seed", c.Seed, 0, math.MaxInt)), // #nosec G115 -- not below 0
	}
}

func (c *simulateCommand) check(f *faults) {
	c.valkey = valkeyURL(f, c.ValkeyURL)
	c.config = c.read(f)
	if c.config.Tenants = tenantList(f, "tenants", c.Tenants); c.Tenants == "" {
		f.flag("tenants", "missing; want at least one tenant")
	}
	c.config.Events = integer(f, "events", c.Events, 0, math.MaxInt)
	if c.Duration != "" {
		c.duration = duration(f, "duration", c.Duration, time.Second, 1000*time.Hour)
	}
}

func (c *simulateCommand) run(ctx context.Context, p process) error {
	if c.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.duration)
		defer cancel()
	}
	written, err := play(ctx, p, c.valkey, c.config)
	p.log.Info("played", "events", written)
	return err
}

// play simulates until the configured end or that of the context.
func play(ctx context.Context, p process, option valkey.ClientOption, config simulate.Config) (int, error) {
	client, err := newValkey(option)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	mint, err := newMint()
	if err != nil {
		return 0, err
	}
	config.Logger = p.log
	return simulate.New(config, client, mint).Run(ctx)
}
