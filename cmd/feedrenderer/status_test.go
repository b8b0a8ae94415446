package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
	"github.com/codemojex/feedrenderer/web"
	"github.com/codemojex/feedrenderer/web/browsertest"
)

// operate makes a request with a key, and gives the status and the body of its answer, 0 where there is none.
func operate(t *testing.T, method, url, key string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// operators opens the page of a tenant's operators, with a key that is typed in.
func operators(t *testing.T, site *program, tenant feed.TenantID, key string) *browsertest.Page {
	t.Helper()
	page := browsertest.Tab(t)
	page.Open("http://" + site.public + "/" + string(tenant) + "/-/operate")
	page.Until(`!document.querySelector("#gate").hidden && document.activeElement.id === "key"`)
	page.Type(key + "\r")
	page.Until(`!document.querySelector("#figures").hidden && document.querySelector("#status").dataset.status === "live"`)
	return page
}

// orphans leaves n entries of three weeks ago with a group, read under names that nobody holds.
func (s *system) orphans(game feed.GameKey, n, names int) {
	s.t.Helper()
	do := func(args ...string) {
		s.t.Helper()
		if err := s.client.Do(s.t.Context(), s.client.B().Arbitrary(args...).Build()).Error(); err != nil {
			s.t.Fatal(err)
		}
	}
	then := time.Now().Add(-21 * 24 * time.Hour).UnixMilli()
	for i := range n {
		do("XADD", game.Stream(), fmt.Sprintf("%d-%d", then, i), "kind", "notice", "text", fmt.Sprint("orphan ", i))
	}
	do("XGROUP", "CREATE", game.Stream(), "feedrenderer", "0")
	for i := range names {
		do("XREADGROUP", "GROUP", "feedrenderer", fmt.Sprint("gone-", i), "COUNT", fmt.Sprint((n+names-1)/names), "STREAMS", game.Stream(), ">")
	}
}

// A team once ran 952 events behind for three weeks, and nothing said so.
func TestOrphansAreSeenThoughNoRendererRunsAndGoneSoonAfterOneDoes(t *testing.T) {
	t.Parallel()
	const tenant = feed.TenantID("orphaned")
	s := newSystem(t, serverstest.Valkey(t))
	game := feed.GameKey{Tenant: tenant, Game: "g1"}
	s.orphans(game, 952, 17)
	site := s.serve("web", "--tenants", string(tenant)).ready()
	key := s.run("key", "create", string(tenant), "operate")

	sees := func(text string) web.StreamHealth {
		t.Helper()
		var h web.GroupHealth
		if err := json.Unmarshal([]byte(text), &h); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		for _, st := range h.Streams {
			if st.Game == game.Game {
				return st
			}
		}
		t.Fatalf("the game is not in %s", text)
		return web.StreamHealth{}
	}
	streams := "http://" + site.public + "/v1/tenants/" + string(tenant) + "/streams"
	var answer string
	until(t, "the site answers", func() bool {
		var status int
		status, answer = operate(t, http.MethodGet, streams, key)
		return status == http.StatusOK
	})
	_, private := get(t, strings.Replace(streams, site.public, site.private, 1))
	for where, text := range map[string]string{"REST": answer, "private": private, "status": s.run("status", string(tenant), "--json"), "status of it alone": s.run("status", game.String(), "--json")} {
		st := sees(text)
		if !st.Degraded || st.Pending != 952 || st.OldestPending < 20*24*3600 || len(st.Consumers) != 17 || st.Lag == nil || *st.Lag != 0 {
			t.Errorf("%s says %+v", where, st)
		}
		for _, c := range st.Consumers {
			if c.Alive {
				t.Errorf("%s calls %s alive", where, c.Name)
			}
		}
	}
	table := s.run("status", game.String())
	for _, want := range []string{"orphaned/g1  DEGRADED  952      21d0h", "952 pending, the oldest 21d0h old; names: 0 alive, 17 dead", "gone-16"} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is not in\n%s", want, table)
		}
	}

	page := operators(t, site, tenant, key)
	page.Until(`document.querySelector("#oldest").textContent.startsWith("21 d ") && document.querySelector("#state").textContent === "No renderer runs, and events wait."`)
	page.Until(`document.querySelector("#tiles [data-name=Pending] .tile-figure").textContent === "952" && document.querySelectorAll("#replicas tbody tr").length === 17`)
	page.Until(`document.querySelector("#reasons").textContent.includes("952 pending") && document.querySelector("#plot-oldest svg").getAttribute("aria-label").includes("21 d")`)

	begun := time.Now()
	s.serve("render", "--tenants", string(tenant), "--min-idle", "3s").ready()
	until(t, "nothing is pending", func() bool { return sees(s.run("status", string(tenant), "--json")).Pending == 0 })
	t.Logf("gone %v after the start of a renderer", time.Since(begun).Round(time.Millisecond))
	page.Until(`document.querySelector("#oldest").textContent === "0 s" && document.querySelector("#state").textContent === "Nothing waits."`)
	page.Until(`document.querySelector("#tiles [data-name=Replicas] .tile-figure").textContent === "1" && document.querySelector("#replicas tbody tr td").textContent === "alive"`)
	t.Logf("and from the page after %v", time.Since(begun).Round(time.Millisecond))
	if n := len(lines(t, s.reader(), game)); n != 952 {
		t.Errorf("%d lines of 952", n)
	}
	table = s.run("status", string(tenant))
	st := sees(s.run("status", string(tenant), "--json"))
	alive, _ := names(st)
	if strings.Contains(table, "DEGRADED") || !strings.Contains(table, "orphaned/g1  ok") || alive != 1 {
		t.Errorf("%d alive\n%s", alive, table)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()

	t.Run("SaysThatNobodyReadsAStream", func(t *testing.T) {
		t.Parallel()
		s := newSystem(t, serverstest.Valkey(t))
		s.run("append", "unread/g1", "kind=notice")
		until(t, "it has waited long enough", func() bool {
			table := s.run("status", "unread", "--degraded-after", "1s")
			return strings.Contains(table, "unread/g1  DEGRADED") && strings.Contains(table, "no renderer reads it") && strings.Contains(table, "none runs, or its tenant is unknown\n")
		})
	})

	t.Run("IsAboutOneTenantOrAllOfThem", func(t *testing.T) {
		t.Parallel()
		s := newSystem(t, serverstest.OwnValkey(t).URL)
		if table := s.run("status"); !strings.Contains(table, "streams: 0,") {
			t.Errorf("of nothing: %s", table)
		}
		if err := run(t.Context(), []string{"status", "a/g1"}, []string{"VALKEY_URL=" + s.valkey}, io.Discard, io.Discard); err == nil {
			t.Error("a game that is not there has a status")
		}
		s.run("append", "a/g1", "kind=notice")
		s.run("append", "a-b/g2", "kind=notice")
		for of, want := range map[string]int{"a": 1, "a-b": 1, "b": 0} {
			if table := s.run("status", of); !strings.Contains(table, fmt.Sprintf("streams: %d,", want)) {
				t.Errorf("of %s: %s", of, table)
			}
		}
		if table := s.run("status"); !strings.Contains(table, "a/g1") || !strings.Contains(table, "a-b/g2") {
			t.Errorf("of all: %s", table)
		}
	})

	t.Run("FitsAHundredColumnsWhateverIsInIt", func(t *testing.T) {
		t.Parallel()
		huge := int64(123_456_789_012)
		st := web.StreamHealth{
			Tenant: feed.TenantID(strings.Repeat("t", 40)), Game: feed.GameID(strings.Repeat("g", 64)), Degraded: true, Fault: strings.Repeat("fault ", 40),
			Lag: &huge, Lost: &huge, Pending: huge, OldestPending: 99*86400 + 23*3600, OldestUnread: 1e10, OldestIdle: 1, DeadLetters: huge,
		}
		for i := range 1200 {
			st.Consumers = append(st.Consumers, web.ConsumerHealth{Name: strings.Repeat("n", 200) + "\x1b[2J", Alive: i%2 == 0, Pending: huge, Idle: 1e10})
		}
		var out strings.Builder
		if err := printStreams(&out, web.GroupHealth{Group: "feedrenderer", Streams: []web.StreamHealth{st, st}}); err != nil {
			t.Fatal(err)
		}
		if err := printNames(&out, st.Consumers[:2]); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 || strings.ContainsRune(line, '\x1b') {
				t.Errorf("%d columns: %q", n, line)
			}
		}
	})
}
