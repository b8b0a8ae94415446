package browsertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/codemojex/feedrenderer/feed"
)

// patience bounds every wait for the page's next move.
const patience = 30 * time.Second

// policy is what the pages are served with in earnest.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// object is a JSON object.
type object map[string]any

// site serves the pages and lets the test be their server: it takes the page's sockets and answers its requests by hand.
type site struct {
	*httptest.Server
	t       *testing.T
	sockets chan *socket
	streams chan *stream
	reply   func(uri string) any           // answers all requests of REST, where it is set
	silent  atomic.Bool                    // sockets say nothing but what the test sends
	blocked atomic.Bool                    // sockets, by a proxy
	polls   atomic.Bool                    // streams are blocked as well
	answers chan func(http.ResponseWriter) // to requests of REST, in the order of their coming

	mu       sync.Mutex
	asked    []string // guarded by mu: the requests of REST
	shown    []string // guarded by mu: the Authorization of each
	upgrades int      // guarded by mu: those that the proxy did not let through
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, sockets: make(chan *socket, 16), streams: make(chan *stream, 16), answers: make(chan func(http.ResponseWriter), 16)}
	pages, err := template.ParseGlob("../templates/*.html")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	files := http.StripPrefix("/static/", http.FileServerFS(os.DirFS("../static")))
	mux.HandleFunc("GET /static/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		files.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /acme/{$}", func(w http.ResponseWriter, _ *http.Request) {
		s.page(w, pages, "lobby.html", struct {
			Tenant, Title string
			Games         []feed.Game
		}{"acme", "", []feed.Game{{Game: "g1", Status: feed.StatusOpen, Mode: feed.ModeClassic}}})
	})
	mux.HandleFunc("GET /acme/{game}", func(w http.ResponseWriter, r *http.Request) {
		id, err := feed.ParseID(evt(1))
		if err != nil {
			t.Error(err)
		}
		s.page(w, pages, "feed.html", struct {
			Tenant, Game, Title string
			Lines               []feed.View
			Older               string
		}{"acme", r.PathValue("game"), "", []feed.View{{Evt: id, At: feed.Instant(id.Time()), Text: hostile, Icon: "dart", State: feed.Live}}, "?before=" + evt(1)})
	})
	mux.HandleFunc("GET /private/{$}", func(w http.ResponseWriter, _ *http.Request) { s.closed(w, pages, "lobby.html") })
	mux.HandleFunc("GET /private/{game}", func(w http.ResponseWriter, _ *http.Request) { s.closed(w, pages, "feed.html") })
	mux.HandleFunc("GET /v1/tenants/{tenant}/live", s.live)
	mux.HandleFunc("GET /v1/tenants/{tenant}/games", s.rest)
	mux.HandleFunc("GET /v1/tenants/{tenant}/games/{game}/stream", s.stream)
	mux.HandleFunc("GET /v1/tenants/{tenant}/games/", s.rest)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *site) page(w http.ResponseWriter, pages *template.Template, name string, data any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
	if err := pages.ExecuteTemplate(w, name, data); err != nil {
		s.t.Errorf("render %s: %v", name, err)
	}
}

// closed answers with a page that is not for everybody.
func (s *site) closed(w http.ResponseWriter, pages *template.Template, name string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
	w.WriteHeader(http.StatusNotFound)
	err := pages.ExecuteTemplate(w, name, struct {
		Tenant, Game, Title, Older string
		Lines                      []feed.View
		Games                      []feed.Game
	}{})
	if err != nil {
		s.t.Errorf("render %s: %v", name, err)
	}
}

// rest answers what the test put into answers; the page waits for it.
func (s *site) rest(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked, s.shown = append(s.asked, r.URL.RequestURI()), append(s.shown, r.Header.Get("Authorization"))
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if s.reply != nil {
		if err := json.NewEncoder(w).Encode(s.reply(r.URL.RequestURI())); err != nil {
			s.t.Errorf("answer: %v", err)
		}
		return
	}
	select {
	case answer := <-s.answers:
		answer(w)
	case <-r.Context().Done():
	}
}

// answer lets the page have v for its next request of REST.
func (s *site) answer(v any) {
	s.answers <- func(w http.ResponseWriter) {
		if err := json.NewEncoder(w).Encode(v); err != nil {
			s.t.Errorf("answer: %v", err)
		}
	}
}

