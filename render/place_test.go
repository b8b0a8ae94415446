package render

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

const ofGroup = "renderers"

// readers is the consumer of a test: what it was told to read.
type readers struct {
	mu      sync.Mutex
	streams map[string]bool
	joins   int
	joined  chan string // where set, each stream that is joined
}

func (r *readers) Join(streams ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range streams {
		r.streams[s] = true
		r.joins++
		if r.joined != nil {
			r.joined <- s
		}
	}
}

func (r *readers) Leave(streams ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range streams {
		delete(r.streams, s)
	}
}

func (r *readers) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.streams))
}

// knownTenants are the tenants of a test; err is what asking for them gives.
type knownTenants struct {
	ids []feed.TenantID
	err error
}

func (k *knownTenants) List(context.Context) ([]tenants.Tenant, error) {
	list := make([]tenants.Tenant, len(k.ids))
	for i, id := range k.ids {
		list[i].ID = id
	}
	return list, k.err
}

// standings are the statuses of the games of a test.
type standings struct {
	status map[feed.GameID]feed.Status
	err    error
}

func (s *standings) Statuses(_ context.Context, games []feed.GameKey) ([]feed.Status, error) {
	out := make([]feed.Status, len(games))
	for i, game := range games {
		out[i] = s.status[game.Game]
	}
	return out, s.err
}

// clusterOf makes servers look like the nodes of a cluster.
type clusterOf struct {
	valkey.Client
	nodes map[string]valkey.Client
}

func (c clusterOf) Mode() valkey.ClientMode         { return valkey.ClientModeCluster }
func (c clusterOf) Nodes() map[string]valkey.Client { return c.nodes }

// place is a Valkey of a test's own, and a Discovery over it.
type place struct {
	*Discovery
	t       testing.TB
	client  valkey.Client
	readers *readers
	tenants *knownTenants
	games   *standings
	log     bytes.Buffer
}

func newPlace(t testing.TB, adjust func(*DiscoveryConfig)) *place {
	t.Helper()
	return newPlaceAt(t, clientOf(t, serverstest.OwnValkey(t).URL), adjust)
}

func newPlaceAt(t testing.TB, client valkey.Client, adjust func(*DiscoveryConfig)) *place {
	t.Helper()
	p := &place{
		t: t, client: client,
		readers: &readers{streams: make(map[string]bool)},
		tenants: &knownTenants{ids: []feed.TenantID{"acme"}},
		games:   &standings{status: make(map[feed.GameID]feed.Status)},
	}
	cfg := DiscoveryConfig{
		Client: client, Group: ofGroup, Streams: p.readers, Tenants: p.tenants, Games: p.games,
		Logger: slog.New(slog.NewTextHandler(&p.log, nil)),
	}
	if adjust != nil {
		adjust(&cfg)
	}
	p.Discovery = NewDiscovery(cfg)
	return p
}

func clientOf(t testing.TB, url string) valkey.Client {
	t.Helper()
	options, err := valkey.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	options.DisableCache = true
	client, err := valkey.NewClient(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func (p *place) do(command ...string) {
	p.t.Helper()
	if err := p.client.Do(p.t.Context(), p.client.B().Arbitrary(command...).Build()).Error(); err != nil && !valkey.IsValkeyNil(err) {
		p.t.Fatalf("%v: %v", command, err)
	}
}

// add appends an entry, at once or some time ago.
func (p *place) add(key string, ago time.Duration) {
	p.t.Helper()
	p.do("XADD", key, fmt.Sprintf("%d-*", time.Now().Add(-ago).UnixMilli()), "kind", "notice")
}

// read reads a stream to its end, as the group does, and acknowledges.
func (p *place) read(key string) {
	p.t.Helper()
	if err := p.client.Do(p.t.Context(), p.client.B().Arbitrary("XGROUP", "CREATE", key, ofGroup, "0", "MKSTREAM").Build()).Error(); err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
		p.t.Fatal(err)
	}
	entries, err := p.client.Do(p.t.Context(), p.client.B().Xreadgroup().Group(ofGroup, "c").Streams().Key(key).Id(">").Build()).AsXRead()
	if err != nil && !valkey.IsValkeyNil(err) {
		p.t.Fatal(err)
	}
	for _, entry := range entries[key] {
		p.do("XACK", key, ofGroup, entry.ID)
	}
}

func (p *place) passes() {
	p.t.Helper()
	if err := p.Pass(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) wantRead(want ...string) {
	p.t.Helper()
	if diff := cmp.Diff(want, p.readers.list()); diff != "" {
		p.t.Error(diff)
	}
}

func (p *place) wantKeys(state string, want float64) {
	p.t.Helper()
	if got := testutil.ToFloat64(p.metrics.keys.WithLabelValues(state)); got != want {
		p.t.Errorf("%g keys are %s, want %g", got, state, want)
	}
}

// until waits for a condition.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for tick := time.NewTicker(5 * time.Millisecond); !holds(); {
		select {
		case <-deadline:
			t.Fatalf("not in 20 s: %s", what)
		case <-tick.C:
		}
	}
}

const (
	retryKey = "emq:{acme}:retry"
	g1, g2   = "emq:{acme}:stream:g1", "emq:{acme}:stream:g2"
)
