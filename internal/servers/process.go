package servers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a running server program.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed once the process has ended and was reaped
	err   error         // how it ended; to be read after ended is closed

	thaw io.Closer // while paused: closing it lets the process go on
	held *exec.Cmd // while paused: what waits for thaw
}

// start runs a command in a process group of its own, out of reach of the terminal's Ctrl-C, and has the kernel send it the
// signal orphaned when this process dies.
func start(cmd *exec.Cmd, orphaned syscall.Signal) (*process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	tie(cmd.SysProcAttr, orphaned)
	p := &process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// To the kernel the parent is the thread that forked. This goroutine keeps that thread while the server lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) endsWithin(d time.Duration) bool {
	select {
	case <-p.ended:
		return true
	case <-time.After(d):
		return false
	}
}

// kill ends the process and its children by SIGKILL and waits until all are gone: a child that lingers would hold the data.
func (p *process) kill() error {
	family, err := p.freeze(io.Discard) // a frozen parent forks no more
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return errors.Join(err, p.cmd.Process.Kill())
	}
	for _, pid := range family {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill process %d: %w", pid, err)
		}
	}
	if !p.endsWithin(stopPatience) {
		return fmt.Errorf("process %d outlives SIGKILL", p.pid())
	}
	if err := waitFor(func() bool {
		for _, pid := range family {
			if state, _ := stat(pid); state != gone {
				return false
			}
		}
		return true
	}); err != nil {
		return fmt.Errorf("children of process %d: %w", p.pid(), err)
	}
	return p.resume() // ends the helper of a pause
}

// pause stops the process and its children. A helper holds their ids and lets them go on when a pipe from this process closes:
// by resume, or because this process died. A stopped process would never see the signal that the kernel sends it then.
func (p *process) pause() error {
	if p.held != nil {
		return nil
	}
	held := exec.Command("/bin/sh", "-c", "kill -CONT $(cat)")
	held.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pids, err := held.StdinPipe()
	if err != nil {
		return err
	}
	if err := held.Start(); err != nil {
		return err
	}
	p.held, p.thaw = held, pids
	if _, err := p.freeze(pids); err != nil {
		return errors.Join(err, p.resume())
	}
	return nil
}

// resume undoes pause; what is not paused stays as it is.
func (p *process) resume() error {
	if p.held == nil {
		return nil
	}
	err := p.thaw.Close()
	// That one of them has died meanwhile makes the helper fail, and is no failure of resume.
	var exit *exec.ExitError
	if waited := p.held.Wait(); !errors.As(waited, &exit) {
		err = errors.Join(err, waited)
	}
	p.held, p.thaw = nil, nil
	return err
}

// freeze stops the process, then its children, each after its id was written to pids, and returns the ids. A stopped process
// forks no more, so none is missed.
func (p *process) freeze(pids io.Writer) ([]int, error) {
	var family []int
	add := func(pid int) error {
		if _, err := fmt.Fprintln(pids, pid); err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop process %d: %w", pid, err)
		}
		family = append(family, pid)
		return waitFor(func() bool {
			state, _ := stat(pid)
			return state != running
		})
	}
	if err := add(p.pid()); err != nil {
		return family, err
	}
	children, err := childrenOf(p.pid())
	if err != nil {
		return family, err
	}
	for _, pid := range children {
		if err := add(pid); err != nil {
			return family, err
		}
	}
	return family, nil
}

func waitFor(condition func() bool) error {
	deadline := time.Now().Add(stopPatience)
	for !condition() {
		if time.Now().After(deadline) {
			return fmt.Errorf("nothing happened for %v", stopPatience)
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}
