package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed/broadcast"
	"github.com/codemojex/feedrenderer/feed/tenants"
	"github.com/codemojex/feedrenderer/feed/timeline"
	"github.com/codemojex/feedrenderer/migrations"
)

// backends are the servers that a serve process works with.
type backends struct {
	valkey    valkey.Client
	listening valkey.Client         // subscribes, and nothing else; nil without the web role
	ears      *broadcast.Subscriber // over it; likewise
	render    *pgxpool.Pool         // in the role that writes; without the render role, for the few things that operators do
	web       *pgxpool.Pool         // in the role that reads; nil without the web role
	admin     *pgxpool.Pool         // in the role that manages tenants; likewise
}

// bell rings for other processes, and at once for this one where it has watchers.
func (b *backends) bell() *broadcast.Publisher {
	bell := broadcast.NewPublisher(b.valkey)
	if b.ears != nil {
		bell = bell.Near(b.ears)
	}
	return bell
}

func (b *backends) close() {
	for _, pool := range []*pgxpool.Pool{b.render, b.web, b.admin} {
		if pool != nil {
			pool.Close()
		}
	}
	for _, client := range []valkey.Client{b.listening, b.valkey} {
		if client != nil {
			client.Close()
		}
	}
}

// connect waits for both servers and for the schema, telling readiness what it waits for. That a server will not have us
// is an error at once. The end of the context gives nothing and no error.
func (c *serveCommand) connect(ctx context.Context, log *slog.Logger, state *state) (_ *backends, err error) {
	b := &backends{}
	defer func() {
		if err != nil || ctx.Err() != nil {
			b.close()
		}
	}()
	err = insist(ctx, log, state, "valkey", func() (err error) {
		if b.valkey == nil {
			if b.valkey, err = newValkey(c.settings.valkey); err != nil {
				b.valkey = nil
				return err
			}
		}
		if c.settings.web && b.listening == nil {
			if b.listening, err = newValkey(broadcast.SubscriberOption(c.settings.valkey)); err != nil {
				b.listening = nil
				return err
			}
			b.ears = broadcast.NewSubscriber(b.listening, log)
		}
		return err
	})
	if err != nil {
		return nil, untilStopped(ctx, err)
	}
	state.check("valkey", func(ctx context.Context) error { return b.valkey.Do(ctx, b.valkey.B().Ping().Build()).Error() })

	writers := c.settings.connections
	if !c.settings.render {
		writers = 1
	}
	if b.render, err = timeline.Open(ctx, c.DatabaseURL, timeline.RoleRender, writers); err != nil {
		return nil, err
	}
	if c.settings.web {
		if b.web, err = timeline.Open(ctx, c.DatabaseURL, timeline.RoleWeb, c.settings.connections); err != nil {
			return nil, err
		}
		if b.admin, err = timeline.Open(ctx, c.DatabaseURL, tenants.AdminRole, adminConnections); err != nil {
			return nil, err
		}
	}
	if err := insist(ctx, log, state, "postgres", func() error { return c.prepare(ctx, b) }); err != nil {
		return nil, untilStopped(ctx, err)
	}
	state.check("postgres", b.ping)
	return b, nil
}

// prepare sees that the database answers in the roles we work in and has our schema, and makes the tenants of the command
// line.
func (c *serveCommand) prepare(ctx context.Context, b *backends) error {
	ctx, cancel := context.WithTimeout(ctx, attemptPatience)
	defer cancel()
	if err := b.ping(ctx); err != nil {
		return err
	}
	if err := migrations.Check(ctx, b.render); err != nil {
		return err
	}
	return tenants.NewStore(b.render).Ensure(ctx, c.settings.tenants)
}

func (b *backends) ping(ctx context.Context) error {
	for _, pool := range []*pgxpool.Pool{b.render, b.web, b.admin} {
		if pool == nil {
			continue
		}
		if err := pool.Ping(ctx); err != nil {
			return err
		}
	}
	return nil
}

// newValkey connects; the library does it at once, and on its own time.
func newValkey(option valkey.ClientOption) (valkey.Client, error) {
	option.DisableCache = true
	if option.Dialer.Timeout == 0 {
		option.Dialer.Timeout = attemptPatience
	}
	client, err := valkey.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("connect to valkey: %w", err)
	}
	return client, nil
}

// adminConnections are few: tenants are managed rarely, and a watch token costs one short query.
const adminConnections = 2

const (
	attemptPatience = 3 * time.Second
	firstPause      = 100 * time.Millisecond
	longestPause    = 3 * time.Second
)

// insist repeats an attempt, ever more slowly, until it succeeds, can never succeed, or the context ends. A wait is
// logged when it begins and when it ends.
func insist(ctx context.Context, log *slog.Logger, state *state, what string, attempt func() error) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := attempt()
		switch {
		case err == nil && pause > firstPause:
			log.Info("reached", "server", what)
			return nil
		case err == nil || hopeless(err) || ctx.Err() != nil:
			return err
		case pause == firstPause:
			log.Warn("waiting for a server", "server", what, "err", err)
		}
		state.check(what, func(context.Context) error { return err })
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// untilStopped takes an error that comes of being stopped for none.
func untilStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// hopeless reports whether a server answered that it will not have us, which no waiting mends: a wrong user or
// password, or no such database.
func hopeless(err error) bool {
	var reply *valkey.ValkeyError
	if errors.As(err, &reply) {
		return slices.ContainsFunc([]string{"WRONGPASS", "NOAUTH", "NOPERM"}, func(code string) bool {
			return strings.HasPrefix(reply.Error(), code)
		})
	}
	var answer *pgconn.PgError
	return errors.As(err, &answer) && (strings.HasPrefix(answer.Code, "28") || answer.Code == "3D000")
}
