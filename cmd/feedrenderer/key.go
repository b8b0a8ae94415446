package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
)

type keyCommand struct {
	Create keyCreateCommand `cmd:"" help:"Make a key and print it. It cannot be printed again."`
	List   keyListCommand   `cmd:"" help:"List the keys of a tenant, without their secrets."`
	Revoke keyRevokeCommand `cmd:"" help:"End a key and all watch tokens that were minted with it."`
	Rotate keyRotateCommand `cmd:"" help:"Sign watch tokens with a new secret from now on; those there are live on to their end."`
}

type keyCreateCommand struct {
	ofTenant
	Label     string `env:"-" help:"What it is to be known by in lists."`
	ExpiresIn string `env:"-" help:"How long it is good, such as 720h; by default until it is revoked."`

	Role string `arg:"" help:"What it is for: watch, produce or operate, which includes both."`

	role tenants.Role
	life time.Duration
}

// longestLife is of a key that expires.
const longestLife = 10 * 365 * 24 * time.Hour

func (c *keyCreateCommand) check(f *faults) {
	c.ofTenant.check(f)
	var err error
	if c.role, err = tenants.ParseRole(c.Role); err != nil {
		f.add(err.Error())
	}
	if len(c.Label) > 100 {
		f.flag("label", "%d bytes; want at most 100", len(c.Label))
	}
	if c.ExpiresIn != "" {
		c.life = duration(f, "expires-in", c.ExpiresIn, time.Second, longestLife)
	}
}

func (c *keyCreateCommand) run(ctx context.Context, p process) error {
	var expires *time.Time
	if c.life > 0 {
		at := time.Now().Add(c.life)
		expires = &at
	}
	return c.manage(ctx, func(admin *tenants.Admin) error {
		_, text, err := admin.CreateKey(ctx, c.id, c.role, c.Label, expires)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(p.stdout, text.Reveal())
		return err
	})
}

type keyListCommand struct{ ofTenant }

func (c *keyListCommand) run(ctx context.Context, p process) error {
	return c.manage(ctx, func(admin *tenants.Admin) error {
		keys, err := admin.Keys(ctx, c.id)
		if err != nil {
			return err
		}
		table := tabwriter.NewWriter(p.stdout, 0, 8, 2, ' ', 0)
		if _, err := fmt.Fprintln(table, "KEY\tROLE\tCREATED\tEXPIRES\tREVOKED\tLABEL"); err != nil {
			return err
		}
		for _, key := range keys {
			if _, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%q\n", key.ID, key.Role, feed.Instant(key.Created), moment(key.Expires), moment(key.Revoked), key.Label); err != nil {
				return err
			}
		}
		return table.Flush()
	})
}

func moment(at *time.Time) string {
	if at == nil {
		return "-"
	}
	return feed.Instant(*at).String()
}

type keyRevokeCommand struct {
	ofTenant
	After string `env:"-" default:"0s" help:"How long it is still good, for another to be handed out meanwhile."`

	Key string `arg:"" help:"The key's id, as lists show it: never the whole key."`

	after time.Duration
}

func (c *keyRevokeCommand) check(f *faults) {
	c.ofTenant.check(f)
	c.after = duration(f, "after", c.After, 0, 30*24*time.Hour)
	if tenants.IsKey(c.Key) {
		f.add("this is a whole key (not repeated here); want its id, as `feedrenderer key list` shows it")
	}
}

func (c *keyRevokeCommand) run(ctx context.Context, p process) error {
	return c.manage(ctx, func(admin *tenants.Admin) error {
		key, err := admin.RevokeKey(ctx, c.id, c.Key, time.Now().Add(c.after))
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.stdout, "%s ends at %s\n", key.ID, moment(key.Revoked))
		return err
	})
}

type keyRotateCommand struct{ ofTenant }

func (c *keyRotateCommand) run(ctx context.Context, _ process) error {
	return c.manage(ctx, func(admin *tenants.Admin) error { return admin.RotateSecret(ctx, c.id) })
}
