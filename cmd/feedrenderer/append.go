package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
)

type appendCommand struct {
	ValkeyURL string `help:"Valkey or Redis with the streams."`

	Game   string   `arg:"" help:"TENANT/GAME."`
	Fields []string `arg:"" optional:"" sep:"none" help:"Fields as name=value, for instance kind=scored player=alex pct=87."`

	valkey valkey.ClientOption
	game   feed.GameKey
	fields feed.Fields
}

func (c *appendCommand) check(f *faults) {
	c.valkey = valkeyURL(f, c.ValkeyURL)
	c.game = gameKey(f, c.Game)
	for _, text := range c.Fields {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			f.add(fmt.Sprintf("%q is no field; want name=value", text))
		}
		if _, twice := c.fields.Lookup(name); twice || name == "id" {
			f.add(fmt.Sprintf("field %q: want each name once, and not id, which is minted", name))
		}
		c.fields = append(c.fields, feed.Field{Name: name, Value: value})
	}
}

func (c *appendCommand) run(ctx context.Context, p process) error {
	client, err := newValkey(c.valkey)
	if err != nil {
		return err
	}
	defer client.Close()
	mint, err := newMint()
	if err != nil {
		return err
	}
	id, err := feed.NewProducer(client, mint).Append(ctx, c.game, c.fields)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.stdout, id)
	return err
}

// newMint mints for a node number drawn at random. Where two processes draw the same one, the server refuses the id that
// would be there twice, and the producer mints anew.
func newMint() (*feed.Mint, error) {
	return feed.NewMint(rand.IntN(feed.MaxNode + 1)) // #nosec G404 -- no secret
}
