package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/internal/servers"
	"github.com/codemojex/feedrenderer/migrations"
)

// rig is what every benchmark stands on: private servers with their full durability, and the shipped binary.
type rig struct {
	rounds   int
	profiles string // folder for processor profiles of drains; "": none
	folder   string // holds the binary
	binary   string
	valkey   *servers.Valkey
	postgres *servers.Postgres
	client   valkey.Client

	valkeyPID, postgresPID int // 0: not on this machine

	databases int // made so far
	labels    int // given to runs so far
}

func newRig(ctx context.Context, rounds int, profiles string) (_ *rig, err error) {
	r := &rig{rounds: rounds, profiles: profiles}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if r.folder, err = os.MkdirTemp("", "feedrenderer-bench-"); err != nil {
		return nil, err
	}
	r.binary = filepath.Join(r.folder, "feedrenderer")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", r.binary, "./cmd/feedrenderer")
	build.Dir = ".." // with the modules that the product is built with
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build: %w\n%s", err, out)
	}
	if r.valkey, err = servers.StartValkey(ctx, servers.ValkeyConfig{URL: os.Getenv("VALKEY_URL"), AppendOnly: true}); err != nil {
		return nil, err
	}
	if r.postgres, err = servers.StartPostgres(ctx, servers.PostgresConfig{URL: os.Getenv("DATABASE_URL")}); err != nil {
		return nil, err
	}
	option, err := valkey.ParseURL(r.valkey.URL)
	if err != nil {
		return nil, err
	}
	option.DisableCache = true
	if r.client, err = valkey.NewClient(option); err != nil {
		return nil, err
	}
	return r, r.findServers(ctx)
}

func (r *rig) close() error {
	var errs []error
	if r.client != nil {
		r.client.Close()
	}
	if r.postgres != nil {
		errs = append(errs, r.postgres.Stop())
	}
	if r.valkey != nil {
		errs = append(errs, r.valkey.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(r.folder))...)
}

// database makes a migrated database and a pool of it; drop closes the one and drops the other.
func (r *rig) database(ctx context.Context) (databaseURL string, pool *pgxpool.Pool, drop func() error, err error) {
	r.databases++
	name := fmt.Sprintf("feedrenderer_bench_%d_%d", os.Getpid(), r.databases)
	admin, err := pgxpool.New(ctx, r.postgres.URL)
	if err != nil {
		return "", nil, nil, err
	}
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		admin.Close()
		return "", nil, nil, err
	}
	u, err := url.Parse(r.postgres.URL)
	if err == nil {
		u.Path = "/" + name
		err = migrations.Up(ctx, u.String())
	}
	if err == nil {
		pool, err = pgxpool.New(ctx, u.String())
	}
	drop = func() error {
		defer admin.Close()
		if pool != nil {
			pool.Close()
		}
		_, err := admin.Exec(context.WithoutCancel(ctx), "DROP DATABASE "+name+" WITH (FORCE)")
		return err
	}
	if err != nil {
		return "", nil, nil, errors.Join(err, drop())
	}
	return u.String(), pool, drop, nil
}

// process is the shipped binary at work.
type process struct {
	cmd     *exec.Cmd
	log     bytes.Buffer
	listen  string // host:port of the public listener
	private string // likewise
}

// serve starts `feedrenderer serve` on free ports, with the same settings that anybody gets, and more arguments.
func (r *rig) serve(ctx context.Context, databaseURL string, args ...string) (*process, error) {
	public, err := freeAddress()
	if err != nil {
		return nil, err
	}
	private, err := freeAddress()
	if err != nil {
		return nil, err
	}
	p := &process{listen: public, private: private}
	p.cmd = exec.CommandContext(ctx, r.binary, append([]string{"serve", "--listen", public, "--private-listen", private}, args...)...)
	p.cmd.Env = append(os.Environ(), "VALKEY_URL="+r.valkey.URL, "DATABASE_URL="+databaseURL)
	p.cmd.Stderr, p.cmd.Stdout = &p.log, &p.log
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 20 * time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return p, p.cmd.Start()
}

// stop ends the process politely and gives the processor time it took.
func (p *process) stop() (cpu time.Duration, err error) {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	if err := p.cmd.Wait(); err != nil {
		return 0, fmt.Errorf("feedrenderer serve: %w\n%s", err, p.log.Bytes())
	}
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime(), nil
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	address := listener.Addr().(*net.TCPAddr)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(address.Port)), listener.Close()
}

// untilAnswers waits until a GET of the address says 200.
func untilAnswers(ctx context.Context, url string) error {
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close() // only the status counts
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", url, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
