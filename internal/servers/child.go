package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Child is another program that lives no longer than this process: the kernel kills it when this process dies, however it dies.
// The terminal's Ctrl-C does not reach it: Stop does.
type Child struct{ process *process }

// StartChild starts a command as a child. Stop it.
func StartChild(cmd *exec.Cmd) (*Child, error) {
	p, err := start(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return &Child{p}, nil
}

// PID is the process id.
func (c *Child) PID() int { return c.process.pid() }

// Ended is closed once the child has ended and was reaped.
func (c *Child) Ended() <-chan struct{} { return c.process.ended }

// Err is how the child ended, once it has.
func (c *Child) Err() error {
	<-c.process.ended
	return c.process.err
}

// Stop ends the child by SIGTERM, and by SIGKILL if it is not gone within patience, and returns when it is gone. That the child
// itself ends with an error is no error of Stop.
func (c *Child) Stop(patience time.Duration) error {
	if err := c.process.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop process %d: %w", c.PID(), err)
	}
	if c.process.endsWithin(patience) {
		return nil
	}
	return c.process.kill()
}
