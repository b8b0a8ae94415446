package web

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/codemojex/feedrenderer/feed"
)

func TestPages(t *testing.T) {
	t.Parallel()
	m := newModel(acme)
	const attack = `<img src=x onerror=alert(1)>`
	m.say(acme, evt(1), attack)
	m.set(func(m *model) {
		g := m.games[acme]
		g.title = attack
		line := g.lines[evt(1)]
		line.Kind, line.Actor, line.Icon, line.Tone, line.Reason = attack, attack, attack, attack, attack
		line.Fields = map[string]string{attack: attack}
		g.lines[evt(1)] = line
		line.Evt, line.State = evt(2), feed.Retracted
		g.lines[evt(2)] = line
	})
	s := serve(t, m, func(c *Config) { c.Front = []feed.TenantID{"acme", "globex"} })

	t.Run("WhatEventsSayIsTextUnderAStrictPolicy", func(t *testing.T) {
		for _, path := range []string{"/acme/", "/acme/g1"} {
			answer, body := s.get(t, path)
			if answer.StatusCode != http.StatusOK || strings.Contains(body, "<img") || !strings.Contains(body, "&lt;img") {
				t.Errorf("%s: %d %s", path, answer.StatusCode, body)
			}
			got := answer.Header.Get("Content-Security-Policy")
			if !strings.Contains(got, "default-src 'none'; script-src 'self';") || strings.Contains(got, "unsafe") {
				t.Errorf("%s: policy %s", path, got)
			}
			if strings.Contains(body, "<script>") || strings.Contains(body, " style=") || strings.Contains(body, " onload=") {
				t.Errorf("%s has something inline", path)
			}
			equal(t, answer.Header.Get("X-Content-Type-Options"), "nosniff")
		}
	})

	t.Run("EachLineHasItsArticle", func(t *testing.T) {
		_, body := s.get(t, "/acme/g1")
		if !strings.Contains(body, `id="`+evt(1).String()+`" data-state="live"`) {
			t.Errorf("got %s", body)
		}
	})

	t.Run("AGameThatIsNotThereYetHasAPageAndAnUnknownTenantHasNone", func(t *testing.T) {
		for path, want := range map[string]int{
			"/acme/soon": 200, "/nobody/": 404, "/nobody/g1": 404, "/secret/": 404, "/acme/b%20d": 404, "/v1/": 404, "/static/": 404,
			"/static/feed.js": 200, "/": 200, "/acme": 301,
		} {
			answer, body := s.get(t, path, "Accept", "text/html")
			if answer.StatusCode != want {
				t.Errorf("%s: %d %s", path, answer.StatusCode, body)
			}
			if want == 404 && !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") {
				t.Errorf("%s answers a browser with %s", path, answer.Header.Get("Content-Type"))
			}
		}
	})

	t.Run("UnknownForeignAndPrivatePagesAreTheSameBytesAndNameNothing", func(t *testing.T) {
		for _, alike := range [][]string{{"/secret/g1", "/nobody/g1", "/secret/other", "/nobody/g1?before=" + evt(1).String()}, {"/secret/", "/nobody/", "/nobody"}} {
			var first string
			for _, path := range alike {
				answer, body := s.get(t, path, "Accept", "text/html")
				answer.Header.Del("Date")
				got := fmt.Sprint(answer.StatusCode, answer.Header, body)
				if first == "" {
					first = got
				}
				if answer.StatusCode != http.StatusNotFound || got != first {
					t.Errorf("%s: %s\nwant %s", path, got, first)
				}
				if strings.Contains(body, "secret") || strings.Contains(body, "nobody") || strings.Contains(body, "g1") {
					t.Errorf("%s names what was asked for: %s", path, body)
				}
			}
			if !strings.Contains(first, `<section class="door"`) || !strings.Contains(first, "no-store") {
				t.Errorf("got %s", first)
			}
		}
		if _, body := s.get(t, "/nobody/b%20d", "Accept", "text/html"); strings.Contains(body, "door") {
			t.Errorf("a name that is none has a door: %s", body)
		}
	})

	t.Run("WhatIsBackLaterIsAskedForAgainByTheBrowserItself", func(t *testing.T) {
		m := newModel(acme)
		s := serve(t, m, nil)
		m.set(func(m *model) { m.fail = context.DeadlineExceeded })
		answer, body := s.get(t, "/acme/g1", "Accept", "text/html")
		refresh := regexp.MustCompile(`<meta http-equiv="refresh" content="(\d+)">`).FindStringSubmatch(body)
		if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" || refresh == nil {
			t.Fatalf("got %d %s", answer.StatusCode, body)
		}
		if n, err := strconv.Atoi(refresh[1]); err != nil || n < 2 || n > 15 {
			t.Errorf("it asks again after %s s", refresh[1])
		}
		if _, body := s.get(t, "/acme/g1?before=nothing", "Accept", "text/html"); strings.Contains(body, "refresh") || !strings.Contains(body, "nothing") {
			t.Errorf("what is wrong stays wrong: %s", body)
		}
	})

	t.Run("StaticFilesAreKeptAndAskedFor", func(t *testing.T) {
		answer, body := s.get(t, "/static/feed-client.js", "Origin", "https://elsewhere.example")
		if answer.Header.Get("Access-Control-Allow-Origin") != "*" || answer.Header.Get("Content-Type") != "text/javascript; charset=utf-8" || body == "" {
			t.Errorf("got %v", answer.Header)
		}
		answer, body = s.get(t, "/static/feed-client.js", "If-None-Match", answer.Header.Get("ETag"))
		if answer.StatusCode != http.StatusNotModified || body != "" {
			t.Errorf("got %d", answer.StatusCode)
		}
	})

	t.Run("TheFrontLeadsToTheTenants", func(t *testing.T) {
		_, body := s.get(t, "/")
		if !strings.Contains(body, `href="/acme/"`) || !strings.Contains(body, `href="/globex/"`) {
			t.Errorf("got %s", body)
		}
		answer, _ := serve(t, m, func(c *Config) { c.Front = []feed.TenantID{"acme"} }).get(t, "/")
		equal(t, answer.Header.Get("Location"), "/acme/")
		answer, _ = serve(t, m, nil).get(t, "/")
		equal(t, answer.StatusCode, http.StatusNotFound)
	})
}

func TestNew(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Origins: []string{"app.example", "https://[bad"}})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"timeline", `"app.example"`, `"https://[bad"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}
