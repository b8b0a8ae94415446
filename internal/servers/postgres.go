package servers

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// PostgresConfig says which Postgres is wanted.
type PostgresConfig struct {
	// URL names a server that runs already: it is used as it is and nothing is started. Empty: a private one is started.
	URL string
	// NoFsync spares the disk (fsync and full_page_writes off): a crash of the machine may then lose everything, a crash or kill of
	// the server nothing. It is for tests, which make many databases and outlive no crash of the machine. Never measure with it.
	// Commits stay synchronous either way.
	NoFsync bool
}

// Postgres is a Postgres server with one superuser, who logs in by a password made at random.
type Postgres struct {
	// URL is postgres://postgres:password@127.0.0.1:port/postgres?sslmode=disable, or what PostgresConfig named.
	URL string
	server
}

// maxConnections is enough for tests that run several replicas with a pool each.
const maxConnections = 300

// StartPostgres starts a server over a fresh cluster and returns when it answers; ctx bounds the start alone. Stop it.
// Postgres refuses to run as root: root starts it as the user postgres, or nobody.
func StartPostgres(ctx context.Context, config PostgresConfig) (*Postgres, error) {
	if config.URL != "" {
		return &Postgres{URL: config.URL}, nil
	}
	bin, err := findPostgres()
	if err != nil {
		return nil, err
	}
	folder, err := newFolder()
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	p := &Postgres{server: server{folder: folder}}
	cluster := cluster{bin: bin, folder: folder, data: filepath.Join(folder.path, "data"), password: rand.Text(), config: config}
	if cluster.user, err = unprivileged(); err == nil {
		err = cluster.create(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start postgres: %w", err), folder.remove())
	}
	p.program = cluster.program()
	if err := p.begin(ctx); err != nil {
		return nil, errors.Join(err, folder.remove())
	}
	p.URL = cluster.url(p.port)
	return p, nil
}

// cluster is a folder of Postgres data.
type cluster struct {
	bin      string // the folder of the programs
	folder   *folder
	data     string
	password string
	user     *syscall.Credential // nil: as we are
	config   PostgresConfig
}

// create makes the cluster's data by initdb.
func (c *cluster) create(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	passwordFile := filepath.Join(c.folder.path, "password")
	if err := os.WriteFile(passwordFile, []byte(c.password), 0o600); err != nil {
		return err
	}
	if err := os.Mkdir(c.data, 0o700); err != nil {
		return err
	}
	if c.user != nil {
		for _, path := range []string{passwordFile, c.data} {
			if err := os.Chown(path, int(c.user.Uid), int(c.user.Gid)); err != nil {
				return err
			}
		}
	}
	// Nothing here needs to outlive a crash of the machine before it was ever served, hence --no-sync.
	initdb := c.command("initdb", "-D", c.data, "--username=postgres", "--pwfile="+passwordFile, "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions")
	var output bytes.Buffer
	initdb.Stdout, initdb.Stderr = &output, &output
	initdb.ExtraFiles = []*os.File{c.folder.lock}
	p, err := start(initdb, syscall.SIGKILL)
	if err != nil {
		return err
	}
	select {
	case <-p.ended:
	case <-ctx.Done():
		return errors.Join(ctx.Err(), p.kill())
	}
	if p.err != nil {
		return fmt.Errorf("initdb: %w: %s", p.err, strings.TrimSpace(output.String()))
	}
	return os.Remove(passwordFile)
}

func (c *cluster) program() program {
	return program{
		name: "postgres",
		command: func(port int) *exec.Cmd {
			settings := map[string]string{
				"listen_addresses":        "127.0.0.1",
				"port":                    strconv.Itoa(port),
				"unix_socket_directories": "",
				"max_connections":         strconv.Itoa(maxConnections),
				"timezone":                "UTC",
				"log_timezone":            "UTC",
			}
			if c.config.NoFsync {
				settings["fsync"] = "off"
				settings["full_page_writes"] = "off"
			}
			args := []string{"-D", c.data}
			for name, value := range settings {
				args = append(args, "-c", name+"="+value)
			}
			return c.command("postgres", args...)
		},
		answers: func(ctx context.Context, port, _ int) error {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			conn, err := pgx.Connect(ctx, c.url(port)) // the password tells ours from others
			if err != nil {
				return err
			}
			return conn.Close(ctx)
		},
		stop: []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT}, // fast, immediate
		// Immediate: it ends its children first, and nobody will read its data again.
		orphaned: syscall.SIGQUIT,
	}
}

// command makes a command that sees nothing of our environment, which may speak of other clusters.
func (c *cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.bin, name), args...) //nolint:gosec // a program that findPostgres chose
	cmd.Dir = c.data
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.user}
	return cmd
}

func (c *cluster) url(port int) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", c.password), Host: address(port), Path: "/postgres",
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// unprivileged says as whom root runs Postgres; nil: we are not root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, fmt.Errorf("postgres does not run as root: %w", err)
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %s: %w", u.Username, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %s: %w", u.Username, err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
