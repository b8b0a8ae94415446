// Package watch follows live feeds from Go programs: the watch protocol of package web, with its rules kept for you.
//
//	client := watch.New(watch.Config{
//		URLs:  []string{"ws://feeds.example/v1/tenants/acme/live"},
//		Games: []watch.Game{{ID: "g1"}},
//		OnFrame: func(state *watch.State, frame watch.Frame) { ... },
//	})
//	err := client.Run(ctx)
//
// A [State] holds a game; a [Client] keeps any number of them true over one connection at a time, resumed by cursor
// whenever that breaks; a [Conn] is one connection without a memory.
package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/codemojex/feedrenderer/feed"
)

// Config is what a client is made of.
type Config struct {
	URLs    []string // live endpoints of one tenant, tried in turn: the next after each lost connection
	Games   []Game
	Token   string                              // where the tenant's games are not public
	OnFrame func(state *State, frame Frame)     // after each frame of a game and each tick, in order, from Run's goroutine; nil: nobody
	OnLost  func(err error, wait time.Duration) // a connection was lost or not made, the next try is after wait; nil: nobody
	Logger  *slog.Logger                        // nil: slog.Default()

	Tick    time.Duration // the server's: a connection silent for 6 s more is given up. 0: 10 s
	Backoff time.Duration // the first window of reconnecting, doubled each time up to 30 times it. 0: 1 s
}

// Game is a game to follow.
type Game struct {
	ID    feed.GameID
	Since feed.Cursor // resume from here; zero: begin with a snapshot
	Limit int         // lines of a snapshot; 0: the server's default
	Keep  int         // lines held at most; 0: all
}

// RefusedError is returned when the server says "do not come back".
type RefusedError struct {
	Code int // of the close, from 4500 on
	err  error
}

func (e *RefusedError) Error() string { return fmt.Sprintf("refused with %d: %v", e.Code, e.err) }
func (e *RefusedError) Unwrap() error { return e.err }

// Client follows games.
type Client struct {
	config  Config
	watches []*watched
	tries   int       // since the last frame
	due     time.Time // of the next connection, where a bye said so
}

type watched struct {
	state State
	limit int
	asked int   // ticks since an unanswered sub, from 1
	tail  int64 // the version that the tick before this spoke of
}

// final is the first close code that means "do not come back".
const final = 4500

// dead is the silence beyond a tick after which a connection is given up.
const dead = 6 * time.Second

// New makes a client. It connects in Run.
func New(config Config) *Client {
	config.Tick = cmp.Or(config.Tick, 10*time.Second)
	config.Backoff = cmp.Or(config.Backoff, time.Second)
	config.Logger = cmp.Or(config.Logger, slog.Default())
	if config.OnFrame == nil {
		config.OnFrame = func(*State, Frame) {}
	}
	if config.OnLost == nil {
		config.OnLost = func(error, time.Duration) {}
	}
	c := &Client{config: config}
	for _, game := range config.Games {
		c.watches = append(c.watches, &watched{
			state: State{Game: game.ID, Cursor: game.Since, Keep: game.Keep}, limit: game.Limit,
		})
	}
	return c
}

// Run follows until the context ends, whose error it returns, or until the server refuses for good ([*RefusedError]).
// It comes back after every loss, at a random moment of a window that doubles (full jitter), or of the one that the
// server's bye announced.
func (c *Client) Run(ctx context.Context) error {
	if len(c.config.URLs) == 0 {
		return errors.New("watch: no URL")
	}
	for turn := 0; ; turn++ {
		err := c.connection(ctx, c.config.URLs[turn%len(c.config.URLs)])
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if code := CloseCode(err); code >= final {
			return &RefusedError{code, err}
		}
		wait := time.Until(c.due)
		if c.due.IsZero() {
			window := min(c.config.Backoff<<min(c.tries, 16), 30*c.config.Backoff)
			wait = rand.N(window)
		}
		c.due = time.Time{}
		c.tries++
		c.config.OnLost(err, max(0, wait))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

var errSilent = errors.New("the server is silent")

// connection follows over one connection until it ends.
func (c *Client) connection(ctx context.Context, url string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := c.config.Tick + dead
	silence := time.AfterFunc(quiet, func() { cancel(errSilent) })
	defer silence.Stop()

	conn, err := Dial(ctx, url)
	if err != nil {
		return err
	}
	defer func() {
		if err := conn.CloseNow(); err != nil {
			c.config.Logger.Debug("watch connection closed", "err", err)
		}
	}()
	if c.config.Token != "" {
		if err := conn.Authenticate(ctx, c.config.Token); err != nil {
			return err
		}
	}
	for _, w := range c.watches {
		if err := c.ask(ctx, conn, w); err != nil {
			return err
		}
	}
	for {
		f, err := conn.Read(ctx)
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		silence.Reset(quiet)
		c.tries = 0
		if f.T == "bye" {
			wait := time.Duration(f.After)*time.Millisecond + time.Duration(rand.Float64()*float64(f.Spread)*float64(time.Millisecond))
			c.due = time.Now().Add(wait)
			defer time.AfterFunc(wait, func() { cancel(errBye) }).Stop()
			continue
		}
		if err := c.take(ctx, conn, f); err != nil {
			return err
		}
	}
}

var errBye = errors.New("the server said goodbye")

func (c *Client) ask(ctx context.Context, conn *Conn, w *watched) error {
	w.asked, w.tail = 1, 0
	return conn.Subscribe(ctx, w.state.Game, w.state.Cursor, w.limit)
}

// take applies a frame and asks again where that is called for: at a gap at once, at a tick for what stayed unanswered,
// refused or behind since the tick before.
func (c *Client) take(ctx context.Context, conn *Conn, f Frame) error {
	for _, w := range c.watches {
		if f.T != "tick" && f.Game != w.state.Game {
			continue
		}
		ask := w.state.Apply(f)
		switch f.T {
		case "snap", "delta", "err":
			if !ask {
				w.asked = 0
			}
			ask = ask && w.asked == 0
		case "tick":
			ask = w.asked > 1 || w.state.Refusal != "" || w.asked == 0 && w.tail > w.state.Cursor.Ver
			if w.asked > 0 {
				w.asked++
			}
			w.tail = w.state.Announced
		default:
			ask = ask && w.asked == 0
		}
		c.config.OnFrame(&w.state, f)
		if ask {
			if err := c.ask(ctx, conn, w); err != nil {
				return err
			}
		}
	}
	return nil
}
