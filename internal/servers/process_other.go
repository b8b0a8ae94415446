//go:build !linux

package servers

import "syscall"

// Elsewhere the kernel neither ties a child to its parent nor shows us its state: a server outlives a killed parent, and pause and
// kill reach the server's main process alone.
func tie(*syscall.SysProcAttr, syscall.Signal) {}

type processState int

const (
	running processState = iota
	frozen
	gone
)

func stat(pid int) (state processState, parent int) {
	if syscall.Kill(pid, 0) != nil {
		return gone, 0
	}
	return frozen, 0
}

func childrenOf(int) ([]int, error) { return nil, nil }
