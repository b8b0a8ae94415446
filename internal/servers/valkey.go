package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// ValkeyConfig says which Valkey is wanted.
type ValkeyConfig struct {
	// URL names a server that runs already: it is used as it is and nothing is started. Empty: a private one is started.
	URL string
	// AppendOnly keeps what was written through Restart, and through Kill and Restart. False: a restarted server is empty.
	AppendOnly bool
}

// Valkey is a Valkey server, or a Redis server where there is no Valkey.
type Valkey struct {
	// URL is redis://127.0.0.1:port, or what ValkeyConfig named.
	URL string
	server
}

// StartValkey starts a server that evicts nothing and returns when it answers; ctx bounds the start alone. Stop it.
func StartValkey(ctx context.Context, config ValkeyConfig) (*Valkey, error) {
	if config.URL != "" {
		return &Valkey{URL: config.URL}, nil
	}
	program, err := findValkey()
	if err != nil {
		return nil, err
	}
	folder, err := newFolder()
	if err != nil {
		return nil, fmt.Errorf("start valkey: %w", err)
	}
	v := &Valkey{server: server{folder: folder}}
	v.program = valkeyProgram(program, folder.path, config)
	if err := v.begin(ctx); err != nil {
		return nil, errors.Join(err, folder.remove())
	}
	v.URL = "redis://" + address(v.port)
	return v, nil
}

func valkeyProgram(path, folder string, config ValkeyConfig) program {
	appendOnly := "no"
	if config.AppendOnly {
		appendOnly = "yes"
	}
	return program{
		name: filepath.Base(path),
		command: func(port int) *exec.Cmd {
			cmd := exec.Command(path, //nolint:gosec // a program that findValkey chose
				"--bind", "127.0.0.1", "--port", fmt.Sprint(port), "--dir", folder,
				// No snapshots and no rewrites: both fork, and a fork would outlive us.
				"--save", "", "--appendonly", appendOnly, "--auto-aof-rewrite-percentage", "0",
				"--maxmemory-policy", "noeviction")
			cmd.Dir = folder
			return cmd
		},
		answers: valkeyAnswers,
		stop:    []syscall.Signal{syscall.SIGTERM},
		// Nobody will read its data again.
		orphaned: syscall.SIGKILL,
	}
}

// valkeyAnswers asks for the server's process id: another server on the port is not taken for ours.
func valkeyAnswers(ctx context.Context, port, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address(port))
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("INFO server\r\n")); err != nil {
		return err
	}
	want := fmt.Sprintf("process_id:%d", pid)
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if line := lines.Text(); strings.HasPrefix(line, "process_id:") || strings.HasPrefix(line, "-") {
			if line == want {
				return nil
			}
			return fmt.Errorf("want %s of port %d, got %s", want, port, line)
		}
	}
	return fmt.Errorf("port %d hung up: %w", port, lines.Err())
}
