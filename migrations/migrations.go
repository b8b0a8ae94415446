// Package migrations holds the database schema as numbered SQL files and brings a database up to it.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed *.sql
var files embed.FS

// Up applies the migrations that the database lacks, in order, each in a transaction of its own unless its file says otherwise.
// A session lock makes several processes that start at once take turns. The login must own the database and may create roles.
func Up(ctx context.Context, databaseURL string) (err error) {
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	db := stdlib.OpenDB(*config)
	defer func() { err = errors.Join(err, db.Close()) }()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

const appliedSQL = `select coalesce(max(version_id), 0) from goose_db_version where is_applied`

// Check reports an error while the database lacks a migration of this version. One that has more is fine: a migration leaves the
// version before it able to work. Any role of the schema may ask.
func Check(ctx context.Context, pool *pgxpool.Pool) error {
	wanted, err := newest()
	if err != nil {
		return err
	}
	var applied int64
	if err := pool.QueryRow(ctx, appliedSQL).Scan(&applied); err != nil {
		return fmt.Errorf("version of the schema: %w", err)
	}
	if applied < wanted {
		return fmt.Errorf("the schema has version %d, want %d: run feedrenderer migrate", applied, wanted)
	}
	return nil
}

// newest is the version after all our migrations.
func newest() (version int64, err error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		n, err := goose.NumericComponent(name)
		if err != nil {
			return 0, fmt.Errorf("migration %s: %w", name, err)
		}
		version = max(version, n)
	}
	return version, nil
}
