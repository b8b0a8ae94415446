package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/codemojex/feedrenderer/consumer"
	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/broadcast"
	"github.com/codemojex/feedrenderer/feed/tenants"
	"github.com/codemojex/feedrenderer/feed/timeline"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
	"github.com/codemojex/feedrenderer/render"
	"github.com/codemojex/feedrenderer/web"
)

// secrets are what two runs of a blind game differ in.
type secrets struct{ pct, eff, codes, secret string }

// blindBatches is the same game whatever its secrets: the same ids, kinds and players in the same batches, with a late
// score, one that is redelivered, a correction and a retraction of scores.
func blindBatches(s secrets) [][]feed.Event {
	start := feed.IDAt(feed.Epoch.Add(1000 * time.Hour))
	event := func(n int, fields ...string) feed.Event {
		e := feed.Event{Game: blindGame, ID: start + feed.ID(n)}
		for i := 0; i < len(fields); i += 2 {
			e.Fields = append(e.Fields, feed.Field{Name: fields[i], Value: fields[i+1]})
		}
		return e
	}
	scored := func(n int, player string) feed.Event {
		return event(n, "kind", "scored", "player", player, "pct", s.pct, "eff", s.eff, "guess", s.codes)
	}
	target := func(n int) string { return (start + feed.ID(n)).String() }
	return [][]feed.Event{
		{scored(3, "ann")}, // before anything says that the game is blind
		{event(1, "kind", "opened", "mode", "blind", "room", "r1", "prize", "100", "ends_ms", "1704067200000"), event(2, "kind", "joined", "player", "ann")},
		{event(4, "kind", "joined", "player", "bob"), event(5, "kind", "guessed", "player", "bob", "guess", s.codes), scored(6, "bob")},
		{scored(6, "bob"), scored(7, "cyd"), event(8, "kind", "notice", "text", "hello")},
		{event(9, "kind", "corrected", "target", target(6), "fields", `{"pct":"`+s.pct+`"}`)},
		{event(10, "kind", "retracted", "target", target(7), "reason", "a slip")},
		{scored(0, "dan")}, // late
	}
}

var blindGame = feed.GameKey{Tenant: "blind-a", Game: "g1"}

// Two runs that differ only in what nobody may see are the same for everybody: bodies, tags and frames to the byte.
func TestABlindGameTellsNothingBeforeItsReveal(t *testing.T) {
	t.Parallel()
	var runs [2][]string
	for i, s := range []secrets{
		{pct: "3", eff: "18", codes: "a b c d e f", secret: "x y z"},
		{pct: "100", eff: "600", codes: "🍎 🍌 🍒 🍓 🥝 🍍", secret: "🍍 🥝 🍓 🍒 🍌 🍎 and more"},
	} {
		runs[i] = playBlind(t, s)
		for _, hidden := range []string{s.codes, s.secret, `"pct"`, `"eff"`, "scored", "dan", "a slip"} {
			for _, answer := range runs[i] {
				if _, body, _ := strings.Cut(answer, " <- "); strings.Contains(body, hidden) { // the question may name it
					t.Errorf("%q is told: %s", hidden, answer)
				}
			}
		}
		if said := strings.Join(runs[i], "\n"); !strings.Contains(said, "bob joined") || !strings.Contains(said, "stream lines") || !strings.Contains(said, "socket game") {
			t.Fatalf("too little is recorded: %s", said)
		}
	}
	if diff := cmp.Diff(runs[0], runs[1]); diff != "" {
		t.Errorf("the runs differ: %s", diff)
	}
}

