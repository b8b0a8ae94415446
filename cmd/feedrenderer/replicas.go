package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/codemojex/feedrenderer/internal/servers"
)

// replicas are processes of this very program. The kernel ends them when this process dies.
type replicas struct {
	mu  sync.Mutex // guards the children of all
	all []*replica
}

type replica struct {
	name    string
	command func() *exec.Cmd
	child   *servers.Child
}

const (
	stopPatience = 5 * time.Second // of a replica, above its own grace
	restartPause = time.Second
)

// start starts a process of this program. Its environment is ours without our settings, and with its own.
func (r *replicas) start(name string, p process, arguments []string, environ ...string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	foreign := slices.DeleteFunc(slices.Clone(p.environ), func(pair string) bool {
		return strings.HasPrefix(pair, variablePrefix) || strings.HasPrefix(pair, "VALKEY_URL=") || strings.HasPrefix(pair, "DATABASE_URL=")
	})
	one := &replica{name: name, command: func() *exec.Cmd {
		cmd := exec.Command(program, arguments...) // #nosec G204 -- this program
		cmd.Env = slices.Concat(foreign, environ)
		cmd.Stdout, cmd.Stderr = p.stderr, p.stderr
		return cmd
	}}
	if one.child, err = servers.StartChild(one.command()); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, one)
	return nil
}

// keep starts again what ends, until the context does.
func (r *replicas) keep(ctx context.Context, log *slog.Logger) error {
	keeping, ctx := errgroup.WithContext(ctx)
	for _, one := range r.all {
		keeping.Go(func() error {
			for {
				select {
				case <-ctx.Done():
					return nil
				case <-one.child.Ended():
				}
				log.Warn("a process has ended and starts again", "name", one.name, "pid", one.child.PID(), "err", one.child.Err())
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(restartPause):
				}
				child, err := servers.StartChild(one.command())
				if err != nil {
					return err
				}
				r.mu.Lock()
				one.child = child
				r.mu.Unlock()
			}
		})
	}
	return keeping.Wait()
}

// stop ends all of them at once, politely where they let it. It is to be called after keep.
func (r *replicas) stop() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var stopping errgroup.Group
	for _, one := range r.all {
		stopping.Go(func() error { return one.child.Stop(stopPatience) })
	}
	return stopping.Wait()
}

// String names the processes and their ids.
func (r *replicas) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	texts := make([]string, len(r.all))
	for i, one := range r.all {
		texts[i] = fmt.Sprintf("%s %d", one.name, one.child.PID())
	}
	return strings.Join(texts, ", ")
}

// freeAddress is the wanted address if nobody has it, else a free one of the loopback interface.
func freeAddress(ctx context.Context, wanted string) (string, error) {
	host, _, err := net.SplitHostPort(wanted)
	if err != nil {
		return "", err
	}
	var listening net.ListenConfig
	socket, err := listening.Listen(ctx, "tcp", wanted)
	if err != nil {
		return servers.FreeAddress()
	}
	address := socket.Addr().(*net.TCPAddr)
	if address.IP.IsUnspecified() {
		host = "127.0.0.1" // where it can be reached from here
	}
	return net.JoinHostPort(host, strconv.Itoa(address.Port)), socket.Close()
}
