package web

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/timeline"
	"github.com/codemojex/feedrenderer/watch"
)

func TestREST(t *testing.T) {
	t.Parallel()
	m := newModel(acme)
	for i := range 3 {
		m.say(acme, evt(i), text(i))
	}
	s := serve(t, m, nil)
	const game = "/v1/tenants/acme/games/g1"

	t.Run("EveryReadAnswersJSON", func(t *testing.T) {
		for path, want := range map[string]string{
			"/v1/tenants/acme/games":           `"games":[{"game":"g1"`,
			game:                               `"cursor":"e1:3"`,
			game + "/timeline?limit=2":         `"more":true,"cursor":"e1:3"`,
			game + "/changes?since=e1:2":       `"t":"delta","g":"g1","epoch":"e1","from":2,"to":3,"lines":[{`,
			game + "/changes?since=e1:3":       `"from":3,"to":3,"lines":[],"more":false`,
			game + "/lines/" + evt(1).String(): `"text":"line 1"`,
			"/healthz":                         `{"alive":true}`,
		} {
			answer, body := s.get(t, path)
			if answer.StatusCode != http.StatusOK || !strings.Contains(body, want) || !strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json") {
				t.Errorf("%s: %d %s, want %s", path, answer.StatusCode, body, want)
			}
		}
	})

	t.Run("WhatIsUnknownForeignForbiddenOrMalformedGetsOneAnswer", func(t *testing.T) {
		_, want := s.get(t, "/v1/tenants/nobody/games/g1")
		for _, path := range []string{
			"/v1/tenants/acme/games/nope", "/v1/tenants/acme/games/nope/timeline", "/v1/tenants/secret/games", "/v1/tenants/globex/games/g1",
			"/v1/tenants/BAD/games", "/v1/tenants/acme/games/b%20d", game + "/lines/" + evt(77).String(), game + "/lines/nonsense",
			"/v1/tenants/acme/games/nope/changes?since=e1:0", "/v1/tenants/acme/games/nope/stream", "/v1/nothing", "/a/b/c/d", "/static/none.js",
		} {
			for _, held := range []string{"", "*"} {
				answer, body := s.get(t, path, "If-None-Match", held)
				if answer.StatusCode != http.StatusNotFound || body != want || answer.Header.Get("Content-Type") != "application/problem+json" {
					t.Errorf("%s, of which %q is held: %d %s %s", path, held, answer.StatusCode, answer.Header.Get("Content-Type"), body)
				}
			}
		}
	})

	t.Run("ANameThatIsEncodedWithoutNeedIsTheSameName", func(t *testing.T) {
		for path, want := range map[string]int{
			"/v1/tenants/acme/games/%671/board": 200, "/v1/tenants/%61cme/games/g%31": 200, game + "/lines/%45" + evt(1).String()[1:]: 200, "/acme/%671": 200,
			"/v1/tenants/acme/games/g1%2fboard": 404, "/v1/tenants/acme/games/%2567%31": 404, "/acme%2Fg1": 404, "/v1/tenants/acme/games/g1%00": 404,
		} {
			if answer, body := s.get(t, path); answer.StatusCode != want {
				t.Errorf("%s: got %d %s, want %d", path, answer.StatusCode, body, want)
			}
		}
	})

	t.Run("ABadParameterIsNamedWithWhatIsAllowed", func(t *testing.T) {
		for path, want := range map[string]string{
			game + "/timeline?before=%zz":                                              `query: invalid URL escape \"%zz\"`,
			game + "/timeline?limit=501":                                               `limit \"501\": want 1 to 500`,
			game + "/timeline?limit=0":                                                 `limit`,
			game + "/timeline?limit=x":                                                 `limit`,
			game + "/timeline?before=EVT1":                                             `before`,
			game + "/timeline?after=GAM00000000000":                                    `after`,
			game + "/timeline?from=yesterday":                                          `from`,
			game + "/timeline?to=1":                                                    `to`,
			game + "/timeline?q=" + strings.Repeat("a", 201):                           `q`,
			game + "/timeline?kind=%ff":                                                `kind`,
			game + "/timeline?actor=%00":                                               `actor`,
			game + "/changes":                                                          `since`,
			game + "/changes?since=nonsense":                                           `since \"nonsense\": want a cursor`,
			game + "/changes?since=e1:1&wait=26s":                                      `wait \"26s\": want a duration up to 25s`,
			game + "/changes?since=e1:1&wait=-1s":                                      `wait`,
			game + "/changes?since=e1:1&wait=5":                                        `wait`,
			game + "/stream?limit=-1":                                                  `limit`,
			"/v1/tenants/acme/games?status=odd":                                        `status`,
			"/v1/tenants/acme/games?after=b%20d":                                       `after`,
			game + "/timeline?before=" + evt(1).String() + "&after=" + evt(2).String(): `before and after`,
		} {
			answer, body := s.get(t, path)
			if answer.StatusCode != http.StatusBadRequest || !strings.Contains(body, want) {
				t.Errorf("%s: %d %s, want %s", path, answer.StatusCode, body, want)
			}
			var p problem
			if err := json.Unmarshal([]byte(body), &p); err != nil || p.Status != 400 || p.Title != "Bad Request" {
				t.Errorf("%s: %s", path, body)
			}
		}
	})

	t.Run("ACursorOfAnotherEpochOrTheFutureIsGone", func(t *testing.T) {
		for _, since := range []string{"e0:1", "e1:99"} {
			answer, body := s.get(t, game+"/changes?wait=20s&since="+since)
			if answer.StatusCode != http.StatusGone {
				t.Errorf("%s: %d %s", since, answer.StatusCode, body)
			}
		}
	})

	t.Run("AnotherMethodIsNotAllowed", func(t *testing.T) {
		answer, err := s.http.Client().Post(s.http.URL+game, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		equal(t, answer.StatusCode, http.StatusMethodNotAllowed)
		equal(t, answer.Header.Get("Content-Type"), "application/problem+json")
		head, err := s.http.Client().Head(s.http.URL + game)
		if err != nil {
			t.Fatal(err)
		}
		defer head.Body.Close()
		equal(t, head.StatusCode, http.StatusOK)
	})

	t.Run("AStarIsHeldOfWhateverIsThere", func(t *testing.T) {
		for _, path := range []string{game, game + "/board", game + "/timeline?q=none", game + "/lines/" + evt(1).String(), "/docs", "/openapi.yaml", "/static/feed-client.js"} {
			answer, _ := s.get(t, path)
			for held, want := range map[string]int{"*": http.StatusNotModified, ` * `: http.StatusNotModified, `"*"`: http.StatusOK, `"other", *`: http.StatusOK} {
				again, body := s.get(t, path, "If-None-Match", held)
				if again.StatusCode != want || again.Header.Get("ETag") != answer.Header.Get("ETag") || want == http.StatusNotModified && body != "" {
					t.Errorf("%s, of which %s is held: %d %s, want %d", path, held, again.StatusCode, body, want)
				}
			}
		}
	})

	t.Run("AnUnchangedAnswerCostsOneRow", func(t *testing.T) {
		for _, path := range []string{game, game + "/timeline?limit=2", game + "/lines/" + evt(1).String()} {
			answer, _ := s.get(t, path)
			tag := answer.Header.Get("ETag")
			reads := m.count("game") + m.count("page") + m.count("line")
			answer, body := s.get(t, path, "If-None-Match", `"other", W/`+tag)
			if answer.StatusCode != http.StatusNotModified || body != "" || answer.Header.Get("ETag") != tag {
				t.Errorf("%s: %d %s", path, answer.StatusCode, body)
			}
			if now := m.count("game") + m.count("page") + m.count("line"); now != reads {
				t.Errorf("%s: %d reads for a 304", path, now-reads)
			}
			for _, other := range []string{game + "/timeline?limit=1", game + "/timeline?limit=2&kind=scored"} {
				if answer, _ := s.get(t, other, "If-None-Match", tag); answer.StatusCode != http.StatusOK {
					t.Errorf("%s is taken for %s", other, path)
				}
			}
		}
	})
}

