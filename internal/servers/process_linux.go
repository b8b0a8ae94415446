package servers

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// tie has the kernel send a signal to the process when the thread that started it ends. It outlives a change of user only because
// the runtime asks for it after that change, and an exec of a program that is not set-uid keeps it.
func tie(attr *syscall.SysProcAttr, orphaned syscall.Signal) { attr.Pdeathsig = orphaned }

type processState int

const (
	running processState = iota
	frozen
	gone // ended, reaped or not
)

// stat reads what the kernel knows of a process.
func stat(pid int) (state processState, parent int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return gone, 0
	}
	// The name, in parentheses, may hold anything; state and parent follow the last one.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return gone, 0
	}
	parent, err = strconv.Atoi(string(fields[1]))
	if err != nil {
		return gone, 0
	}
	switch fields[0][0] {
	case 'T', 't':
		return frozen, parent
	case 'Z', 'X', 'x':
		return gone, parent
	default:
		return running, parent
	}
}

func childrenOf(pid int) ([]int, error) {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var children []int
	for _, name := range names {
		child, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		if state, parent := stat(child); state != gone && parent == pid {
			children = append(children, child)
		}
	}
	return children, nil
}
