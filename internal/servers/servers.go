// Package servers starts a private Valkey and a private Postgres, for the demo and the tests.
//
// Each server listens on a free port of the loopback interface and keeps all it writes in a temporary folder of its own. The kernel
// ends it when this process dies, however it dies, and the folder of a killed process is removed by the next start. Under a Config
// that names a server by URL nothing is started, and that server is left alone.
package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrNotOurs answers every attempt to pause, kill or restart a server that was not started here.
var ErrNotOurs = errors.New("the server was not started by this process")

const (
	// startPatience bounds a start whose context has no nearer deadline.
	startPatience = time.Minute
	// stopPatience is what a server gets for each of its ways to end, from the polite to the sure.
	stopPatience = 10 * time.Second
	pollInterval = 10 * time.Millisecond

	portsToTry = 20
)

// program is what differs between the servers.
type program struct {
	name string
	// command makes the command that serves on a port.
	command func(port int) *exec.Cmd
	// answers says whether the process pid is the one that serves on a port, and is ready.
	answers func(ctx context.Context, port, pid int) error
	// stop are the signals that end it, from the polite to the sure.
	stop []syscall.Signal
	// orphaned is what the kernel sends it when this process dies.
	orphaned syscall.Signal
}

// server is one server of ours: a folder, a port and, unless it was killed, a process. All its methods may be called at once.
type server struct {
	program program
	folder  *folder // nil: not ours

	mu      sync.Mutex // guards what follows
	port    int
	process *process // nil: not running
	stopped bool
}

// begin starts the server on a free port.
func (s *server) begin(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for range portsToTry {
		if s.port, err = freePort(); err != nil {
			return err
		}
		if err = s.run(ctx); !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
	}
	return err
}

// Restart ends the server politely, if it runs, and starts it on the same port over the same data. It returns when the server
// answers; ctx bounds the wait.
func (s *server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.folder == nil {
		return ErrNotOurs
	}
	if s.stopped {
		return fmt.Errorf("restart %s: it was stopped for good", s.program.name)
	}
	if err := s.end(); err != nil {
		return err
	}
	for {
		err := s.run(ctx)
		if !errors.Is(err, syscall.EADDRINUSE) || ctx.Err() != nil {
			return err
		}
	}
}

// Stop ends the server, politely if it can, and removes its folder. Stopping again, or what was not started here, does nothing.
func (s *server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.folder == nil || s.stopped {
		return nil
	}
	s.stopped = true
	if err := s.end(); err != nil {
		return errors.Join(err, s.folder.remove())
	}
	return s.folder.remove()
}

// Kill ends the server by SIGKILL, as a crash would, and keeps port and data for a Restart.
func (s *server) Kill() error {
	return s.whileRunning("kill", func() error {
		err := s.process.kill()
		s.process = nil
		return err
	})
}

// Pause freezes the server by SIGSTOP: its connections stay open and nothing answers. If this process dies meanwhile the server
// is resumed, so that it can end.
func (s *server) Pause() error {
	return s.whileRunning("pause", func() error { return s.process.pause() })
}

// Resume lets a paused server go on.
func (s *server) Resume() error {
	return s.whileRunning("resume", func() error { return s.process.resume() })
}

func (s *server) whileRunning(verb string, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.folder == nil {
		return ErrNotOurs
	}
	if s.process == nil {
		return fmt.Errorf("%s %s: it does not run", verb, s.program.name)
	}
	if err := do(); err != nil {
		return fmt.Errorf("%s %s: %w", verb, s.program.name, err)
	}
	return nil
}

// run starts the process on s.port and waits until it answers. An error that Is EADDRINUSE says that the port was taken.
func (s *server) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	logFile := filepath.Join(s.folder.path, "log")
	output, err := os.Create(logFile) //nolint:gosec // a name of ours in a folder of ours
	if err != nil {
		return fmt.Errorf("start %s: %w", s.program.name, err)
	}
	defer output.Close() // the server has a handle of its own
	cmd := s.program.command(s.port)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = []*os.File{s.folder.lock}
	p, err := start(cmd, s.program.orphaned)
	if err != nil {
		return fmt.Errorf("start %s: %w", s.program.name, err)
	}

	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		answer := s.program.answers(ctx, s.port, p.pid())
		if answer == nil {
			s.process = p
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("start %s: %w", s.program.name, whyEnded(p.err, logFile))
		case <-ctx.Done():
			return fmt.Errorf("start %s: %w: %w", s.program.name, errors.Join(ctx.Err(), p.kill()), answer)
		case <-poll.C:
		}
	}
}

// whyEnded adds to how a process ended the last lines that it wrote.
func whyEnded(ended error, logFile string) error {
	text, err := os.ReadFile(logFile) //nolint:gosec // a name of ours in a folder of ours
	if err != nil {
		return errors.Join(ended, err)
	}
	if strings.Contains(string(text), "ddress already in use") {
		return syscall.EADDRINUSE
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Errorf("it ended at once (%w) and said: %s", ended, strings.Join(lines[max(0, len(lines)-5):], " / "))
}

// end stops the process, if one runs, within len(stop) times stopPatience.
func (s *server) end() error {
	if s.process == nil {
		return nil
	}
	p := s.process
	s.process = nil
	if err := p.resume(); err != nil {
		return errors.Join(err, p.kill())
	}
	for _, signal := range s.program.stop {
		if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop %s: %w", s.program.name, err)
		}
		if p.endsWithin(stopPatience) {
			return nil
		}
	}
	return p.kill()
}

// freePort picks a port at random below the range that the system gives to outgoing connections: there a client that redials a
// stopped server could be given the very port that the server will want back. Somebody else may take the port before the server
// does; whoever starts it tries another then.
func freePort() (int, error) {
	var err error
	for range portsToTry {
		port := 16000 + rand.IntN(16000)
		var l net.Listener
		if l, err = net.Listen("tcp", address(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}

// FreeAddress is a loopback address whose port is free, host:port. It is not one that the system gives to outgoing
// connections, so a process that is started or restarted there soon finds it free still, in all likelihood.
func FreeAddress() (string, error) {
	port, err := freePort()
	return address(port), err
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
