package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of processor times in /proc.
const clockTick = 10 * time.Millisecond

// work is processor time, of each party apart: the side under test, Valkey, and Postgres with all its processes.
type work struct{ side, valkey, postgres time.Duration }

// meter starts to count the work of processes and of the servers. Where there is no /proc, or the servers run
// elsewhere, it counts none.
func (r *rig) meter(pids ...int) (read func() work) {
	count := func() work {
		side := time.Duration(0)
		for _, pid := range pids {
			side += processTime(pid)
		}
		return work{side, processTime(r.valkeyPID), clusterTime(r.postgresPID)}
	}
	from := count()
	return func() work {
		to := count()
		return work{to.side - from.side, to.valkey - from.valkey, to.postgres - from.postgres}
	}
}

// cost adds what each entry took of the processor.
func (r *report) cost(name string, w work, entries int) {
	if w == (work{}) {
		return
	}
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(entries) }
	r.add(name+", CPU of its own", "us/entry", each(w.side))
	r.add(name+", CPU of Valkey", "us/entry", each(w.valkey))
	r.add(name+", CPU of Postgres", "us/entry", each(w.postgres))
	r.add(name+", CPU in all", "us/entry", each(w.side+w.valkey+w.postgres))
}

// findServers notes the process ids of both servers.
func (r *rig) findServers(ctx context.Context) error {
	info, err := r.client.Do(ctx, r.client.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return err
	}
	for line := range strings.Lines(info) {
		if pid, ok := strings.CutPrefix(strings.TrimSpace(line), "process_id:"); ok {
			if r.valkeyPID, err = strconv.Atoi(pid); err != nil {
				return err
			}
		}
	}
	_, pool, drop, err := r.database(ctx)
	if err != nil {
		return err
	}
	var backend int
	if err := pool.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		return fmt.Errorf("ask for the server's process: %w", err)
	}
	r.postgresPID = readStat(backend).parent
	return drop()
}

// clusterTime is the processor time of a postmaster, of its children and of those that it has buried.
func clusterTime(postmaster int) time.Duration {
	if postmaster == 0 {
		return 0
	}
	s := readStat(postmaster)
	total := s.own + s.buried
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, process := range processes {
		pid, err := strconv.Atoi(process.Name())
		if err != nil {
			continue
		}
		if s := readStat(pid); s.parent == postmaster {
			total += s.own
		}
	}
	return total
}

func processTime(pid int) time.Duration { return readStat(pid).own }

// stat is what /proc says of a process; all zero where there is none.
type stat struct {
	parent      int
	own, buried time.Duration // of itself, and of children that ended
}

func readStat(pid int) stat {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}
	}
	// The name stands in brackets and may hold anything; the fields behind it are numbered from 3 in proc(5).
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 15 {
		return stat{}
	}
	number := func(field int) int {
		n, err := strconv.Atoi(fields[field-3])
		if err != nil {
			return 0
		}
		return n
	}
	return stat{
		parent: number(4),
		own:    time.Duration(number(14)+number(15)) * clockTick,
		buried: time.Duration(number(16)+number(17)) * clockTick,
	}
}
