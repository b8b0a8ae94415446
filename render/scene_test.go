package render

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/consumer"
	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/broadcast"
	"github.com/codemojex/feedrenderer/feed/tenants"
	"github.com/codemojex/feedrenderer/feed/timeline"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

// scene is a tenant of a test's own with its game, on real servers.
type scene struct {
	t        *testing.T
	address  string // of the Valkey
	client   valkey.Client
	writer   *timeline.Writer
	reader   *timeline.Reader
	doorbell *broadcast.Publisher
	game     feed.GameKey
	appended feed.ID // the last
}

var scenesMade atomic.Int64

func newScene(t *testing.T) *scene {
	t.Helper()
	return newSceneOn(t, serverstest.Valkey(t), serverstest.Database(t))
}

func newSceneOn(t *testing.T, valkeyURL, databaseURL string) *scene {
	t.Helper()
	at, err := url.Parse(valkeyURL)
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, address: at.Host, client: clientOf(t, valkeyURL)}
	s.doorbell = broadcast.NewPublisher(s.client)
	s.game = feed.GameKey{Tenant: feed.TenantID(fmt.Sprint("t", scenesMade.Add(1))), Game: "g1"}
	pool := func(role timeline.Role) *pgxpool.Pool {
		pool, err := timeline.Open(t.Context(), databaseURL, role, 4)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pool
	}
	render := pool(timeline.RoleRender)
	if err := tenants.NewStore(render).Ensure(t.Context(), []feed.TenantID{s.game.Tenant}); err != nil {
		t.Fatal(err)
	}
	s.writer, s.reader = timeline.NewWriter(render), timeline.NewReader(pool(timeline.RoleWeb))
	s.appended = feed.IDAt(time.Now())
	return s
}

// append appends an event and returns its id.
func (s *scene) append(kind string, pairs ...string) feed.ID {
	s.t.Helper()
	s.appended++
	if err := feed.AppendEvent(s.t.Context(), s.client, s.game, s.appended, event(kind, pairs...).Fields); err != nil {
		s.t.Fatal(err)
	}
	return s.appended
}

// worker makes a worker over the scene's servers, seen through the given wrappers.
func (s *scene) worker(timeline Timeline, doorbell Doorbell) *Worker {
	return NewWorker(WorkerConfig{Kinds: load(s.t, nil), Timeline: timeline, Doorbell: doorbell})
}

// consume runs a consumer of the scene's game at an address until the test calls stop or ends.
func (s *scene) consume(address string, handler consumer.Handler, adjust func(*consumer.Config)) (c *consumer.Consumer, stop func()) {
	s.t.Helper()
	cfg := consumer.Config{
		Options: valkey.ClientOption{InitAddress: []string{address}},
		Group:   ofGroup, Name: fmt.Sprint(s.game.Tenant, "-", scenesMade.Add(1)), Start: consumer.StartHead,
		Streams: []string{s.game.Stream(), s.game.Tenant.RetryStream()}, Handler: handler,
		MinIdle: 300 * time.Millisecond, Block: 20 * time.Millisecond, Backoff: 20 * time.Millisecond, StopTimeout: 200 * time.Millisecond,
		DeadLetter: func(stream string) string {
			key, err := feed.ParseStream(stream)
			if err != nil {
				return s.game.DeadLetters()
			}
			return key.DeadLetters()
		},
		RetryStream: func(string) string { return s.game.Tenant.RetryStream() },
	}
	if adjust != nil {
		adjust(&cfg)
	}
	c, err := consumer.New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Run(ctx); err != nil && ctx.Err() == nil {
			s.t.Error(err)
		}
	})
	stop = func() { cancel(); running.Wait() }
	s.t.Cleanup(stop)
	return c, stop
}

func (s *scene) count(command ...string) int64 {
	s.t.Helper()
	n, err := s.client.Do(s.t.Context(), s.client.B().Arbitrary(command...).Build()).AsInt64()
	if err != nil {
		s.t.Fatalf("%v: %v", command, err)
	}
	return n
}

// settled reports whether the group was given all entries of the game and has none pending.
func (s *scene) settled() bool {
	s.t.Helper()
	d := Discovery{cfg: DiscoveryConfig{Group: ofGroup}}
	group, err := d.groupOf(s.client.Do(s.t.Context(), s.client.B().XinfoGroups().Key(s.game.Stream()).Build()))
	return err == nil && group.pending == 0 && group.delivered == s.appended.EntryID()
}

func (s *scene) deadLetters() int64 { return s.count("XLEN", s.game.DeadLetters()) }

// lines are those that a watcher of the game sees, newest first.
func (s *scene) lines() []feed.View {
	s.t.Helper()
	page, err := s.reader.Page(s.t.Context(), s.game, timeline.PageQuery{Limit: 500})
	if err != nil {
		s.t.Fatal(err)
	}
	return page.Lines
}

// line is between a consumer and its Valkey, and can be cut.
type line struct {
	listener net.Listener
	server   string
	onAck    func(l *line) (forward, cut bool) // what to do with an XACK; nil: it goes through as all else does
	muted    atomic.Bool                       // answers go nowhere any more

	mu    sync.Mutex
	conns []net.Conn
	dead  bool
	wait  sync.WaitGroup
}

func newLine(t *testing.T, server string, onAck func(l *line) (forward, cut bool)) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{listener: listener, server: server, onAck: onAck}
	l.wait.Go(l.accept)
	t.Cleanup(func() { l.cut(); l.wait.Wait() })
	return l
}

func (l *line) address() string { return l.listener.Addr().String() }

func (l *line) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", l.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		l.mu.Lock()
		l.conns = append(l.conns, client, server)
		dead := l.dead
		l.mu.Unlock()
		if dead {
			_, _ = client.Close(), server.Close()
			return
		}
		l.wait.Go(func() { l.copy(server, client, l.request) })
		l.wait.Go(func() { l.copy(client, server, l.answer) })
	}
}

func (l *line) request(text []byte) (forward, cut bool) {
	if l.onAck != nil && bytes.Contains(text, []byte("\r\nXACK\r\n")) {
		return l.onAck(l)
	}
	return true, false
}

func (l *line) answer([]byte) (forward, cut bool) { return !l.muted.Load(), false }

func (l *line) copy(to, from net.Conn, judge func(text []byte) (forward, cut bool)) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		forward, cut := judge(buffer[:n])
		if cut {
			l.cut()
			return
		}
		if forward {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
}

// cut ends all connections and takes no new one.
func (l *line) cut() {
	_ = l.listener.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	for _, conn := range l.conns {
		_ = conn.Close()
	}
}

func (l *line) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}
