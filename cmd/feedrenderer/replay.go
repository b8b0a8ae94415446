package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/consumer"
	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/broadcast"
	"github.com/codemojex/feedrenderer/feed/tenants"
	"github.com/codemojex/feedrenderer/feed/timeline"
	"github.com/codemojex/feedrenderer/migrations"
	"github.com/codemojex/feedrenderer/render"
)

type replayCommand struct {
	again

	Game string `arg:"" help:"TENANT/GAME."`
	From string `env:"-" help:"Where to begin: an EVT id, an entry's id or a time such as 2026-11-30T15:00:00Z; by default with the first entry there is."`
	To   string `env:"-" help:"Where to end, likewise, included; by default with the last entry there is at the start."`

	game     feed.GameKey
	from, to string
}

func (c *replayCommand) check(f *faults) {
	c.again.check(f)
	c.game = gameKey(f, c.Game)
	c.from, c.to = bound(f, "from", c.From), bound(f, "to", c.To)
}

var entryPattern = regexp.MustCompile(`^\d{1,19}-\d{1,19}$`)

// bound reads a place in a stream as a bound of XRANGE: a time is all of its millisecond.
func bound(f *faults, flag, text string) string {
	if text == "" || entryPattern.MatchString(text) {
		return text
	}
	if id, err := feed.ParseID(text); err == nil {
		return id.EntryID()
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.UnixMilli() < 0 {
		f.flag(flag, "%q; want an EVT id, an entry's id such as 1796052639694-0, or a time such as 2026-11-30T15:00:00Z", text)
		return ""
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

func (c *replayCommand) run(ctx context.Context, p process) error {
	return c.open(ctx, c.game.Tenant, func(b *workbench) error {
		so, err := c.replay(ctx, b, p, "replayed", render.NewStreamSource(b.client, c.game, c.from, c.to))
		if err == nil && so.Read == 0 {
			return fmt.Errorf("%s: its stream has no entries there", c.game)
		}
		return err
	})
}

// again is what commands need that take events through the renderer's step once more.
type again struct {
	ValkeyURL   string `help:"Valkey or Redis, over which watchers are told, and where streams are read."`
	DatabaseURL string `help:"Postgres with the lines."`
	Kinds       string `help:"Directory of event kinds (*.toml) that add to the built-in ones or replace them: that of the renderers."`
	Rate        string `default:"2000" help:"Events a second at most, so that live ones are not held up."`

	valkey valkey.ClientOption
	kinds  *render.Kinds
	rate   int
}

func (c *again) check(f *faults) {
	c.valkey = valkeyURL(f, c.ValkeyURL)
	databaseURL(f, c.DatabaseURL)
	c.rate = integer(f, "rate", c.Rate, 1, 1_000_000)
	var err error
	if c.kinds, err = render.LoadKinds(c.Kinds); err != nil {
		f.flag("kinds", "%v", err)
	}
}

// workbench is what the step works with.
type workbench struct {
	pool   *pgxpool.Pool
	client valkey.Client
}

// open does something with both servers, for a tenant that there is: a misspelt one would get lines that nobody is ever
// shown.
func (c *again) open(ctx context.Context, tenant feed.TenantID, do func(*workbench) error) error {
	pool, err := timeline.Open(ctx, c.DatabaseURL, timeline.RoleRender, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := migrations.Check(ctx, pool); err != nil {
		return err
	}
	if _, err := tenants.NewStore(pool).Lookup(ctx, tenant); err != nil {
		return err
	}
	client, err := newValkey(c.valkey)
	if err != nil {
		return err
	}
	defer client.Close()
	return do(&workbench{pool, client})
}

// replay takes a source through the step, shows how it goes, and says in the end what was done and, where it was
// interrupted, how to go on.
func (c *again) replay(ctx context.Context, b *workbench, p process, done string, source render.Source) (render.Progress, error) {
	bar := newBar(p.stderr)
	so, err := render.NewReplay(render.ReplayConfig{
		WorkerConfig: render.WorkerConfig{
			Kinds: c.kinds, Timeline: timeline.NewRerenderer(b.pool), Doorbell: broadcast.NewPublisher(b.client), Logger: p.log,
		},
		Source: source,
		Rate:   c.rate,
		OnReject: func(entry consumer.Message, reason string) {
			bar.clear()
			p.log.Warn("rejected", "stream", entry.Stream, "entry", entry.EntryID, "reason", reason)
		},
		OnProgress: bar.show,
	}).Run(ctx)
	bar.clear()
	if _, printed := fmt.Fprintf(p.stdout, "%s: %d; changed a line: %d, nothing new: %d, without a line: %d, rejected: %d\n",
		done, so.Read, so.Written, so.Same, so.Lineless, so.Rejected); err == nil {
		err = printed
	}
	if err != nil && so.At != "" {
		return so, fmt.Errorf("%w; to go on: --from %s", err, so.At)
	}
	return so, err
}

// bar shows progress: in a terminal as a bar that is drawn anew in its line, elsewhere as a line for each tenth.
type bar struct {
	out      io.Writer
	terminal bool
	begun    time.Time
	drawn    time.Time
	tenths   int
}

const (
	barWidth  = 40
	barRedraw = 100 * time.Millisecond
)

func newBar(out io.Writer) *bar {
	_, terminal := rows(out)
	return &bar{out: out, terminal: terminal, begun: time.Now()}
}

// show draws. That nobody can be shown is no reason to end the work.
func (b *bar) show(so render.Progress) {
	said := fmt.Sprintf("%3.0f %%  %d events, %.0f/s, at %s", 100*so.Share, so.Read, float64(so.Read)/time.Since(b.begun).Seconds(), so.At)
	if !b.terminal {
		if tenths := int(10 * so.Share); tenths > b.tenths {
			b.tenths = tenths
			_, _ = fmt.Fprintln(b.out, said)
		}
		return
	}
	if time.Since(b.drawn) < barRedraw && so.Share < 1 {
		return
	}
	b.drawn = time.Now()
	full := int(barWidth * so.Share)
	_, _ = fmt.Fprintf(b.out, "\r[%s%s] %s\x1b[K", strings.Repeat("#", full), strings.Repeat("-", barWidth-full), said)
}

// clear takes the bar away, for something else to be written.
func (b *bar) clear() {
	if b.terminal && !b.drawn.IsZero() {
		_, _ = io.WriteString(b.out, "\r\x1b[K")
		b.drawn = time.Time{}
	}
}
