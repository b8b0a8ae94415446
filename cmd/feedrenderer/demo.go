package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
	"golang.org/x/sync/errgroup"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
	"github.com/codemojex/feedrenderer/internal/servers"
	"github.com/codemojex/feedrenderer/internal/simulate"
	"github.com/codemojex/feedrenderer/migrations"
	"github.com/codemojex/feedrenderer/watch"
)

type demoCommand struct {
	ValkeyURL   string `help:"Valkey or Redis to use; by default a private one is started."`
	DatabaseURL string `help:"Postgres to use; by default a private one is started."`
	Listen      string `default:"127.0.0.1:8080" help:"Address of the first web process; where it is taken, a free port."`
	playFlags

	config simulate.Config
}

const (
	demoRenderers = 3
	demoWebs      = 2
	demoPatience  = time.Minute // from the servers' start to the first moving line
)

// demoTenants are for everybody, secluded is watched with a key. All use the same game ids.
var demoTenants = []feed.TenantID{"acme", "globex"}

const secluded = feed.TenantID("initech")

func (c *demoCommand) check(f *faults) {
	if c.ValkeyURL != "" {
		valkeyURL(f, c.ValkeyURL)
	}
	if c.DatabaseURL != "" {
		databaseURL(f, c.DatabaseURL)
	}
	listenAddress(f, "listen", c.Listen)
	c.config = c.read(f)
	c.config.Tenants, c.config.Endless = append(slices.Clone(demoTenants), secluded), stage
}

// run starts everything in the order in which it is needed, says when a watcher sees lines, and ends it in the other
// order. All processes are tied to this one by the kernel: they end however this one does.
func (c *demoCommand) run(ctx context.Context, p process) (err error) {
	backends, err := c.startServers(ctx)
	defer func() { err = errors.Join(untilStopped(ctx, err), backends.stop()) }()
	if err != nil {
		return err
	}
	if err := migrations.Up(ctx, backends.postgres.URL); err != nil {
		return err
	}
	keys, err := makeKeys(ctx, backends.postgres.URL)
	if err != nil {
		return err
	}
	var replicas replicas
	defer func() { err = errors.Join(err, replicas.stop()) }()
	addresses, err := c.startReplicas(ctx, p, &replicas, backends)
	if err != nil {
		return err
	}

	option, err := valkey.ParseURL(backends.valkey.URL)
	if err != nil {
		return err
	}
	parts, life := errgroup.WithContext(ctx)
	parts.Go(func() error {
		_, err := play(life, p, option, c.config)
		return err
	})
	parts.Go(func() error { return replicas.keep(life, p.log) })
	parts.Go(func() error {
		if err := moving(life, addresses[0]); err != nil {
			return err
		}
		return announce(p.stdout, addresses, &replicas, c.program(backends), keys)
	})
	return parts.Wait()
}

// demoServers are Valkey and Postgres, ours or those that were named.
type demoServers struct {
	valkey   *servers.Valkey
	postgres *servers.Postgres
}

func (c *demoCommand) startServers(ctx context.Context) (*demoServers, error) {
	s := &demoServers{}
	var starting errgroup.Group
	starting.Go(func() (err error) {
		s.valkey, err = servers.StartValkey(ctx, servers.ValkeyConfig{URL: c.ValkeyURL})
		return err
	})
	starting.Go(func() (err error) {
		s.postgres, err = servers.StartPostgres(ctx, servers.PostgresConfig{URL: c.DatabaseURL})
		return err
	})
	return s, starting.Wait()
}

func (s *demoServers) stop() error {
	var stopping errgroup.Group
	if s.valkey != nil {
		stopping.Go(s.valkey.Stop)
	}
	if s.postgres != nil {
		stopping.Go(s.postgres.Stop)
	}
	return stopping.Wait()
}

// demoKeyLife bounds what a demo leaves in a database that was named.
const demoKeyLife = 24 * time.Hour

// demoKeys are the credentials that the demo tells of.
type demoKeys struct {
	watch   string // of the secluded tenant
	operate string // of the first of the others
}

