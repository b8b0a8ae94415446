package consumer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// commandConns is how many connections carry everything but blocked reads, in a cluster on each node.
const commandConns = 4

// clients are a consumer's connections. Both clients take a connection of their pool for each call and read the reply
// on the caller's goroutine: no queue between, so a blocked read delays nobody and needs little memory.
type clients struct {
	wires  *wires
	cmd    valkey.Client // everything that answers at once
	listen valkey.Client // blocked reads, one connection each
}

func (c *clients) close() {
	c.wires.until(context.Background())
	if c.listen != nil {
		c.listen.Close()
	}
	if c.cmd != nil {
		c.cmd.Close()
	}
}

// dial connects, until ctx ends. Commands are never retried behind our back: a read whose reply was lost has entries of ours.
func dial(ctx context.Context, opt valkey.ClientOption) (_ *clients, err error) {
	c := &clients{wires: newWires(ctx)}
	opt = c.wires.option(opt)
	opt.DisableCache = true
	opt.DisableRetry = true
	opt.DisableAutoPipelining = true
	opt.PipelineMultiplex = -1 // one shared connection, which stays idle
	if opt.RingScaleEachConn == 0 {
		opt.RingScaleEachConn = 4
	}
	if opt.ClusterOption.MaxMovedRedirections == 0 {
		opt.ClusterOption.MaxMovedRedirections = 16
	}
	cmd, listen := opt, opt
	if cmd.ReadBufferEachConn == 0 {
		cmd.ReadBufferEachConn = 128 << 10
	}
	if cmd.WriteBufferEachConn == 0 {
		cmd.WriteBufferEachConn = 32 << 10
	}
	cmd.BlockingPoolSize = commandConns
	listen.ReadBufferEachConn = 4 << 10
	listen.WriteBufferEachConn = 4 << 10
	listen.BlockingPoolSize = 0

	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if c.cmd, err = valkey.NewClient(cmd); err != nil {
		c.cmd = nil
		return nil, err
	}
	if c.listen, err = valkey.NewClient(listen); err != nil {
		c.listen = nil
		return nil, err
	}
	return c, nil
}

// connect dials until the server answers or ctx ends, and refuses a server that is too old or that will not have us.
func (c *Consumer) connect(ctx context.Context) (*clients, error) {
	wait := backoff{base: 100 * time.Millisecond, cap: 2 * time.Second}
	for {
		conns, err := dial(ctx, c.cfg.Options)
		if err == nil {
			if err = c.greet(ctx, conns.cmd); err == nil {
				return conns, nil
			}
			conns.close()
		}
		if reply, ok := valkey.IsValkeyErr(err); errors.Is(err, ErrServer) || ok && refused(reply) {
			return nil, fmt.Errorf("connect: %w", err)
		}
		c.count.failures.Add(1)
		c.faults.warn("server not reached", "", err)
		if !wait.sleep(ctx.Done()) {
			return nil, ctx.Err()
		}
	}
}

// refused: the server answered that it will not have us, which waiting does not mend.
func refused(err *valkey.ValkeyError) bool {
	text := err.Error()
	for _, prefix := range []string{"WRONGPASS", "NOAUTH"} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

// greet checks the server's version, and looks whether it may evict streams.
func (c *Consumer) greet(ctx context.Context, client valkey.Client) error {
	info, err := client.Do(ctx, client.B().Info().Section("server").Section("memory").Build()).ToString()
	if hasPrefix(err, "NOPERM") {
		c.cfg.Logger.Warn("server's version and eviction policy not checked", "err", err)
		return nil
	}
	if err != nil {
		return err
	}
	if err := supported(info); err != nil {
		return err
	}
	if policy := evicting(info); policy != "" {
		c.cfg.Logger.Warn("server may evict streams", "policy", policy)
	}
	return nil
}

// evicting reads from INFO the server's maxmemory-policy, "" where that spares streams, which carry no expiry of ours.
func evicting(info string) string {
	policy := infoLine(info, "maxmemory_policy")
	if policy == "noeviction" || strings.HasPrefix(policy, "volatile-") {
		return ""
	}
	return policy
}

// supported: Valkey from 7.2 and Redis from 7.0 tell trimmed entries from live ones as this package needs it.
func supported(info string) error {
	name, version, major, minor := "Valkey", infoLine(info, "valkey_version"), 7, 2
	if version == "" {
		name, version, major, minor = "Redis", infoLine(info, "redis_version"), 7, 0
	}
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return fmt.Errorf("%w: it does not say its version", ErrServer)
	}
	gotMajor, err := strconv.Atoi(parts[0])
	gotMinor, err2 := strconv.Atoi(parts[1])
	if err != nil || err2 != nil {
		return fmt.Errorf("%w: version %q", ErrServer, version)
	}
	if gotMajor < major || gotMajor == major && gotMinor < minor {
		return fmt.Errorf("%w: %s %s is older than %d.%d, whose XAUTOCLAIM does not tell trimmed entries", ErrServer, name, version, major, minor)
	}
	return nil
}

func infoLine(info, name string) string {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
