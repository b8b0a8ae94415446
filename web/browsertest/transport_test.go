package browsertest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/web/browsertest"
)

// stream is one stream of server-sent events that the page reads.
type stream struct {
	t      *testing.T
	header http.Header
	w      http.ResponseWriter
	gone   chan struct{} // closed when the handler may return
	left   <-chan struct{}
}

func (s *site) stream(w http.ResponseWriter, r *http.Request) {
	if s.polls.Load() {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	k := &stream{s.t, r.Header, w, make(chan struct{}), r.Context().Done()}
	k.flush()
	s.streams <- k
	select {
	case <-k.gone:
	case <-r.Context().Done():
	case <-s.t.Context().Done():
	}
}

// nextStream waits for the page's next stream.
func (s *site) nextStream() *stream {
	s.t.Helper()
	select {
	case k := <-s.streams:
		return k
	case <-time.After(patience):
		s.t.Fatal("the page asked for no stream")
		return nil
	}
}

func (k *stream) flush() {
	if err := http.NewResponseController(k.w).Flush(); err != nil {
		k.t.Errorf("flush: %v", err)
	}
}

func (k *stream) send(frames ...object) {
	k.t.Helper()
	for _, frame := range frames {
		body, err := json.Marshal(frame)
		if err != nil {
			k.t.Fatal(err)
		}
		if _, err := fmt.Fprintf(k.w, "id: %s:%v\ndata: %s\n\n", frame["epoch"], frame["to"], body); err != nil {
			k.t.Fatal(err)
		}
	}
	k.flush()
}

// atOnce lets the page come back without a pause.
const atOnce = `Math.random = () => 0`

// behindProxy opens the page of g1 where no upgrade gets through.
func behindProxy(t *testing.T) (*site, *browsertest.Page) {
	t.Helper()
	s := newSite(t)
	s.blocked.Store(true)
	page := browsertest.Tab(t)
	page.Before(atOnce)
	return s, page
}

func by(page *browsertest.Page, transport string) {
	page.Until(fmt.Sprintf(`document.getElementById("status").dataset.by === %q && document.getElementById("status").dataset.status === "live"`, transport))
}

func TestWithoutTheSocket(t *testing.T) {
	t.Parallel()
	browsertest.Browser(t)

	t.Run("ThePageLivesByAnEventStreamAndGoesBackToTheSocketWhereItWasLeft", func(t *testing.T) {
		t.Parallel()
		s, page := behindProxy(t)
		page.Open(s.URL + "/acme/g1")
		k := s.nextStream()
		s.mu.Lock()
		upgrades := s.upgrades
		s.mu.Unlock()
		if upgrades != 3 {
			t.Errorf("it tried the socket %d times, want 3", upgrades)
		}
		if last := k.header.Get("Last-Event-ID"); last != "" {
			t.Errorf("a fresh page resumes from %q", last)
		}
		k.send(snap("g1", 2, false, down(2, 1)...), tick("g1", 2))
		until(page, 2, 1)
		by(page, "eventStream")
		page.Do(blanked)
		k.send(live("g1", 2, 3, line(3, 3)))
		until(page, 3, 2, 1)

		close(k.gone) // a proxy cuts it
		k = s.nextStream()
		if last := k.header.Get("Last-Event-ID"); last != "e1:3" {
			t.Errorf("it resumes from %q, want e1:3", last)
		}
		k.send(delta("g1", 3, 4, line(4, 4)))
		until(page, 4, 3, 2, 1)
		by(page, "eventStream")

		s.blocked.Store(false)
		later(page, 11_000)
		socket := s.socket()
		if since := socket.sub("g1"); since != "e1:4" {
			t.Errorf("the socket resumes from %q, want e1:4", since)
		}
		socket.send(delta("g1", 4, 5, line(5, 5)))
		until(page, 5, 4, 3, 2, 1)
		by(page, "webSocket")
		select {
		case <-k.left:
		case <-time.After(patience):
			t.Error("the stream is still read")
		}
		if browsertest.Eval[bool](page, "window.blanked") {
			t.Error("the list was empty in between")
		}
	})

	t.Run("ThePageLivesByAskingWhereStreamsAreBlockedToo", func(t *testing.T) {
		t.Parallel()
		s, page := behindProxy(t)
		s.polls.Store(true)
		page.Open(s.URL + "/acme/g1")
		const game = "/v1/tenants/acme/games/g1"
		asks := func(n int, want string, v any) {
			t.Helper()
			if got := s.requests(n)[n-1]; got != want {
				t.Fatalf("request %d is %s, want %s", n, got, want)
			}
			s.answer(v)
		}
		asks(1, game, header("g1", 2))
		asks(2, game+"/timeline?limit=100", object{"lines": down(2, 1), "more": true, "cursor": "e1:2"})
		asks(3, game+"/changes?since=e1:2&limit=500&wait=0s", with(delta("g1", 2, 2), "more", false))
		until(page, 2, 1)
		by(page, "longPoll")
		asks(4, game+"/changes?since=e1:2&limit=500&wait=8s", with(delta("g1", 2, 4, line(3, 3), line(4, 4)), "more", true))
		asks(5, game+"/changes?since=e1:4&limit=500&wait=8s", with(delta("g1", 4, 5, line(5, 5)), "more", false))
		asks(6, game, with(header("g1", 5), "title", "Five"))
		until(page, 5, 4, 3, 2, 1)
		page.Until(`document.getElementById("title").textContent === "Five"`)

		s.requests(7)
		s.answers <- func(w http.ResponseWriter) { w.WriteHeader(http.StatusGone) } // the cursor is of another time
		asks(8, game, with(header("g1", 1), "cursor", "e2:1"))
		asks(9, game+"/timeline?limit=100", object{"lines": down(5, 4), "more": false, "cursor": "e2:1"})
		until(page, 5, 4)
	})

	t.Run("AStreamCarriesItsTokenInAHeader", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		page := browsertest.Tab(t)
		page.Open(s.URL + "/static/icons.txt")
		page.Do(`const { FeedClient, eventStream } = await import("/static/feed-client.js");
			const client = new FeedClient(location.origin.replace("http", "ws") + "/v1/tenants/acme/live", { token: "t0ken", transports: [eventStream] });
			window.state = client.watch("g1", { limit: 5 }).state;
			window.quit = () => client.close()`)
		k := s.nextStream()
		if got := k.header.Get("Authorization"); got != "Bearer t0ken" {
			t.Errorf("the stream is asked for with %q", got)
		}
		k.send(snap("g1", 1, false, line(1, 1)))
		page.Until(`state.entries.length === 1`)
		page.Do(`quit()`)
		select {
		case <-k.left:
		case <-time.After(patience):
			t.Error("closed, the client still reads")
		}
	})

	t.Run("AGameThatIsNotThereYetIsAskedForWithoutASocketToo", func(t *testing.T) {
		t.Parallel()
		s, page := behindProxy(t)
		s.polls.Store(true)
		page.Open(s.URL + "/acme/g1")
		s.requests(1)
		s.answers <- func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }
		page.Until(`document.getElementById("notice").dataset.notice === "unknown"`)
		chip(page, "waiting")
		later(page, 10_500)
		s.requests(2)
		s.answers <- func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) }
		noticed(page, "full")
		later(page, 10_500)
		s.requests(3)
		s.answer(header("g1", 1))
		s.requests(4)
		s.answer(object{"lines": down(1, 1), "more": false, "cursor": "e1:1"})
		until(page, 1)
	})
}

