package web

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
	"github.com/codemojex/feedrenderer/watch"
)

func TestMain(m *testing.M) { serverstest.Main(m) }

var acme = feed.GameKey{Tenant: "acme", Game: "g1"}

// patience bounds every wait of a test.
const patience = 30 * time.Second

// site is a running server.
type site struct {
	*Server
	http *httptest.Server
}

// serve runs a server over a model until the test ends.
func serve(t *testing.T, m *model, change func(*Config)) *site {
	t.Helper()
	config := Config{
		Timeline: m, Tenants: m, Doorbell: m, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Times: Times{Sweep: 50 * time.Millisecond, Park: 10 * time.Millisecond, Header: 50 * time.Millisecond, Tick: 200 * time.Millisecond, Spread: 100 * time.Millisecond},
	}
	if change != nil {
		change(&config)
	}
	return run(t, config)
}

func run(t *testing.T, config Config) *site {
	t.Helper()
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	server := httptest.NewUnstartedServer(s.Public())
	server.Config = NewHTTPServer(s.Public(), config.Logger)
	server.Start()
	t.Cleanup(func() {
		cancel()
		<-ended
		server.Close()
	})
	return &site{s, server}
}

func (s *site) liveURL(tenant string) string {
	return "ws" + strings.TrimPrefix(s.http.URL, "http") + "/v1/tenants/" + tenant + "/live"
}

func (s *site) dial(t *testing.T, tenant string) *wire {
	t.Helper()
	conn, err := watch.Dial(t.Context(), s.liveURL(tenant))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &wire{t: t, conn: conn}
}

// wire is a client of a test.
type wire struct {
	t    *testing.T
	conn *watch.Conn
	game *feed.Game // the newest header that came
}

// within gives a step of the test its time: each has the whole patience, however long the steps before it took.
func (w *wire) within(step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	return step(ctx)
}

// do takes a step that must succeed.
func (w *wire) do(step func(context.Context) error) {
	w.t.Helper()
	if err := w.within(step); err != nil {
		w.t.Fatal(err)
	}
}

func (w *wire) sub(game feed.GameID, since feed.Cursor, limit int) {
	w.t.Helper()
	w.do(func(ctx context.Context) error { return w.conn.Subscribe(ctx, game, since, limit) })
}

// raw sends what no client of ours would.
func (w *wire) raw(data string) {
	w.t.Helper()
	w.do(func(ctx context.Context) error { return w.conn.Send(ctx, []byte(data)) })
}

// until reads frames up to the first that fits.
func (w *wire) until(fits func(watch.Frame) bool) (f watch.Frame) {
	w.t.Helper()
	w.do(func(ctx context.Context) (err error) {
		for {
			if f, err = w.conn.Read(ctx); err != nil {
				return err
			}
			if f.Header != nil {
				w.game = f.Header
			}
			if fits(f) {
				return nil
			}
		}
	})
	return f
}

func (w *wire) any() watch.Frame {
	w.t.Helper()
	return w.until(func(watch.Frame) bool { return true })
}

// next is the next frame but for ticks and headers.
func (w *wire) next() watch.Frame {
	w.t.Helper()
	return w.until(func(f watch.Frame) bool { return f.T != "tick" && f.T != "game" })
}

// header reads frames until the newest header fits; it may have come already.
func (w *wire) header(fits func(*feed.Game) bool) {
	w.t.Helper()
	if w.game == nil || !fits(w.game) {
		w.until(func(watch.Frame) bool { return w.game != nil && fits(w.game) })
	}
}

// closed reads until the connection ends and returns the code.
func (w *wire) closed() int {
	w.t.Helper()
	return watch.CloseCode(w.within(func(ctx context.Context) error {
		for {
			if _, err := w.conn.Read(ctx); err != nil {
				return err
			}
		}
	}))
}

func texts(lines []feed.View) []string {
	out := []string{}
	for _, line := range lines {
		out = append(out, line.Text)
	}
	return out
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(feed.Instant{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func (s *site) get(t *testing.T, path string, header ...string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.http.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Transport: s.http.Client().Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}
