package consumer_test

import (
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/internal/servers"
)

// node is a server of a test alone that is started with settings of the test's.
type node struct {
	port   int
	child  *servers.Child
	opt    valkey.ClientOption // to connect with
	client valkey.Client
}

// do sends any command and returns its reply as text.
func (n *node) do(args ...string) (string, error) {
	ctx, cancel := bounded()
	defer cancel()
	m, err := n.client.Do(ctx, n.client.B().Arbitrary(args...).Build()).ToMessage()
	if err != nil {
		return "", err
	}
	if m.IsInt64() {
		v, err := m.AsInt64()
		return fmt.Sprint(v), err
	}
	return m.ToString()
}

// startNode starts a program, valkey-server or redis-server, on a port whose number plus 10000 is free too. With a TLS config
// the port speaks TLS alone.
func startNode(t *testing.T, program string, secure *tls.Config, settings ...string) *node {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("%v: `make setup` installs it", err)
	}
	for range 20 {
		n := &node{port: freePort(t)}
		dir := t.TempDir()
		args := []string{"--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no", "--logfile", dir + "/log"}
		if secure == nil {
			args = append(args, "--port", fmt.Sprint(n.port))
		} else {
			args = append(args, "--port", "0", "--tls-port", fmt.Sprint(n.port))
		}
		if n.child, err = servers.StartChild(exec.Command(path, append(args, settings...)...)); err != nil {
			t.Fatal(err)
		}
		n.opt = valkey.ClientOption{InitAddress: []string{fmt.Sprint("127.0.0.1:", n.port)}, TLSConfig: secure}
		if n.connect(t) {
			return n
		}
	}
	t.Fatalf("%s does not start", program)
	return nil
}

// connect waits until the node answers and is false if it ended, as where somebody else took the port meanwhile.
func (n *node) connect(t *testing.T) bool {
	t.Helper()
	opt := n.opt
	opt.ForceSingleClient, opt.DisableCache = true, true
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		client, err := valkey.NewClient(opt)
		if err == nil {
			n.client = client
			t.Cleanup(func() {
				client.Close()
				if err := n.child.Stop(5 * time.Second); err != nil {
					t.Error(err)
				}
			})
			return true
		}
		client.Close()
		select {
		case <-n.child.Ended():
			return false
		case <-again.C:
		}
	}
	t.Fatalf("a server on port %d does not answer", n.port)
	return false
}

// freePort finds one whose cluster bus, 10000 above, is free too. Neither is one that the system gives to outgoing
// connections, which might take it before the server does.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		port := 12_000 + rand.IntN(10_000)
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			continue
		}
		_ = l.Close()
		bus, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port+10_000))
		if err != nil {
			continue
		}
		_ = bus.Close()
		return port
	}
	t.Fatal("no free port")
	return 0
}
