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
	Change  tenantChangeCommand  `cmd:"" help:"Change what is given: who may watch, limits of each web process, and for how long what is its is kept. 0 is the default: of a limit, or for ever."`
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

// ofTenant is what each command about one tenant takes.
type ofTenant struct {
	DatabaseURL string `help:"Postgres with the lines."`

	Tenant string `arg:"" help:"TENANT."`

	id feed.TenantID
}

func (c *ofTenant) check(f *faults) {
	databaseURL(f, c.DatabaseURL)
	c.id = tenantName(f, c.Tenant)
}

func (c *ofTenant) manage(ctx context.Context, do func(*tenants.Admin) error) error {
	return manage(ctx, c.DatabaseURL, do)
}

// change changes the tenant and prints it as it is then.
func (c *ofTenant) change(ctx context.Context, p process, change tenants.Change) error {
	return c.manage(ctx, func(admin *tenants.Admin) error {
		tenant, err := admin.Change(ctx, c.id, change)
		if err != nil {
			return err
		}
		return printTenants(p.stdout, []tenants.Tenant{tenant})
	})
}

type tenantCreateCommand struct {
	ofTenant
	Public bool `env:"-" help:"Let anybody watch its games."`
}

func (c *tenantCreateCommand) run(ctx context.Context, _ process) error {
	return c.manage(ctx, func(admin *tenants.Admin) error {
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
	if _, err := fmt.Fprintln(table, "TENANT\tWATCHED BY\tSTATE\tSOCKETS\tJOINS/S\tREQUESTS/S\tEVENTS/S\tGAMES\tEVENT BYTES\tLINES KEPT\tENTRIES KEPT"); err != nil {
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
		if _, err := fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", t.ID, by, state,
			l.Sockets, l.Joins, l.Requests, l.Events, l.Games, l.EventBytes, days(l.RetentionDays), days(l.StreamDays)); err != nil {
			return err
		}
	}
	return table.Flush()
}

func days(n int) string {
	if n == 0 {
		return "for ever"
	}
	return fmt.Sprint(n, " days")
}

type tenantSuspendCommand struct{ ofTenant }

func (c *tenantSuspendCommand) run(ctx context.Context, p process) error {
	return c.change(ctx, p, tenants.Change{Suspended: new(true)})
}

type tenantResumeCommand struct{ ofTenant }

func (c *tenantResumeCommand) run(ctx context.Context, p process) error {
	return c.change(ctx, p, tenants.Change{Suspended: new(false)})
}

type tenantChangeCommand struct {
	ofTenant
	WatchedBy     string `env:"-" help:"Who may watch its games: anybody, or holders of its keys and tokens alone (keys)."`
	MaxSockets    string `env:"-" help:"Sockets and event streams open at a time."`
	MaxJoins      string `env:"-" help:"Subscriptions a second."`
	MaxRequests   string `env:"-" help:"Requests a second."`
	MaxEvents     string `env:"-" help:"Events appended over HTTP a second."`
	MaxGames      string `env:"-" help:"Games that appending over HTTP may fill."`
	MaxEventBytes string `env:"-" help:"Bytes of names and values of one event."`
	RetentionDays string `env:"-" help:"Days for which lines are kept after their game's end."`
	StreamDays    string `env:"-" help:"Days for which entries that every group has settled are kept in the streams of games."`

	to tenants.Change
}

func (c *tenantChangeCommand) check(f *faults) {
	c.ofTenant.check(f)
	if c.WatchedBy != "" {
		public := choice(f, "watched-by", c.WatchedBy, map[string]bool{"anybody": true, "keys": false})
		c.to.Public = &public
	}
	const many = 1_000_000_000
	l := &c.to.Limits
	for _, limit := range []struct {
		flag, text string
		most       int
		into       **int32
	}{
		{"max-sockets", c.MaxSockets, many, &l.Sockets},
		{"max-joins", c.MaxJoins, many, &l.Joins},
		{"max-requests", c.MaxRequests, many, &l.Requests},
		{"max-events", c.MaxEvents, many, &l.Events},
		{"max-games", c.MaxGames, many, &l.Games},
		{"max-event-bytes", c.MaxEventBytes, many, &l.EventBytes},
		{"retention-days", c.RetentionDays, tenants.MaxDays, &l.RetentionDays},
		{"stream-days", c.StreamDays, tenants.MaxDays, &l.StreamDays},
	} {
		if limit.text != "" {
			n := int32(integer(f, limit.flag, limit.text, 0, limit.most)) // #nosec G115 -- in range
			*limit.into = &n
		}
	}
	if c.to == (tenants.Change{}) {
		f.add("nothing to change; `feedrenderer tenant change --help` lists what can be")
	}
}

func (c *tenantChangeCommand) run(ctx context.Context, p process) error {
	return c.change(ctx, p, c.to)
}
