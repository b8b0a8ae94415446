package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/broadcast"
	"github.com/codemojex/feedrenderer/feed/tenants"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

type modeCommand struct {
	ValkeyURL   string `help:"Valkey or Redis, over which watchers are told."`
	DatabaseURL string `help:"Postgres with the lines."`

	Game string `arg:"" help:"TENANT/GAME."`
	Mode string `arg:"" help:"classic, golden or blind. Scores of a classic or golden game show from then on."`

	valkey valkey.ClientOption
	game   feed.GameKey
	mode   feed.Mode
}

func (c *modeCommand) check(f *faults) {
	c.valkey = valkeyURL(f, c.ValkeyURL)
	databaseURL(f, c.DatabaseURL)
	c.game = gameKey(f, c.Game)
	if c.mode = feed.ParseMode(c.Mode); c.mode == feed.ModeUnknown {
		f.add(fmt.Sprintf("mode %q; want classic, golden or blind", c.Mode))
	}
}

func (c *modeCommand) run(ctx context.Context, p process) error {
	pool, err := timeline.Open(ctx, c.DatabaseURL, timeline.RoleRender, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := tenants.NewStore(pool).Lookup(ctx, c.game.Tenant); err != nil {
		return err // a misspelt tenant would get a game that nobody is ever shown
	}
	client, err := newValkey(c.valkey)
	if err != nil {
		return err
	}
	defer client.Close()
	return setMode(ctx, timeline.NewWriter(pool), broadcast.NewPublisher(client), p.log, c.game, c.mode)
}

// setMode states a mode and rings for what that shows. Where the bell fails, the mode is set all the same.
func setMode(ctx context.Context, writer *timeline.Writer, doorbell *broadcast.Publisher, log *slog.Logger, game feed.GameKey, mode feed.Mode) error {
	changes, err := writer.SetMode(ctx, game, mode)
	if err != nil {
		return err
	}
	if err := doorbell.Publish(ctx, changes); err != nil {
		log.Warn("mode is set, but watchers hear of it only at their next sweep", "tenant", game.Tenant, "game", game.Game, "err", err)
	}
	return nil
}