// playBlind plays a blind game, records all that it says before the reveal, and then sees to it that every score comes.
func playBlind(t *testing.T, s secrets) []string {
	t.Helper()
	sys := newSystem(t, serverstest.Valkey(t))
	render_, registry := sys.pool(timeline.RoleRender), prometheus.NewRegistry()
	if err := tenants.NewStore(render_).Ensure(t.Context(), []feed.TenantID{blindGame.Tenant}); err != nil {
		t.Fatal(err)
	}
	fixEpoch(t, sys.database)
	kinds, err := render.LoadKinds("")
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	worker := render.NewWorker(render.WorkerConfig{Kinds: kinds, Timeline: timeline.NewWriter(render_), Doorbell: broadcast.NewPublisher(sys.client), Logger: quiet})
	option := valkeyURL(new(faults), sys.valkey)
	listening, err := newValkey(broadcast.SubscriberOption(option))
	if err != nil {
		t.Fatal(err)
	}
	defer listening.Close()
	pool := sys.pool(timeline.RoleWeb)
	server, err := web.New(web.Config{
		Timeline: timeline.NewReader(pool), Tenants: tenants.NewStore(pool), Doorbell: broadcast.NewSubscriber(listening, quiet), Logger: quiet, Registry: registry,
		Times: web.Times{Header: time.Millisecond, Sweep: 100 * time.Millisecond, Tick: time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { server.Run(life) })
	site := httptest.NewServer(server.Public())
	defer func() {
		end()
		running.Wait()
		site.Close()
	}()

	b := &blind{t: t, site: site, reader: timeline.NewReader(pool), registry: registry}
	for i, batch := range blindBatches(s) {
		step(t, worker, batch)
		if i == 0 {
			b.watch()
		}
		b.settle()
		b.look()
	}
	recorded := slices.Concat(b.said, b.frames())

	step(t, worker, []feed.Event{{Game: blindGame, ID: feed.IDAt(feed.Epoch.Add(1000*time.Hour)) + 50, Fields: feed.Fields{
		{Name: "kind", Value: "revealed"}, {Name: "secret", Value: s.secret}, {Name: "nonce", Value: "n"},
	}}})
	b.settle()
	after := strings.Join(b.frames(), "\n")
	for _, player := range []string{"ann", "bob", "dan"} {
		if n := strings.Count(after, `"text":"`+player+" scored "+s.pct+` %"`); n != 2 {
			t.Errorf("the score of %s came %d times over two ways: %s", player, n, after)
		}
	}
	if _, page := get(t, site.URL+"/v1/tenants/blind-a/games/g1/timeline"); strings.Count(page, " scored ") != 3 || !strings.Contains(page, "the code was "+s.secret) {
		t.Errorf("after the reveal: %s", page)
	}
	return recorded
}

// fixEpoch gives every game of a database the same part of its epoch.
func fixEpoch(t *testing.T, url string) {
	t.Helper()
	owner, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := owner.Exec(t.Context(), `alter table games alter column seed set default 'fixed'`); err != nil {
		t.Fatal(err)
	}
	if err := owner.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func step(t *testing.T, worker *render.Worker, events []feed.Event) {
	t.Helper()
	batch := make([]consumer.Message, len(events))
	for i, e := range events {
		batch[i] = consumer.Message{Stream: e.Game.Stream(), EntryID: e.ID.EntryID(), Attempts: 1}
		for name, value := range e.Fields.All() {
			batch[i].Fields = append(batch[i].Fields, consumer.Field{Name: name, Value: value})
		}
	}
	for i, verdict := range worker.Step(t.Context(), batch) {
		if verdict.Kind() != consumer.KindAck {
			t.Fatalf("event %d: %v", i, verdict)
		}
	}
}

// blind is who watches a blind game by every way there is, and writes it down.
type blind struct {
	t        *testing.T
	site     *httptest.Server
	reader   *timeline.Reader
	registry *prometheus.Registry
	said     []string // question <- answer
	cursors  []string
	tags     []string
	headers  float64 // headers that hubs had read when last looked at

	mu    sync.Mutex          // guards lines
	lines map[string][]string // frames by the way they came and their kind: how the kinds mix is a matter of time
}

// watch opens a socket and an event stream, which live as long as the test.
func (b *blind) watch() {
	b.t.Helper()
	b.lines = map[string][]string{}
	const live = "/v1/tenants/blind-a"
	conn, _, err := websocket.Dial(b.t.Context(), "ws"+strings.TrimPrefix(b.site.URL, "http")+live+"/live", nil) //nolint:bodyclose // the library closes it
	if err != nil {
		b.t.Fatal(err)
	}
	conn.SetReadLimit(-1)
	b.t.Cleanup(func() { _ = conn.CloseNow() })
	if err := conn.Write(b.t.Context(), websocket.MessageText, []byte(`{"t":"sub","g":"g1"}`)); err != nil {
		b.t.Fatal(err)
	}
	go func() {
		for {
			_, data, err := conn.Read(context.WithoutCancel(b.t.Context()))
			if err != nil {
				return
			}
			b.came("socket", string(data))
		}
	}()
	answer, err := http.Get(b.site.URL + live + "/games/g1/stream")
	if err != nil {
		b.t.Fatal(err)
	}
	go func() {
		defer answer.Body.Close()
		var held strings.Builder
		part := make([]byte, 4096)
		for {
			n, err := answer.Body.Read(part)
			if err != nil {
				return
			}
			held.Write(part[:n])
			whole, rest, ok := strings.Cut(held.String(), "\n\n")
			for ; ok; whole, rest, ok = strings.Cut(rest, "\n\n") {
				b.came("stream", whole)
				held.Reset()
				held.WriteString(rest)
			}
		}
	}()
}

func (b *blind) came(by, data string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, kind, _ := strings.Cut(data, `{"t":"`)
	kind, _, _ = strings.Cut(kind, `"`)
	b.lines[by+" "+kind] = append(b.lines[by+" "+kind], data)
}

// frames are all that came since they were last asked for.
func (b *blind) frames() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, kind := range []string{"socket snap", "socket lines", "socket delta", "socket reset", "socket game", "stream snap", "stream lines", "stream delta", "stream reset", "stream game", "socket err", "stream err"} {
		for _, data := range b.lines[kind] {
			out = append(out, kind+" <- "+data)
		}
	}
	clear(b.lines)
	return out
}

// settle waits until both ways have come to where the table is and the header was read since.
func (b *blind) settle() {
	b.t.Helper()
	head, err := b.reader.Head(b.t.Context(), blindGame)
	if err != nil {
		b.t.Fatal(err)
	}
	moved := len(b.cursors) == 0 || b.cursors[len(b.cursors)-1] != head.Cursor.String()
	b.cursors = append(b.cursors, head.Cursor.String())
	at := fmt.Sprintf(`"to":%d,`, head.Cursor.Ver)
	until(b.t, "both ways are at "+at, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, by := range []string{"socket", "stream"} {
			if !strings.Contains(strings.Join(b.lines[by+" snap"], "")+strings.Join(b.lines[by+" lines"], ""), at) && moved {
				return false
			}
		}
		return true
	})
	if moved && len(b.cursors) > 1 {
		until(b.t, "the header is read", func() bool { return b.headersRead() > b.headers })
	}
	b.headers = b.headersRead()
	b.listed(head.Cursor)
}

// listed waits until the lists of games, which are good for a while, are of the table's version.
func (b *blind) listed(at feed.Cursor) {
	b.t.Helper()
	game, err := b.reader.Game(b.t.Context(), blindGame)
	if err != nil {
		b.t.Fatal(err)
	}
	until(b.t, "the lists are at "+at.String(), func() bool {
		_, list := get(b.t, b.site.URL+"/v1/tenants/blind-a/games")
		_, lobby := get(b.t, b.site.URL+"/blind-a/")
		return strings.Contains(list, at.String()) && strings.Contains(lobby, "<span>"+string(game.Status)+"</span>")
	})
}

func (b *blind) headersRead() (n float64) {
	families, err := b.registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if family.GetName() == "feedrenderer_web_hub_queries_total" && label.GetName() == "query" && label.GetValue() == "game" {
					n += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}

// look asks for everything there is to ask for.
func (b *blind) look() {
	b.t.Helper()
	const tenant = "/v1/tenants/blind-a"
	const game = tenant + "/games/g1"
	paths := []string{
		tenant + "/games", game, game + "/board", game + "/timeline", game + "/timeline?limit=2", game + "/timeline?kind=scored", game + "/timeline?actor=dan",
		game + "/timeline?q=3", game + "/timeline?q=100", game + "/timeline?q=ann", "/blind-a/", "/blind-a/g1", "/blind-a/g1?q=100",
	}
	for n := range 12 {
		paths = append(paths, game+"/lines/"+(feed.IDAt(feed.Epoch.Add(1000*time.Hour))+feed.ID(n)).String())
	}
	for _, cursor := range b.cursors {
		paths = append(paths, game+"/changes?since="+cursor, game+"/changes?limit=1&since="+cursor)
	}
	for _, path := range paths {
		for _, tag := range append([]string{""}, b.tags...) {
			b.ask(path, tag)
		}
	}
}

func (b *blind) ask(path, tag string) {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.site.URL+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	request.Header.Set("If-None-Match", tag)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	answer.Header.Del("Date")
	b.said = append(b.said, fmt.Sprintf("%s %s <- %d %v %s", path, tag, answer.StatusCode, answer.Header, body))
	if got := answer.Header.Get("ETag"); got != "" && strings.HasSuffix(path, "/games/g1") && !slices.Contains(b.tags, got) {
		b.tags = append(b.tags, got)
	}
}