func TestPoll(t *testing.T) {
	t.Parallel()
	m := newModel(acme)
	s := serve(t, m, nil)

	t.Run("ItWaitsForTheNextChange", func(t *testing.T) {
		answers := make(chan string, 1)
		go func() {
			_, body := s.get(t, "/v1/tenants/acme/games/g1/changes?wait=25s&since=e1:0")
			answers <- body
		}()
		eventually(t, "the poll waits", s.polled)
		m.say(acme, evt(1), "news")
		if body := <-answers; !strings.Contains(body, `"to":1,"lines":[{`) {
			t.Errorf("got %s", body)
		}
	})

	t.Run("ItIsAnsweredEmptyWhenItsTimeIsOver", func(t *testing.T) {
		_, body := s.get(t, "/v1/tenants/acme/games/g1/changes?wait=30ms&since=e1:1")
		if !strings.Contains(body, `"to":1,"lines":[]`) {
			t.Errorf("got %s", body)
		}
	})

	t.Run("ManyWhoWaitCostNoQueryEach", func(t *testing.T) {
		before := m.count("changes")
		var polls sync.WaitGroup
		for range 20 {
			polls.Go(func() {
				_, body := s.get(t, "/v1/tenants/acme/games/g1/changes?wait=25s&since=e1:1")
				if !strings.Contains(body, "for all") {
					t.Errorf("got %s", body)
				}
			})
		}
		eventually(t, "all wait", func() bool {
			for _, h := range s.hubs.open() {
				h.mu.Lock()
				n := h.users
				h.mu.Unlock()
				if n == 20 {
					return true
				}
			}
			return false
		})
		m.say(acme, evt(9), "for all")
		polls.Wait()
		if n := m.count("changes") - before; n > 22 {
			t.Errorf("%d queries of 20 who wait", n)
		}
	})

	t.Run("TheSweepEndsItToo", func(t *testing.T) {
		m.set(func(m *model) { m.drop = 1 })
		m.say(acme, evt(2), "unheard")
		m.set(func(m *model) { m.drop = 0 })
		_, body := s.get(t, "/v1/tenants/acme/games/g1/changes?wait=25s&since=e1:2")
		if !strings.Contains(body, "unheard") {
			t.Errorf("got %s", body)
		}
	})
}