// requests waits until the page has made n requests of REST and gives their addresses back.
func (s *site) requests(n int) []string {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		s.mu.Lock()
		asked := append([]string(nil), s.asked...)
		s.mu.Unlock()
		if len(asked) >= n {
			return asked
		}
		select {
		case <-deadline:
			s.t.Fatalf("%d requests, want %d: %q", len(asked), n, asked)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// socket is one connection of the page.
type socket struct {
	t    *testing.T
	conn *websocket.Conn
	gone chan struct{} // closed when the handler may return
}

func (s *site) live(w http.ResponseWriter, r *http.Request) {
	if s.blocked.Load() {
		s.mu.Lock()
		s.upgrades++
		s.mu.Unlock()
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		s.t.Errorf("accept: %v", err)
		return
	}
	k := &socket{s.t, conn, make(chan struct{})}
	s.sockets <- k
	beat := time.NewTicker(3 * time.Second)
	defer beat.Stop()
	for open := true; open; {
		select {
		case <-k.gone:
			open = false
		case <-s.t.Context().Done():
			open = false
		case <-beat.C: // a sign of life, for tests that take long on a busy machine
			if !s.silent.Load() {
				open = wsjson.Write(s.t.Context(), conn, with(tick("", 0), "games", []object{})) == nil
			}
		}
	}
	if err := conn.CloseNow(); err != nil && !errors.Is(err, io.EOF) {
		s.t.Logf("close: %v", err)
	}
}

// socket waits for the page's next connection.
func (s *site) socket() *socket {
	s.t.Helper()
	select {
	case k := <-s.sockets:
		return k
	case <-time.After(patience):
		s.t.Fatal("the page did not connect")
		return nil
	}
}

// take waits for the page's next frame.
func (k *socket) take() object {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var frame object
	if err := wsjson.Read(ctx, k.conn, &frame); err != nil {
		k.t.Fatalf("read the page's frame: %v", err)
	}
	return frame
}

// sub waits for the page's next frame, which must subscribe to the game, and gives its `since` back.
func (k *socket) sub(game string) string {
	k.t.Helper()
	frame := k.take()
	if frame["t"] != "sub" || frame["g"] != game {
		k.t.Fatalf("the page sent %v, want a sub of %s", frame, game)
	}
	since, _ := frame["since"].(string)
	return since
}

func (k *socket) send(frames ...object) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, frame := range frames {
		if err := wsjson.Write(ctx, k.conn, frame); err != nil {
			k.t.Fatalf("send %v: %v", frame, err)
		}
	}
}

// text sends what may be no frame at all.
func (k *socket) text(text string) {
	k.t.Helper()
	if err := k.conn.Write(k.t.Context(), websocket.MessageText, []byte(text)); err != nil {
		k.t.Fatalf("send %s: %v", text, err)
	}
}

// close ends the connection with a code.
func (k *socket) close(code int, reason string) {
	k.t.Helper()
	if err := k.conn.Close(websocket.StatusCode(code), reason); err != nil {
		k.t.Fatalf("close: %v", err)
	}
	close(k.gone)
}

// ended waits for the end of the connection, whose error it returns; nil where the page sent another frame.
func (k *socket) ended() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, _, err := k.conn.Read(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		k.t.Fatal("the socket is still open")
	}
	return err
}

// drop ends the connection without a word.
func (k *socket) drop() { close(k.gone) }

// hostile is what a line must never be taken for.
const hostile = `<img src=x onerror=alert(1)>`

// evt is the id of the n-th event: their order is that of n.
func evt(n int) string { return fmt.Sprintf("EVT0SU%08d", n) }

func line(n, ver int) object {
	return object{
		"evt": evt(n), "ver": ver, "kind": "scored", "at": time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), "actor": fmt.Sprintf("player%d", n),
		"text": fmt.Sprintf("player%d scored %d %%", n, n%100), "fields": object{}, "icon": "dart", "tone": "plain", "state": "live",
	}
}

// with is the object with other values for some keys: with(line(1, 1), "text", "hello").
func with(o object, pairs ...any) object {
	out := object{}
	for key, value := range o {
		out[key] = value
	}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i].(string)] = pairs[i+1]
	}
	return out
}

func retracted(n, ver int, reason string) object {
	return with(line(n, ver), "state", "retracted", "reason", reason, "text", "", "kind", "", "icon", "", "tone", "", "actor", "")
}

func header(game string, ver int) object {
	return object{
		"game": game, "title": "Room " + game, "status": "open", "mode": "classic", "released": true, "counts": object{"lines": 3, "players": 2},
		"board": []object{{"player": "alex", "score": 522}}, "cursor": fmt.Sprintf("e1:%d", ver),
	}
}

// snap answers a sub: the lines are given newest first.
func snap(game string, to int, older bool, lines ...object) object {
	return object{"t": "snap", "g": game, "epoch": "e1", "to": to, "game": header(game, to), "lines": nonNil(lines), "older": older}
}

func live(game string, from, to int, lines ...object) object {
	return object{"t": "lines", "g": game, "epoch": "e1", "from": from, "to": to, "lines": nonNil(lines)}
}

func delta(game string, from, to int, lines ...object) object {
	return with(live(game, from, to, lines...), "t", "delta")
}

func tick(game string, to int) object {
	return object{"t": "tick", "now": time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), "games": []object{{"g": game, "to": to, "watchers": 5}}}
}

func nonNil(lines []object) []object {
	if lines == nil {
		return []object{}
	}
	return lines
}

// down is the lines from n down to m, newest first, each at the version of its number.
func down(n, m int) []object {
	var out []object
	for ; n >= m; n-- {
		out = append(out, line(n, n))
	}
	return out
}

// ids is the script that lists the rows' ids, and idsOf the list that it must give.
const ids = `[...document.querySelectorAll("#feed > article")].map((row) => row.id).join(" ")`

func idsOf(numbers ...int) string {
	out := make([]string, len(numbers))
	for i, n := range numbers {
		out[i] = evt(n)
	}
	return strings.Join(out, " ")
}
