package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/web"
)

type deadCommand struct {
	List  deadListCommand  `cmd:"" help:"List the dead letters of a game, oldest first."`
	Show  deadShowCommand  `cmd:"" help:"Show all of one: its fields as they were appended, and what became of it so far."`
	Retry deadRetryCommand `cmd:"" help:"Render some once more. Each becomes a line in its place, or returns with its history."`
	Drop  deadDropCommand  `cmd:"" help:"Forget some for good. Their events never become lines."`
}

// deadGame is the game whose letters are meant, and where they are.
type deadGame struct {
	ValkeyURL string `help:"Valkey or Redis with the streams. Nothing else is asked."`

	Game string `arg:"" help:"TENANT/GAME."`

	valkey valkey.ClientOption
	game   feed.GameKey
}

func (c *deadGame) check(f *faults) {
	c.valkey = valkeyURL(f, c.ValkeyURL)
	c.game = gameKey(f, c.Game)
}

// open does something with the letters.
func (c *deadGame) open(ctx context.Context, do func(context.Context, *group) error) error {
	client, err := newValkey(c.valkey)
	if err != nil {
		return err
	}
	defer client.Close()
	return do(ctx, newGroup(client, "", 0))
}

// deadFilter says which letters are meant by what they are.
type deadFilter struct {
	Kind      string `env:"-" help:"Events of this kind."`
	Reason    string `env:"-" help:"Those whose reason contains this."`
	OlderThan string `env:"-" help:"Those that have been dead letters for so long, such as 1h."`

	olderThan time.Duration
}

func (c *deadFilter) check(f *faults) {
	if c.OlderThan != "" {
		c.olderThan = duration(f, "older-than", c.OlderThan, time.Second, 100*365*24*time.Hour)
	}
}

func (c *deadFilter) query(limit int) web.LettersQuery {
	return web.LettersQuery{Limit: limit, Kind: c.Kind, Reason: c.Reason, OlderThan: c.olderThan}
}

type deadListCommand struct {
	deadGame
	deadFilter

	Limit string `env:"-" default:"20" help:"Letters at most."`
	JSON  bool   `env:"-" help:"For programs: one JSON object a line, with all fields."`

	limit int
}

func (c *deadListCommand) check(f *faults) {
	c.deadGame.check(f)
	c.deadFilter.check(f)
	c.limit = integer(f, "limit", c.Limit, 1, 100_000)
}

func (c *deadListCommand) run(ctx context.Context, p process) error {
	return c.open(ctx, func(ctx context.Context, g *group) error {
		table := tabwriter.NewWriter(p.stdout, 0, 8, 2, ' ', 0)
		n := 0
		err := each(ctx, g, c.game, c.query(c.limit), func(l web.DeadLetter) error {
			if c.JSON {
				return printJSON(p.stdout, l)
			}
			if n++; n == 1 {
				if _, err := fmt.Fprintln(table, "LETTER\tKIND\tATTEMPTS\tRETRIES\tAGE\tREASON"); err != nil {
					return err
				}
			}
			_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\n", l.ID, short(l.Kind, 12), amount(&l.Attempts), len(l.Past), span(time.Since(l.At.Time()).Seconds()), short(l.Reason, 34))
			return err
		})
		return errors.Join(err, table.Flush())
	})
}

// each gives the letters that are asked for, one by one, until the limit or the end.
func each(ctx context.Context, g *group, game feed.GameKey, ask web.LettersQuery, take func(web.DeadLetter) error) error {
	const atOnce = 50
	for left := ask.Limit; left > 0; {
		ask.Limit = min(left, atOnce)
		list, next, err := g.List(ctx, game, ask)
		if err != nil {
			return err
		}
		for _, l := range list {
			if err := take(l); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		left, ask.After = left-len(list), next
	}
	return nil
}

type deadShowCommand struct {
	deadGame

	JSON bool `env:"-" help:"For programs: one JSON object."`

	Letter string `arg:"" help:"Its id, as the list has it."`
}

func (c *deadShowCommand) run(ctx context.Context, p process) error {
	return c.open(ctx, func(ctx context.Context, g *group) error {
		l, err := g.letter(ctx, c.game, c.Letter)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(p.stdout, l)
		}
		var b strings.Builder
		fmt.Fprintf(&b, "letter     %s\nevent      %s, entry %s of %s\nkind       %q\nreason     %q\nattempts   %d\ndelivered  %s, at last to %s\ndead since %s\n",
			l.ID, l.Evt, plain(l.Entry), c.game.Stream(), l.Kind, l.Reason, l.Attempts, l.Delivered, plain(l.Consumer), l.At)
		for _, past := range l.Past {
			fmt.Fprintf(&b, "retried    dead since %s after %d attempts, %q\n", past.At, past.Attempts, past.Reason)
		}
		for _, f := range l.Fields {
			fmt.Fprintf(&b, "  %q = %q\n", f.Name, f.Value)
		}
		_, err = fmt.Fprint(p.stdout, b.String())
		return err
	})
}

// deadSome are letters by id, or by what they are.
type deadSome struct {
	deadGame
	deadFilter

	All     bool     `env:"-" help:"All of the game."`
	Letters []string `arg:"" optional:"" help:"Ids, as the list has them; instead of them --kind, --reason, --older-than or --all."`
}

func (c *deadSome) check(f *faults) {
	c.deadGame.check(f)
	c.deadFilter.check(f)
	filtered := c.Kind != "" || c.Reason != "" || c.OlderThan != ""
	switch {
	case len(c.Letters) == 0 && !filtered && !c.All:
		f.add("which letters? want their ids, or --kind, --reason, --older-than or --all")
	case len(c.Letters) > 0 && (filtered || c.All), filtered && c.All:
		f.add("want either ids of letters, or --kind, --reason and --older-than, or --all")
	}
}

// do does something to each letter. Those meant by what they are were all found before the first is touched: one that
// returns is not met again. It says how many were done, and what failed; those that are gone meanwhile are no failure
// unless they were named.
func (c *deadSome) do(ctx context.Context, p process, done string, one func(*group, context.Context, feed.GameKey, string) error) error {
	return c.open(ctx, func(ctx context.Context, g *group) error {
		ids := c.Letters
		if len(ids) == 0 {
			err := each(ctx, g, c.game, c.query(math.MaxInt), func(l web.DeadLetter) error {
				ids = append(ids, l.ID)
				return nil
			})
			if err != nil {
				return err
			}
		}
		n := 0
		var failed []error
		for _, id := range ids {
			err := one(g, ctx, c.game, id)
			switch {
			case err == nil:
				n++
			case !errors.Is(err, web.ErrNoLetter):
				failed = append(failed, fmt.Errorf("after %d: %w", n, err))
				return errors.Join(failed...) // the server is away
			case len(c.Letters) > 0:
				failed = append(failed, fmt.Errorf("%q: %w", id, err))
			}
		}
		_, err := fmt.Fprintf(p.stdout, "%s: %d\n", done, n)
		return errors.Join(append(failed, err)...)
	})
}

type deadRetryCommand struct{ deadSome }

func (c *deadRetryCommand) run(ctx context.Context, p process) error {
	return c.do(ctx, p, "retried", (*group).Retry)
}

type deadDropCommand struct{ deadSome }

func (c *deadDropCommand) run(ctx context.Context, p process) error {
	return c.do(ctx, p, "dropped", (*group).Drop)
}