func TestTheExampleFollowsAGameInAFewLines(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	page := browsertest.Tab(t)
	page.Open(s.URL + "/static/example.html?tenant=acme&game=g1")
	k := s.socket()
	k.sub("g1")
	k.send(snap("g1", 2, false, with(line(2, 2), "text", hostile), retracted(1, 1, "")), live("g1", 2, 3, line(3, 3)))
	page.Until(`document.querySelector("ol").innerText === "player3 scored 3 %\n` + hostile + `\nremoved"`)
	page.Until(`document.querySelector("h1").textContent === "Room g1" && document.getElementById("phase").textContent === "live"`)
}

// TestWhatTheDocumentationShowsWorks runs the script of docs/pages.md as it stands there.
func TestWhatTheDocumentationShowsWorks(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	page := browsertest.Tab(t)
	page.Open(s.URL + "/static/icons.txt")
	_, script, _ := strings.Cut(read(t, "../../docs/pages.md"), `<script type="module">`)
	script, _, found := strings.Cut(script, `</script>`)
	if !found {
		t.Fatal("docs/pages.md shows no script")
	}
	script = strings.NewReplacer("https://feeds.example", s.URL, "wss://feeds.example", strings.Replace(s.URL, "http", "ws", 1)).Replace(script)
	script = regexp.MustCompile(`import (\{[^}]+\}) from ('[^']+')`).ReplaceAllString(script, "const $1 = await import($2)")
	page.Do(`window.show = (...shown) => { window.shown = shown };` + script)
	k := s.socket()
	k.sub("g1")
	k.send(snap("g1", 2, false, down(2, 1)...))
	page.Until(`JSON.stringify(shown) === '[["player2 scored 2 %","player1 scored 1 %"],[{"player":"alex","score":522}]]' && document.title === "live"`)
}
