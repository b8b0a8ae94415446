package main

import (
	"context"

	"github.com/codemojex/feedrenderer/migrations"
)

type migrateCommand struct {
	DatabaseURL string `help:"Postgres, as a login that owns the database and may create roles."`
}

func (c *migrateCommand) check(f *faults) { databaseURL(f, c.DatabaseURL) }

func (c *migrateCommand) run(ctx context.Context, p process) error {
	if err := migrations.Up(ctx, c.DatabaseURL); err != nil {
		return err
	}
	p.log.Info("database is up to date")
	return nil
}
