package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

type tenantCommand struct {
	Create  tenantCreateCommand  `cmd:"" help:"Make a tenant."`
	List    tenantListCommand    `cmd:"" help:"List tenants and their limits."`
	Suspend tenantSuspendCommand `cmd:"" help:"Serve nothing of a tenant any more, to open sockets either."`
	Resume  tenantResumeCommand  `cmd:"" help:"Serve a suspended tenant again."`
	Change  tenantChangeCommand  `cmd:"" help:"Change what is given: who may watch, and limits of each web process. 0 is the default of a limit."`
}

// manage runs a piece of work as the role that manages tenants.
func manage(ctx context.Context, databaseURL string, do func(*tenants.Admin) error) error {
	pool, err := timeline.Open(ctx, databaseURL, tenants.AdminRole, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	return do(tenants.NewAdmin(pool))
}

func tenantName(f *faults, text string) feed.TenantID {
	id, err := feed.ParseTenantID(text)
	if err != nil {
		f.add(err.Error())
	}
	return id
}

type tenantCreateCommand struct {
	DatabaseURL string `help:"Postgres with the lines."`
	Public      bool   `help:"Let anybody watch its games."`

	Tenant string `arg:"" help:"TENANT."`

	id feed.TenantID
}

func (c *tenantCreateCommand) check(f *faults) {
	databaseURL(f, c.DatabaseURL)
	c.id = tenantName(f, c.Tenant)
}

func (c *tenantCreateCommand) run(ctx context.Context, _ process) error {
	return manage(ctx, c.DatabaseURL, func(admin *tenants.Admin) error {
		return admin.Create(ctx, tenants.Tenant{ID: c.id, Public: c.Public})
	})
}

type tenantListCommand struct {
	DatabaseURL string `help:"Postgres with the lines."`
}

func (c *tenantListCommand) check(f *faults) { databaseURL(f, c.DatabaseURL) }

func (c *tenantListCommand) run(ctx context.Context, p process) error {
	return manage(ctx, c.DatabaseURL, func(admin *tenants.Admin) error {
		list, err := admin.List(ctx)
		if err != nil {
			return err
		}
		return printTenants(p.stdout, list)
	})
}

// printTenants prints a table; its limits are those in force.
func printTenants(w io.Writer, list []tenants.Tenant) error {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if _, err := fmt.Fprintln(table, "TENANT\tWATCHED BY\tSTATE\tSOCKETS\tJOINS/S\tREQUESTS/S\tEVENTS/S\tGAMES\tEVENT BYTES"); err != nil {
		return err
	}
	for _, t := range list {
		by, state, l := "keys", "served", t.Limits.Filled()
		if t.Public {
			by = "anybody"
		}
		if t.Suspended {
			state = "suspended"
		}
		if _, err := fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n", t.ID, by, state, l.Sockets, l.Joins, l.Requests, l.Events, l.Games, l.EventBytes); err != nil {
			return err
		}
	}
	return table.Flush()
}

type tenantSuspendCommand struct {
	DatabaseURL string `help:"Postgres with the lines."`

	Tenant string `arg:"" help:"TENANT."`

	id feed.TenantID
}

func (c *tenantSuspendCommand) check(f *faults) {
	databaseURL(f, c.DatabaseURL)
	c.id = tenantName(f, c.Tenant)
}

func (c *tenantSuspendCommand) run(ctx context.Context, p process) error {
	yes := true
	return change(ctx, p, c.DatabaseURL, c.id, tenants.Change{Suspended: &yes})
}

type tenantResumeCommand tenantSuspendCommand

func (c *tenantResumeCommand) check(f *faults) { (*tenantSuspendCommand)(c).check(f) }

func (c *tenantResumeCommand) run(ctx context.Context, p process) error {
	no := false
	return change(ctx, p, c.DatabaseURL, c.id, tenants.Change{Suspended: &no})
}

// change changes a tenant and prints it as it is then.
func change(ctx context.Context, p process, databaseURL string, id feed.TenantID, change tenants.Change) error {
	return manage(ctx, databaseURL, func(admin *tenants.Admin) error {
		tenant, err := admin.Change(ctx, id, change)
		if err != nil {
			return err
		}
		return printTenants(p.stdout, []tenants.Tenant{tenant})
	})
}

type tenantChangeCommand struct {
	DatabaseURL   string `help:"Postgres with the lines."`
	WatchedBy     string `help:"Who may watch its games: anybody, or holders of its keys and tokens alone (keys)."`
	MaxSockets    string `help:"Sockets and event streams open at a time."`
	MaxJoins      string `help:"Subscriptions a second."`
	MaxRequests   string `help:"Requests a second."`
	MaxEvents     string `help:"Events appended over HTTP a second."`
	MaxGames      string `help:"Games that appending over HTTP may fill."`
	MaxEventBytes string `help:"Bytes of names and values of one event."`

	Tenant string `arg:"" help:"TENANT."`

	id     feed.TenantID
	change tenants.Change
}

func (c *tenantChangeCommand) check(f *faults) {
	databaseURL(f, c.DatabaseURL)
	c.id = tenantName(f, c.Tenant)
	if c.WatchedBy != "" {
		public := choice(f, "watched-by", c.WatchedBy, map[string]bool{"anybody": true, "keys": false})
		c.change.Public = &public
	}
	l := &c.change.Limits
	for _, limit := range []struct {
		flag, text string
		into       **int32
	}{
		{"max-sockets", c.MaxSockets, &l.Sockets},
		{"max-joins", c.MaxJoins, &l.Joins},
		{"max-requests", c.MaxRequests, &l.Requests},
		{"max-events", c.MaxEvents, &l.Events},
		{"max-games", c.MaxGames, &l.Games},
		{"max-event-bytes", c.MaxEventBytes, &l.EventBytes},
	} {
		if limit.text != "" {
			n := int32(integer(f, limit.flag, limit.text, 0, 1_000_000_000)) // #nosec G115 -- in range
			*limit.into = &n
		}
	}
	if c.change == (tenants.Change{}) {
		f.add("nothing to change; `feedrenderer tenant change --help` lists what can be")
	}
}

func (c *tenantChangeCommand) run(ctx context.Context, p process) error {
	return change(ctx, p, c.DatabaseURL, c.id, c.change)
}