func TestStream(t *testing.T) {
	t.Parallel()
	m := newModel(acme)
	m.say(acme, evt(1), "one")
	s := serve(t, m, nil)
	open := func(t *testing.T, query string, header ...string) *events {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		t.Cleanup(cancel)
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.http.URL+"/v1/tenants/acme/games/g1/stream"+query, nil)
		for i := 0; i < len(header); i += 2 {
			request.Header.Set(header[i], header[i+1])
		}
		answer, err := s.http.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		equal(t, answer.Header.Get("Content-Type"), "text/event-stream")
		return &events{t, bufio.NewReader(answer.Body)}
	}

	t.Run("ItCarriesTheFramesAndAnIDToResumeBy", func(t *testing.T) {
		e := open(t, "")
		id, f := e.next()
		equal(t, id, "e1:1")
		equal(t, f.T, "snap")
		m.say(acme, evt(2), "two")
		id, f = e.next()
		equal(t, id, "e1:2")
		equal(t, texts(f.Lines), []string{"two"})

		id, f = open(t, "", "Last-Event-ID", "e1:1").next()
		equal(t, id, "e1:2")
		equal(t, f.T, "delta")
		equal(t, texts(f.Lines), []string{"two"})
	})

	t.Run("GarbageIsReset", func(t *testing.T) {
		e := open(t, "?since=rubbish")
		_, f := e.next()
		equal(t, f.T, "reset")
		_, f = e.next()
		equal(t, f.T, "snap")
	})

	t.Run("ADrainSaysGoodbyeAndEndsIt", func(t *testing.T) {
		e := open(t, "")
		e.next()
		if err := s.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		_, f := e.next()
		equal(t, f.T, "bye")
		if rest, err := io.ReadAll(e.r); err != nil || strings.TrimSpace(string(rest)) != "" {
			t.Errorf("it goes on with %q, %v", rest, err)
		}
	})
}

type events struct {
	t *testing.T
	r *bufio.Reader
}

// next is the next frame but for ticks and headers, with the id of its event.
func (e *events) next() (string, watch.Frame) {
	e.t.Helper()
	id := ""
	for {
		line, err := e.r.ReadString('\n')
		if err != nil {
			e.t.Fatal(err)
		}
		line = strings.TrimSuffix(line, "\n")
		if value, ok := strings.CutPrefix(line, "id: "); ok {
			id = value
		}
		if value, ok := strings.CutPrefix(line, "data: "); ok {
			f, err := watch.ParseFrame([]byte(value))
			if err != nil {
				e.t.Fatal(err)
			}
			if f.T != "tick" && f.T != "game" {
				return id, f
			}
		}
	}
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	m := newModel(acme)
	s := serve(t, m, nil)
	m.set(func(m *model) { m.fail = context.DeadlineExceeded })
	answer, body := s.get(t, "/v1/tenants/acme/games/g1")
	if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" || strings.Contains(body, "deadline") {
		t.Errorf("got %d %s", answer.StatusCode, body)
	}
	m.set(func(m *model) { m.fail = fmt.Errorf("%w: %w", timeline.ErrBusy, context.DeadlineExceeded) })
	for _, path := range []string{"/v1/tenants/acme/games/g1/timeline?q=line", "/v1/tenants/acme/games/g1", "/v1/tenants/acme/games"} {
		if answer, body = s.get(t, path); answer.StatusCode != http.StatusTooManyRequests || answer.Header.Get("Retry-After") != "5" || !strings.Contains(body, "of the tenant") {
			t.Errorf("%s of a tenant whose reads take its share: %d %v %s", path, answer.StatusCode, answer.Header, body)
		}
	}
	m.set(func(m *model) { m.fail = errors.New("password=hunter2") })
	answer, body = s.get(t, "/v1/tenants/acme/games/g1")
	if answer.StatusCode != http.StatusInternalServerError || strings.Contains(body, "hunter2") {
		t.Errorf("got %d %s", answer.StatusCode, body)
	}
}

func decodePage(t *testing.T, body string) (page struct {
	Lines []feed.View
	More  bool
},
) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return page
}
