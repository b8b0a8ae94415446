package consumer_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/consumer"
)

// childEnv carries a child's orders.
const childEnv = "CONSUMER_TEST_CHILD"

// orders tell a child what consumer to be.
type orders struct {
	URL, Stream, Name string
	MinIdle           time.Duration
	Do                string // "hang": never answer. "die": SIGKILL itself at entries with a field "kill". "ack": acknowledge
}

// childMain is the main of a test binary that was started again as a child: a consumer that a test may kill or freeze. It
// says "<entry id> <attempts>" of each entry on standard output before it handles it.
func childMain() bool {
	text := os.Getenv(childEnv)
	if text == "" {
		return false
	}
	if err := beChild(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func beChild(text string) error {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	opt, err := valkey.ParseURL(o.URL)
	if err != nil {
		return err
	}
	c, err := consumer.New(consumer.Config{
		Options: opt, Group: "g", Name: o.Name, Start: consumer.StartHead, Streams: []string{o.Stream},
		MinIdle: o.MinIdle, Beat: o.MinIdle / 4, Block: 50 * time.Millisecond, Backoff: 30 * time.Millisecond,
		NameTTL:   nameTTL,
		NameLease: func(name string) string { return o.Stream + ":name:" + name },
		Handler: consumer.Each(func(ctx context.Context, m consumer.Message) consumer.Verdict {
			fmt.Println(m.EntryID, m.Attempts)
			_, kill := m.Fields.Get("kill")
			switch {
			case o.Do == "hang":
				<-ctx.Done()
				return consumer.Retry(0, ctx.Err())
			case o.Do == "die" && kill:
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			return consumer.Ack()
		}),
	})
	if err != nil {
		return err
	}
	return c.Run(context.Background())
}

// child is a consumer in a process of its own.
type child struct {
	t     testing.TB
	cmd   *exec.Cmd
	lines chan string // what it handled; closed at its end
	ended chan struct{}
}

func (r *rig) child(o orders) *child {
	r.t.Helper()
	o.URL, o.Stream = r.url, r.stream
	if o.MinIdle == 0 {
		o.MinIdle = minIdle
	}
	text, err := json.Marshal(o)
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	c := &child{t: r.t, cmd: cmd, lines: make(chan string, 10_000), ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		defer close(c.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			c.lines <- lines.Text()
		}
		_ = cmd.Wait() // it is killed
	}()
	r.t.Cleanup(c.kill)
	return c
}

// next is the next entry that the child handles.
func (c *child) next() (id string, attempts string) {
	c.t.Helper()
	select {
	case line, ok := <-c.lines:
		if !ok {
			c.t.Fatal("the child ended")
		}
		id, attempts, _ = strings.Cut(line, " ")
		return id, attempts
	case <-time.After(patience):
		c.t.Fatal("the child handles nothing")
		return "", ""
	}
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.ended
}

func (c *child) signal(sig os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		c.t.Fatal(err)
	}
}

// freeze stops the child and waits until all its threads stand: on a busy machine they run on for a while after the signal.
func (c *child) freeze() {
	c.t.Helper()
	c.signal(syscall.SIGSTOP)
	eventually(c.t, func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", c.cmd.Process.Pid))
		if err != nil {
			c.t.Fatal(err)
		}
		return len(threads) > 0 && !slices.ContainsFunc(threads, func(path string) bool {
			text, err := os.ReadFile(path)
			_, state, _ := strings.Cut(string(text), ") ")
			return err != nil || !strings.HasPrefix(state, "T")
		})
	}, "the child has stopped")
}

func (c *child) signalIfAlive(sig os.Signal) { _ = c.cmd.Process.Signal(sig) }
