package consumer_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/consumer"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

func TestMain(m *testing.M) {
	if childMain() {
		return
	}
	serverstest.Main(m)
}

// Times of the tests: short, and far enough apart to tell.
const (
	minIdle  = time.Second
	beat     = 250 * time.Millisecond
	steady   = 3 * time.Second // a min-idle that no pause of a busy machine comes near
	long     = time.Hour       // one that never ends
	nameTTL  = 3 * time.Second
	patience = 20 * time.Second
)

// rig is a stream and a group of one test alone, and a plain client to look at them with.
type rig struct {
	t      testing.TB
	url    string              // of the server; "" where the test gave options
	opt    valkey.ClientOption // of its consumers
	client valkey.Client
	stream string
	logs   *logs
}

var rigs atomic.Int64

func newRig(t testing.TB) *rig { return rigAt(t, serverstest.Valkey(t)) }

func rigAt(t testing.TB, url string) *rig {
	t.Helper()
	r := rigWith(t, options(t, url))
	r.url = url
	return r
}

func rigWith(t testing.TB, opt valkey.ClientOption) *rig {
	t.Helper()
	plain := opt
	plain.ForceSingleClient = true
	plain.DisableCache = true
	plain.AlwaysRESP2 = false
	client, err := valkey.NewClient(plain)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	stream := fmt.Sprintf("orders:{t%d}:%d", time.Now().UnixNano(), rigs.Add(1))
	return &rig{t: t, opt: opt, client: client, stream: stream, logs: &logs{}}
}

func options(t testing.TB, url string) valkey.ClientOption {
	t.Helper()
	opt, err := valkey.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	return opt
}

// config is that of a consumer named a which acknowledges everything, at test speed but for min-idle: a test that needs a
// short one says so, and bears a machine that pauses for longer.
func (r *rig) config(change ...func(*consumer.Config)) consumer.Config {
	cfg := consumer.Config{
		Options: r.opt, Group: "g", Name: "a", Start: consumer.StartHead, Streams: []string{r.stream},
		MinIdle: long, Beat: beat, Block: 50 * time.Millisecond, Backoff: 30 * time.Millisecond,
		NameTTL:   nameTTL,
		NameLease: func(name string) string { return r.stream + ":name:" + name },
		Logger:    slog.New(slog.NewTextHandler(r.logs, nil)),
		Handler: func(_ context.Context, batch []consumer.Message) []consumer.Verdict {
			return all(batch, consumer.Ack())
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	return cfg
}

func all(batch []consumer.Message, v consumer.Verdict) []consumer.Verdict {
	return slices.Repeat([]consumer.Verdict{v}, len(batch))
}

// running is a consumer that runs until its test ends.
type running struct {
	*consumer.Consumer
	t    testing.TB
	done chan error
	once sync.Once
	err  error
}

func (r *rig) start(change ...func(*consumer.Config)) *running {
	r.t.Helper()
	c, err := consumer.New(r.config(change...))
	if err != nil {
		r.t.Fatal(err)
	}
	run := &running{Consumer: c, t: r.t, done: make(chan error, 1)}
	go func() { run.done <- c.Run(context.Background()) }()
	r.t.Cleanup(func() {
		run.stop()
		if r.t.Failed() {
			pending, err := r.do("XPENDING", r.stream, "g", "-", "+", "20").ToAny()
			r.t.Logf("stats: %+v\npending: %v %v\nlog:\n%s", c.Stats(), pending, err, r.logs)
		}
	})
	return run
}

// stop stops the consumer and fails the test unless that is clean.
func (c *running) stop() {
	c.t.Helper()
	c.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.Stop(ctx); err != nil {
			c.t.Errorf("stop: %v", err)
			return
		}
		c.err = <-c.done
	})
	if c.err != nil {
		c.t.Errorf("run: %v", c.err)
	}
}

func handler(h consumer.Handler) func(*consumer.Config) {
	return func(cfg *consumer.Config) { cfg.Handler = h }
}

func each(f func(context.Context, consumer.Message) consumer.Verdict) func(*consumer.Config) {
	return handler(consumer.Each(f))
}

func named(name string) func(*consumer.Config) {
	return func(cfg *consumer.Config) { cfg.Name = name }
}

// add appends an entry and returns its id.
func (r *rig) add(fields ...string) string { return r.addTo(r.stream, fields...) }

