package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/codemojex/feedrenderer/feed"
)

const (
	memorySockets = 2000
	memoryRest    = 2 * time.Second // for what connecting left behind

	// bareServer as the first argument makes this program a bare server of sockets until its input ends: the memory of
	// one can only be told in a process of its own.
	bareServer = "bare-server"
)

// memory is what an idle watcher holds of the memory of the process that serves it, beside a bare socket.
func memory(ctx context.Context, rig *rig, report *report) error {
	for range rig.rounds {
		bounded, cancel := context.WithTimeout(ctx, runLimit)
		err := errors.Join(rig.memoryOfProduct(bounded, report), memoryOfBare(bounded, report))
		cancel()
		if err != nil {
			return err
		}
	}
	report.compare("watcher_memory", memoryOurs, memoryBareName)
	return nil
}

const memoryOurs, memoryBareName = "idle watcher", "idle bare socket"

func (r *rig) memoryOfProduct(ctx context.Context, report *report) (err error) {
	databaseURL, _, drop, err := r.database(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop()) }()
	game := &backlog{games: []feed.GameKey{{Tenant: "bench", Game: "memory"}}}
	mint, err := feed.NewMint(5)
	if err != nil {
		return err
	}
	if _, err := feed.NewProducer(r.client, mint).Append(ctx, game.games[0], opening()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.empty(context.WithoutCancel(ctx), game)) }()
	server, err := r.serve(ctx, databaseURL, "--roles", "render,web", "--tenants", "bench")
	if err != nil {
		return err
	}
	defer func() {
		_, stopped := server.stop()
		err = errors.Join(err, stopped)
	}()
	ready, err := newWatcher(ctx, server.listen, game.games[0])
	if err != nil {
		return err
	}
	if err := ready.close(); err != nil {
		return err
	}
	return memoryOf(ctx, report, memoryOurs, server.cmd.Process.Pid, server.listen, "/v1/tenants/bench/live", []byte(`{"t":"sub","g":"memory"}`))
}

func memoryOfBare(ctx context.Context, report *report) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, bareServer)
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, input.Close(), cmd.Wait()) }()
	listen, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return err
	}
	return memoryOf(ctx, report, memoryBareName, cmd.Process.Pid, strings.TrimSpace(listen), "/", nil)
}

func serveBare(in io.Reader, out io.Writer) error {
	bare := newBareFan()
	defer bare.close()
	if _, err := fmt.Fprintln(out, bare.listen()); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in)
	return err
}

func memoryOf(ctx context.Context, report *report, name string, pid int, listen, path string, first []byte) error {
	before, err := residentKB(pid)
	if err != nil {
		return err
	}
	crowd, err := gather(ctx, listen, path, memorySockets, first)
	if err != nil {
		return err
	}
	if len(first) > 0 {
		err = crowd.until(ctx, 1)
	}
	if err := errors.Join(err, pause(ctx, memoryRest)); err != nil {
		return errors.Join(err, crowd.close())
	}
	after, err := residentKB(pid)
	report.add(name, "kB", float64(after-before)/memorySockets)
	return errors.Join(err, crowd.close())
}

func residentKB(pid int) (int, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strconv.Atoi(strings.Fields(kb)[0])
		}
	}
	return 0, errors.New("no VmRSS")
}
