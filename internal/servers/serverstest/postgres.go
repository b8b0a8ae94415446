package serverstest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/codemojex/feedrenderer/internal/servers"
	"github.com/codemojex/feedrenderer/migrations"
)

// Databases are named feedrenderer_test_<run>_<n>, the template has the number 0. A test binary holds the advisory lock <run>, in
// the class below, for as long as it lives: the databases of a run whose lock is free are left over and may be dropped.
const (
	namePrefix = "feedrenderer_test_"

	runLock     = 0x66656564 // class of the locks of runs
	migrateLock = 0x6d696772 // roles belong to the whole cluster, so binaries that share one migrate one at a time
)

// postgres makes and drops databases on one server.
type postgres struct {
	server *servers.Postgres
	run    int32

	mu       sync.Mutex // guards what follows; CREATE DATABASE gains nothing from running twice at once
	admin    *pgx.Conn
	n        int
	migrated bool
}

// startPostgres starts a server, or connects to the one at serverURL if that is not empty.
func startPostgres(ctx context.Context, serverURL string) (*postgres, error) {
	server, err := servers.StartPostgres(ctx, servers.PostgresConfig{URL: serverURL, NoFsync: true})
	if err != nil {
		return nil, err
	}
	p := &postgres{server: server, run: rand.Int32()}
	if p.admin, err = pgx.Connect(ctx, server.URL); err == nil {
		err = errors.Join(p.sweep(ctx), p.lockRun(ctx))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("postgres for tests: %w", err), p.stop())
	}
	return p, nil
}

func (p *postgres) lockRun(ctx context.Context) error {
	_, err := p.admin.Exec(ctx, `SELECT pg_advisory_lock($1, $2)`, runLock, p.run)
	return err
}

// stop drops the template and stops the server, if it is ours.
func (p *postgres) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	if p.migrated {
		errs = append(errs, p.dropLocked(ctx, p.template()))
	}
	if p.admin != nil {
		errs = append(errs, p.admin.Close(ctx))
	}
	return errors.Join(append(errs, p.server.Stop())...)
}

func (p *postgres) template() string { return p.name(0) }

func (p *postgres) name(n int) string { return fmt.Sprintf("%s%d_%d", namePrefix, p.run, n) }

// fromTemplate makes a migrated database.
func (p *postgres) fromTemplate(ctx context.Context) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.migrate(ctx); err != nil {
		return "", err
	}
	return p.create(ctx, p.template())
}

// empty makes a database without a schema.
func (p *postgres) empty(ctx context.Context) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.create(ctx, "template1")
}

func (p *postgres) create(ctx context.Context, template string) (string, error) {
	p.n++
	name := p.name(p.n)
	if _, err := p.admin.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE "+template); err != nil {
		return "", fmt.Errorf("database for a test: %w", err)
	}
	return name, nil
}

// migrate makes the template.
func (p *postgres) migrate(ctx context.Context) (err error) {
	if p.migrated {
		return nil
	}
	name := p.template()
	if _, err := p.admin.Exec(ctx, `SELECT pg_advisory_lock($1)`, migrateLock); err != nil {
		return fmt.Errorf("template database: %w", err)
	}
	defer func() {
		_, unlocked := p.admin.Exec(ctx, `SELECT pg_advisory_unlock($1)`, migrateLock)
		err = errors.Join(err, unlocked)
	}()
	if _, err := p.admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return fmt.Errorf("template database: %w", err)
	}
	if err := migrations.Up(ctx, p.url(name)); err != nil {
		return errors.Join(err, p.dropLocked(ctx, name))
	}
	// CREATE DATABASE refuses a template that somebody is connected to.
	if _, err := p.admin.Exec(ctx, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false"); err != nil {
		return errors.Join(fmt.Errorf("template database: %w", err), p.dropLocked(ctx, name))
	}
	p.migrated = true
	return nil
}

func (p *postgres) drop(ctx context.Context, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropLocked(ctx, name)
}

// dropLocked drops a database though somebody be connected to it.
func (p *postgres) dropLocked(ctx context.Context, name string) error {
	if _, err := p.admin.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("drop a test's database: %w", err)
	}
	return nil
}

// sweep drops the databases of runs that were killed.
func (p *postgres) sweep(ctx context.Context) error {
	rows, err := p.admin.Query(ctx, `SELECT datname FROM pg_database WHERE starts_with(datname, $1) AND pg_has_role(datdba, 'USAGE')`, namePrefix)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		digits, _, _ := strings.Cut(strings.TrimPrefix(name, namePrefix), "_")
		run, err := strconv.ParseInt(digits, 10, 32)
		if err != nil {
			continue // not one of ours
		}
		var dead bool
		if err := p.admin.QueryRow(ctx, `SELECT pg_try_advisory_lock($1, $2)`, runLock, int32(run)).Scan(&dead); err != nil {
			return err
		}
		if !dead {
			continue
		}
		dropped := p.dropLocked(ctx, name)
		if _, err := p.admin.Exec(ctx, `SELECT pg_advisory_unlock($1, $2)`, runLock, int32(run)); err != nil || dropped != nil {
			return errors.Join(dropped, err)
		}
	}
	return nil
}

// url is the server's URL with the name of another database.
func (p *postgres) url(name string) string {
	u, err := url.Parse(p.server.URL)
	if err != nil {
		// pgx takes keywords as well: the last of one counts.
		return p.server.URL + " dbname=" + name
	}
	u.Path = "/" + name
	return u.String()
}
