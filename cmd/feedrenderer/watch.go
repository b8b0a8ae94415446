package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/watch"
)

type watchCommand struct {
	URL   string `default:"http://127.0.0.1:8080" help:"Where feeds are served."`
	Token string `help:"Key or watch token, where the tenant's games are not public."`
	Since string `env:"-" help:"Resume from this cursor, <epoch>:<version>, instead of beginning with the newest lines."`
	Limit string `env:"-" default:"20" help:"Lines to begin with."`
	JSON  bool   `env:"-" help:"For programs: one JSON object a line, of line, game, reset or cursor. What was before a cursor need not be asked for again."`

	Game string `arg:"" help:"TENANT/GAME."`

	live  string
	game  feed.GameKey
	since feed.Cursor
	limit int
}

func (c *watchCommand) check(f *faults) {
	c.game = gameKey(f, c.Game)
	c.live = liveURL(f, c.URL, c.game.Tenant)
	c.limit = integer(f, "limit", c.Limit, 1, 500)
	if c.Since != "" {
		var err error
		if c.since, err = feed.ParseCursor(c.Since); err != nil {
			f.flag("since", "%q; want a cursor, <epoch>:<version>", c.Since)
		}
	}
}

// liveURL is the address of a tenant's live endpoint on a site.
func liveURL(f *faults, text string, tenant feed.TenantID) string {
	u, err := url.Parse(text)
	schemes := map[string]string{"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
	if err != nil || u.Host == "" || schemes[u.Scheme] == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		f.flag("url", "%q; want the address of a site, such as https://feeds.example", text)
		return ""
	}
	u.Scheme = schemes[u.Scheme]
	return u.JoinPath("v1", "tenants", string(tenant), "live").String()
}

func (c *watchCommand) run(ctx context.Context, p process) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := &follower{show: c.text, out: p.stdout, at: c.since}
	if c.JSON {
		out.show = c.json
	}
	client := watch.New(watch.Config{
		URLs:  []string{c.live},
		Games: []watch.Game{{ID: c.game.Game, Since: c.since, Limit: c.limit, Keep: c.limit}},
		Token: c.Token,
		OnFrame: func(state *watch.State, frame watch.Frame) {
			if frame.T == "err" {
				p.log.Warn("not shown yet; it is asked for again", "tenant", c.game.Tenant, "game", c.game.Game, "code", frame.Code)
			}
			if err := out.take(state, frame); err != nil {
				stop(err)
			}
		},
		OnLost: func(err error, wait time.Duration) {
			p.log.Warn("connection lost", "again_in", wait.Round(time.Millisecond), "err", err)
		},
		Logger: p.log,
	})
	err := client.Run(ctx)
	if !errors.Is(err, context.Canceled) {
		return err
	}
	if failed := context.Cause(ctx); !errors.Is(failed, context.Canceled) {
		return failed // of what is written to
	}
	if out.at != (feed.Cursor{}) && !c.JSON {
		p.log.Info("to resume", "since", out.at.String())
	}
	return nil
}

// follower writes what is new of a game.
type follower struct {
	show func(io.Writer, news) error
	out  io.Writer
	at   feed.Cursor // everything up to here was written
}

// news is what one frame says that was not said before.
type news struct {
	Lines  []feed.View // in order of version; those of a snapshot in order of place
	Game   *feed.Game
	Reset  string
	Cursor feed.Cursor // zero where it did not move
}

func (w *follower) take(state *watch.State, f watch.Frame) error {
	n := news{Reset: f.Reason}
	if f.Header != nil && f.Header == state.Header {
		n.Game = f.Header
	}
	if state.Cursor != w.at {
		n.Cursor = state.Cursor
		for _, line := range f.Lines {
			if state.Cursor.Epoch != w.at.Epoch || line.Ver > w.at.Ver {
				n.Lines = append(n.Lines, line)
			}
		}
		if f.T == "snap" {
			slices.Reverse(n.Lines)
		}
		w.at = state.Cursor
	}
	return w.show(w.out, n)
}

// text writes a line for each line, and for what there is to say of the game as a whole.
func (c *watchCommand) text(out io.Writer, n news) error {
	var b strings.Builder
	if n.Reset != "" {
		fmt.Fprintf(&b, "-- begins anew: %s\n", n.Reset)
	}
	for _, line := range n.Lines {
		said := line.Text
		switch line.State {
		case feed.Corrected:
			said += "  (corrected)"
		case feed.Retracted:
			said = strings.TrimSuffix("(retracted) "+line.Reason, " ")
		}
		fmt.Fprintf(&b, "%s  %s  %-10s  %s\n", line.At, line.Evt, plain(line.Kind), plain(said))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// plain makes a text harmless to a terminal: whoever writes events must not write to the screen of those who watch.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// json writes an object for each part of the news, the cursor last.
func (c *watchCommand) json(out io.Writer, n news) error {
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	var parts []any
	if n.Reset != "" {
		parts = append(parts, map[string]string{"reset": n.Reset})
	}
	for _, line := range n.Lines {
		parts = append(parts, map[string]feed.View{"line": line})
	}
	if n.Game != nil {
		parts = append(parts, map[string]*feed.Game{"game": n.Game})
	}
	if n.Cursor != (feed.Cursor{}) {
		parts = append(parts, map[string]feed.Cursor{"cursor": n.Cursor})
	}
	for _, part := range parts {
		if err := lines.Encode(part); err != nil {
			return err
		}
	}
	return nil
}