func (r *rig) addTo(stream string, fields ...string) string {
	r.t.Helper()
	if len(fields) == 0 {
		fields = []string{"n", "1"}
	}
	cmd := r.client.B().Xadd().Key(stream).Id("*").FieldValue()
	for i := 0; i < len(fields); i += 2 {
		cmd = cmd.FieldValue(fields[i], fields[i+1])
	}
	ctx, cancel := bounded()
	defer cancel()
	id, err := r.client.Do(ctx, cmd.Build()).ToString()
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

// bounded is the context of one command of a test: a client retries what only reads for as long as its context lets it.
func bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

// addMany appends n entries with n = 0, 1, ... and returns their ids.
func (r *rig) addMany(n int) []string {
	r.t.Helper()
	ids := make([]string, 0, n)
	ctx, cancel := bounded()
	defer cancel()
	for from := 0; from < n; from += 500 {
		var cmds []valkey.Completed
		for i := from; i < min(n, from+500); i++ {
			cmds = append(cmds, r.client.B().Xadd().Key(r.stream).Id("*").FieldValue().FieldValue("n", fmt.Sprint(i)).Build())
		}
		for _, res := range r.client.DoMulti(ctx, cmds...) {
			id, err := res.ToString()
			if err != nil {
				r.t.Fatal(err)
			}
			ids = append(ids, id)
		}
	}
	return ids
}

// do sends any command.
func (r *rig) do(args ...string) valkey.ValkeyResult {
	ctx, cancel := bounded()
	defer cancel()
	return r.client.Do(ctx, r.client.B().Arbitrary(args...).Build())
}

func (r *rig) must(args ...string) valkey.ValkeyMessage {
	r.t.Helper()
	m, err := r.do(args...).ToMessage()
	if err != nil && !valkey.IsValkeyNil(err) {
		r.t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return m
}

// group makes the group at the head, for entries that others read before any consumer of ours starts.
func (r *rig) group() { r.must("XGROUP", "CREATE", r.stream, "g", "0", "MKSTREAM") }

// readAs reads n entries as another, plain consumer, which then never settles them.
func (r *rig) readAs(name string, n int) {
	r.t.Helper()
	r.must("XREADGROUP", "GROUP", "g", name, "COUNT", fmt.Sprint(n), "STREAMS", r.stream, ">")
}

// settled waits until n entries were acknowledged or became dead letters and nothing is pending.
func (r *rig) settled(c *running, n int64) {
	r.t.Helper()
	eventually(r.t, func() bool {
		s := c.Stats()
		return s.Acked+s.DeadLettered >= n && len(r.pending()) == 0
	}, "%d entries settled", n)
}

// held tells which entry it has begun, and waits until it is let go.
func held(t *testing.T, begun chan<- string, release <-chan struct{}) func(*consumer.Config) {
	return each(func(_ context.Context, m consumer.Message) consumer.Verdict {
		select {
		case begun <- m.EntryID:
		case <-t.Context().Done():
			return consumer.Ack()
		}
		select {
		case <-release:
		case <-t.Context().Done():
		}
		return consumer.Ack()
	})
}

// eventually waits for a condition.
func eventually(t testing.TB, cond func() bool, format string, args ...any) {
	t.Helper()
	within(t, patience, cond, format, args...)
}

func within(t testing.TB, d time.Duration, cond func() bool, format string, args ...any) {
	t.Helper()
	deadline := time.After(d)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %s: %s", d, fmt.Sprintf(format, args...))
		}
	}
}

// age makes pending entries look idle for so long, their owners and counts kept.
func (r *rig) age(ids []string, idle time.Duration) {
	r.t.Helper()
	owner := map[string]string{}
	for _, p := range r.pending() {
		owner[p.id] = p.owner
	}
	for _, id := range ids {
		r.must("XCLAIM", r.stream, "g", owner[id], "0", id, "IDLE", fmt.Sprint(idle.Milliseconds()), "JUSTID")
	}
}

// receive takes one value from a channel, or its end, and does not wait for ever.
func receive[T any](t testing.TB, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(patience):
		t.Fatal("nothing came")
	}
	return v
}

func minIdleOf(d time.Duration) func(*consumer.Config) {
	return func(cfg *consumer.Config) { cfg.MinIdle = d }
}
