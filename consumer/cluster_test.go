package consumer_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/consumer"
)

// startCluster starts three primaries and a replica of each, which fail over after about a second.
func startCluster(t *testing.T) []*node {
	t.Helper()
	nodes := make([]*node, 6)
	for i := range nodes {
		nodes[i] = startNode(t, "valkey-server", nil, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
			"--repl-diskless-sync-delay", "0", "--cluster-replica-validity-factor", "0")
	}
	must := func(n *node, args ...string) string {
		t.Helper()
		v, err := n.do(args...)
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return v
	}
	for i, n := range nodes[:3] {
		must(n, "CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(i*5461), fmt.Sprint([]int{5460, 10921, 16383}[i]))
		must(n, "CLUSTER", "SET-CONFIG-EPOCH", fmt.Sprint(i+1))
	}
	for _, n := range nodes[1:] {
		must(n, "CLUSTER", "MEET", "127.0.0.1", fmt.Sprint(nodes[0].port))
	}
	for i, n := range nodes[3:] {
		id := must(nodes[i], "CLUSTER", "MYID")
		eventually(t, func() bool { _, err := n.do("CLUSTER", "REPLICATE", id); return err == nil }, "node %d follows", i+3)
	}
	eventually(t, func() bool {
		for _, n := range nodes {
			info, err := n.do("CLUSTER", "INFO")
			if err != nil || !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:6") {
				return false
			}
		}
		for _, n := range nodes[3:] {
			info, err := n.do("INFO", "replication")
			if err != nil || !strings.Contains(info, "master_link_status:up") {
				return false
			}
		}
		return true
	}, "the cluster is up")
	return nodes
}

// In a cluster each read asks for one hash slot; a failover under load loses nothing that the cluster kept.
func TestACluster(t *testing.T) {
	t.Parallel()
	for i := range failovers {
		t.Run(fmt.Sprint("Failover", i+1), failover)
	}
}

func failover(t *testing.T) {
	t.Cleanup(func() { // the client closes connections to nodes that are gone some seconds later
		eventually(t, func() bool {
			stacks := make([]byte, 1<<22)
			text := string(stacks[:runtime.Stack(stacks, true)])
			return !strings.Contains(text, "clusterClient)._refresh") && !strings.Contains(text, "DelayDo")
		}, "the client has closed all connections")
	})
	nodes := startCluster(t)
	opt := valkey.ClientOption{
		InitAddress: []string{fmt.Sprint("127.0.0.1:", nodes[0].port), fmt.Sprint("127.0.0.1:", nodes[1].port), fmt.Sprint("127.0.0.1:", nodes[4].port)},
	}
	plain := opt
	plain.DisableCache = true
	client, err := valkey.NewClient(plain)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	var streams []string
	for tenant := range 6 {
		for game := range 3 {
			streams = append(streams, fmt.Sprintf("emq:{t%d}:stream:g%d", tenant, game))
		}
	}
	r := newRig(t)
	var s seen
	inCluster := func(cfg *consumer.Config) {
		cfg.Options, cfg.Streams, cfg.Workers = opt, streams, 2
		cfg.Options.ConnWriteTimeout = 2 * time.Second
		cfg.MinIdle, cfg.Beat = steady, steady/4
	}
	a := r.start(s.acking(), inCluster)
	b := r.start(s.acking(), inCluster, named("b"))

	// add appends one entry to each stream, with WAIT so that what was acknowledged to us survives the failover.
	var mu sync.Mutex
	var ids []string
	add := func() {
		ctx, cancel := bounded()
		defer cancel()
		for _, key := range streams {
			id, err := client.Do(ctx, client.B().Xadd().Key(key).Id("*").FieldValue().FieldValue("n", "1").Build()).ToString()
			if err == nil {
				mu.Lock()
				ids = append(ids, key+" "+id)
				mu.Unlock()
			}
		}
	}
	handled := func() bool {
		got := map[string]bool{}
		for _, m := range s.list() {
			got[m.Stream+" "+m.EntryID] = true
		}
		mu.Lock()
		defer mu.Unlock()
		return !slices.ContainsFunc(ids, func(id string) bool { return !got[id] })
	}
	for range 20 {
		add()
	}
	eventually(t, handled, "the first entries are handled")
	h, err := a.Health(t.Context())
	if err != nil || len(h.Streams) != len(streams) {
		t.Errorf("health of %d streams: %v", len(h.Streams), err)
	}

	// Replication is asynchronous: what a dying primary did not pass on is lost to everybody, so let it pass on.
	eventually(t, func() bool { return replicated(nodes[0], nodes[3]) }, "the replica has it all")
	if err := nodes[0].child.Stop(0); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		role, err := nodes[3].do("INFO", "replication")
		return err == nil && strings.Contains(role, "role:master")
	}, "the replica takes over")
	within(t, time.Minute, func() bool { add(); return handled() }, "entries are handled after the failover")
	within(t, time.Minute, func() bool {
		for _, key := range streams {
			n, err := pendingIn(client, key)
			if err != nil || n != 0 {
				return false
			}
		}
		return true
	}, "nothing is pending")
	a.stop()
	b.stop()
}

func replicated(primary, replica *node) bool {
	offset := func(n *node, name string) string {
		info, err := n.do("INFO", "replication")
		if err != nil {
			return err.Error()
		}
		_, rest, _ := strings.Cut(info, name+":")
		v, _, _ := strings.Cut(rest, "\r\n")
		return v
	}
	return offset(primary, "master_repl_offset") == offset(replica, "slave_repl_offset")
}

func pendingIn(client valkey.Client, key string) (int64, error) {
	ctx, cancel := bounded()
	defer cancel()
	parts, err := client.Do(ctx, client.B().Xpending().Key(key).Group("g").Build()).ToArray()
	if err != nil || len(parts) == 0 {
		return 0, err
	}
	return parts[0].AsInt64()
}
