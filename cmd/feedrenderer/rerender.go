package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/timeline"
	"github.com/codemojex/feedrenderer/render"
)

type rerenderCommand struct {
	again

	Of   string `arg:"" help:"TENANT or TENANT/GAME."`
	Kind string `env:"-" help:"Events of this kind alone."`
	From string `env:"-" help:"Where to go on, GAME and EVT id, as an interrupted run said."`

	of feed.GameKey
}

func (c *rerenderCommand) check(f *faults) {
	c.again.check(f)
	if strings.Contains(c.Of, "/") {
		c.of = gameKey(f, c.Of)
	} else {
		c.of.Tenant = tenantName(f, c.Of)
	}
	if _, err := render.NewStoredSource(nil, c.kinds, c.of, c.Kind, c.From); err != nil {
		f.flag("from", "%v", err)
	}
}

func (c *rerenderCommand) run(ctx context.Context, p process) error {
	return c.open(ctx, c.of.Tenant, func(b *workbench) error {
		source, err := render.NewStoredSource(timeline.NewWriter(b.pool), c.kinds, c.of, c.Kind, c.From)
		if err != nil {
			return fmt.Errorf("rerender %s: %w", c.Of, err)
		}
		_, err = c.replay(ctx, b, p, "rendered anew", source)
		return err
	})
}