// makeKeys makes the keys, and before them the tenants that they are of.
func makeKeys(ctx context.Context, databaseURL string) (keys demoKeys, err error) {
	expires := time.Now().Add(demoKeyLife)
	err = manage(ctx, databaseURL, func(admin *tenants.Admin) error {
		for _, key := range []struct {
			of   tenants.Tenant
			role tenants.Role
			text *string
		}{
			{tenants.Tenant{ID: secluded}, tenants.Watch, &keys.watch},
			{tenants.Tenant{ID: demoTenants[0], Public: true}, tenants.Operate, &keys.operate},
		} {
			if err := admin.Create(ctx, key.of); err != nil && !errors.Is(err, tenants.ErrExists) {
				return err
			}
			_, text, err := admin.CreateKey(ctx, key.of.ID, key.role, "demo", &expires)
			if err != nil {
				return err
			}
			*key.text = text.Reveal()
		}
		return nil
	})
	return keys, err
}

// startReplicas starts renderers and web processes, and gives the public addresses of the latter.
func (c *demoCommand) startReplicas(ctx context.Context, p process, all *replicas, s *demoServers) ([]string, error) {
	public := make([]string, len(demoTenants))
	for i, tenant := range demoTenants {
		public[i] = string(tenant)
	}
	start := func(name, role string, more ...string) error {
		arguments := append([]string{
			"serve", "--roles", role, "--tenants", strings.Join(public, ","), "--log-level", "warn",
			"--private-listen", "127.0.0.1:0", "--grace", "3s",
		}, more...)
		return all.start(name, p, arguments, "VALKEY_URL="+s.valkey.URL, "DATABASE_URL="+s.postgres.URL)
	}
	for i := range demoRenderers {
		if err := start(fmt.Sprintf("renderer-%d", i+1), "render", "--min-idle", "5s"); err != nil {
			return nil, err
		}
	}
	addresses := make([]string, demoWebs)
	for i := range addresses {
		var err error
		if i == 0 {
			addresses[i], err = freeAddress(ctx, c.Listen)
		} else {
			addresses[i], err = servers.FreeAddress()
		}
		if err != nil {
			return nil, err
		}
		if err := start(fmt.Sprintf("web-%d", i+1), "web", "--listen", addresses[i]); err != nil {
			return nil, err
		}
	}
	return addresses, nil
}

// stage is the game that never ends, so that its page never stands still.
const stage = feed.GameID("g1")

var errStill = errors.New("no line moves")

// moving waits until a watcher sees lines arrive.
func moving(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, demoPatience, errStill)
	defer cancel()
	tenant := address + "/v1/tenants/" + string(demoTenants[0])
	for !answers(ctx, "http://"+tenant+"/games/"+string(stage)) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
	watching, seen := context.WithCancel(ctx)
	defer seen()
	client := watch.New(watch.Config{
		URLs:  []string{"ws://" + tenant + "/live"},
		Games: []watch.Game{{ID: stage, Keep: 1}},
		OnFrame: func(_ *watch.State, frame watch.Frame) {
			if frame.T == "lines" && len(frame.Lines) > 0 {
				seen()
			}
		},
	})
	if err := client.Run(watching); watching.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

func answers(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close() // the status is all
	return response.StatusCode == http.StatusOK
}

// program is how to run this program beside the demo. What the user named may hold a password, and is known to him.
func (c *demoCommand) program(s *demoServers) string {
	if c.ValkeyURL != "" {
		return os.Args[0]
	}
	return "VALKEY_URL=" + s.valkey.URL + " " + os.Args[0]
}

// announce tells people where to look, and how to have a say.
func announce(out io.Writer, addresses []string, all *replicas, program string, keys demoKeys) error {
	var lobbies strings.Builder
	for _, address := range addresses {
		for _, tenant := range demoTenants {
			fmt.Fprintf(&lobbies, "  http://%s/%s/\n", address, tenant)
		}
	}
	_, err := fmt.Fprintf(out, `ready http://%[1]s/%[2]s/%[3]s

All games of two tenants that are for everybody, by either web process:
%[4]s
A tenant that is not, with the key that it takes behind the #, which no browser sends along:
  http://%[1]s/%[7]s/%[3]s#token=%[8]s

What operators see of %[2]s, and the key that the page asks for:
  http://%[1]s/%[2]s/-/operate
  %[9]s

A word of your own, from another terminal:
  %[5]s append %[2]s/%[3]s kind=notice text=hello

The processes: %[6]s
Kill one and see nothing happen: another takes over, and it starts again.
Ctrl-C ends all of it and leaves nothing behind.
`, addresses[0], demoTenants[0], stage, lobbies.String(), program, all, secluded, keys.watch, keys.operate)
	return err
}
