package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
	"github.com/codemojex/feedrenderer/web"
	"github.com/codemojex/feedrenderer/web/browsertest"
)

// dead lists the dead letters of a game.
func (s *system) dead(game feed.GameKey, filter ...string) (out []web.DeadLetter) {
	s.t.Helper()
	text := json.NewDecoder(strings.NewReader(s.run(append([]string{"dead", "list", game.String(), "--json"}, filter...)...)))
	for {
		var l web.DeadLetter
		switch err := text.Decode(&l); {
		case err == io.EOF:
			return out
		case err != nil:
			s.t.Fatal(err)
		}
		out = append(out, l)
	}
}

// A kind's file is wrong, its events are dead letters among good lines, a retry before the file is
// mended brings them back with their history, and one after it makes lines of them, in their places, before who watches.
func TestAPoisonEntryBecomesALineInItsPlaceOnceItsKindIsMendedAndItIsRetried(t *testing.T) {
	t.Parallel()
	const tenant = feed.TenantID("poisoned")
	s := newSystem(t, serverstest.Valkey(t))
	game := feed.GameKey{Tenant: tenant, Game: "g1"}
	kinds := t.TempDir()
	kind := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(kinds, "own.toml"), []byte("[kind.cheered]\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kind("line = \"corrects\"\n") // and so wants a target
	site := s.serve("web", "--tenants", string(tenant)).ready()
	renderer := s.serve("render", "--tenants", string(tenant), "--kinds", kinds).ready()
	key := s.run("key", "create", string(tenant), "operate")

	var ids []feed.ID
	texts := map[feed.ID]string{}
	for i := range 100 {
		fields := feed.Fields{{Name: "kind", Value: "notice"}, {Name: "text", Value: fmt.Sprint("line ", i)}}
		text := fmt.Sprint("line ", i)
		if i%25 == 10 {
			fields = feed.Fields{{Name: "kind", Value: "cheered"}, {Name: "player", Value: fmt.Sprint("p", i)}, {Name: "secret", Value: "\xff\x00"}}
			text = fmt.Sprintf("p%d cheers", i)
		}
		id, err := s.producer.Append(t.Context(), game, fields)
		if err != nil {
			t.Fatal(err)
		}
		ids, texts[id] = append(ids, id), text
	}
	until(t, "four are dead letters", func() bool { return len(s.dead(game)) == 4 })
	w := follow(t, site, game)
	holds := func(n int) {
		t.Helper()
		until(t, fmt.Sprintf("the watcher holds %d lines", n), func() bool {
			held, _ := w.holds()
			return len(held) == n
		})
	}
	holds(96)
	for i, l := range s.dead(game) {
		if l.Evt != ids[10+25*i].String() || l.Kind != "cheered" || l.Attempts != 1 || !strings.Contains(l.Reason, "target") || len(l.Fields) != 4 || len(l.Past) != 0 {
			t.Errorf("letter %+v", l)
		}
	}

	// Not mended yet: they return with their history, under their own game.
	if said := s.run("dead", "retry", game.String(), "--kind", "cheered"); said != "retried: 4" {
		t.Errorf("it says %q", said)
	}
	until(t, "they are back", func() bool { return len(s.dead(game)) == 4 })
	for _, l := range s.dead(game) {
		if l.Attempts != 2 || len(l.Past) != 1 || l.Past[0].Attempts != 1 || !strings.Contains(l.Past[0].Reason, "target") {
			t.Errorf("letter %+v", l)
		}
	}
	if n, err := s.client.Do(t.Context(), s.client.B().Xlen().Key(tenant.RetryStream()+":dead").Build()).AsInt64(); err != nil || n != 0 {
		t.Errorf("%d lie beside the retry stream, %v", n, err)
	}

	renderer.stop()
	kind("line = \"opens\"\ntext = \"{player} cheers\"\nicon = \"users\"\nactor = \"player\"\nshow = [\"player\"]\n")
	s.serve("render", "--tenants", string(tenant), "--kinds", kinds).ready()
	letters := s.dead(game)
	url := "http://" + site.public + "/v1/tenants/" + string(tenant) + "/streams/g1/dead-letters"
	if status, body := operate(t, http.MethodGet, url+"?limit=3&kind=cheered", key); status != http.StatusOK || strings.Count(body, `"evt"`) != 3 || !strings.Contains(body, `"next"`) {
		t.Errorf("%d %s", status, body)
	}
	var whole web.DeadLetter
	if status, body := operate(t, http.MethodGet, url+"/"+letters[3].ID, key); status != http.StatusOK || json.Unmarshal([]byte(body), &whole) != nil || whole.Evt != ids[85].String() || len(whole.Past) != 1 {
		t.Errorf("one alone: %d %s", status, body)
	}
	watcher := browsertest.Tab(t)
	watcher.Open("http://" + site.public + "/" + string(tenant) + "/g1")
	watcher.Until(`document.querySelectorAll("article").length === 96 && document.querySelector("#status").dataset.status === "live"`)
	page := operators(t, site, tenant, key)
	page.Until(`document.querySelectorAll(".letter").length === 4 && document.querySelector(".letter-reason").textContent.includes("target")`)
	row := fmt.Sprintf(`document.getElementById("letter-g1-%s")`, letters[0].ID)
	page.Until(row + `.textContent.includes("retried once") && ` + row + `.querySelector("dl").textContent.includes("p10")`)
	page.Do(row + `.querySelector("[data-act=retry]").click()`)
	untilRow(watcher, ids[10], "p10 cheers", "live")
	watcher.Until(fmt.Sprintf(`document.getElementById(%q).previousElementSibling.id === %q && document.getElementById(%[1]q).nextElementSibling.id === %[3]q`, ids[10], ids[11], ids[9]))
	page.Until(row + ` === null && document.querySelectorAll(".letter").length === 3`)
	if status, _ := operate(t, http.MethodPost, url+"/"+letters[0].ID+"/retry", key); status != http.StatusNotFound {
		t.Errorf("once more: %d", status)
	}
	s.run("dead", "retry", game.String(), letters[1].ID, letters[2].ID)
	holds(99)
	if status, _ := operate(t, http.MethodDelete, url+"/"+letters[3].ID, key); status != http.StatusNoContent {
		t.Errorf("dropped: %d", status)
	}
	delete(texts, ids[85])

	held, _ := w.holds()
	for i, line := range held {
		if line.Text != texts[line.Evt] || i > 0 && line.Evt >= held[i-1].Evt {
			t.Errorf("line %d is %s %q, want %q", i, line.Evt, line.Text, texts[line.Evt])
		}
	}
	until(t, "nothing is pending or dead", func() bool {
		table := s.run("status", game.String(), "--json")
		return strings.Contains(table, `"pending":0`) && strings.Contains(table, `"dead_letters":0`)
	})
}

func TestDead(t *testing.T) {
	t.Parallel()
	s := newSystem(t, serverstest.Valkey(t))
	game := feed.GameKey{Tenant: "letters", Game: "g1"}
	fails := func(arguments ...string) error {
		t.Helper()
		return run(t.Context(), append(arguments, game.String()), []string{"VALKEY_URL=" + s.valkey}, io.Discard, io.Discard)
	}
	// As the library leaves them.
	for i, kind := range []string{"scored", "scored", "notice", "\x1b[2J" + strings.Repeat("k", 50)} {
		s.xadd(game.DeadLetters(), "dead.stream", game.Stream(), "dead.entry", "1796040987937-28672", "dead.attempts", "5", "dead.at", "1704067200000",
			"dead.reason", fmt.Sprint("reason ", i, strings.Repeat("!", 200)), "f:kind", kind, "f:x", "\xff")
	}

	t.Run("IsListedInAHundredColumnsAndShownInFull", func(t *testing.T) {
		table := s.run("dead", "list", game.String())
		for line := range strings.Lines(table) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 || strings.ContainsRune(line, '\x1b') {
				t.Errorf("%d columns: %q", n, line)
			}
		}
		if strings.Count(table, "scored") != 2 || strings.Count(s.run("dead", "list", game.String(), "--limit", "3"), "reason ") != 3 {
			t.Errorf("got\n%s", table)
		}
		shown := s.run("dead", "show", game.String(), s.dead(game)[3].ID)
		for _, want := range []string{"EVT0SUoNEEXNia", `"x" = "\xff"`, `"kind" = "\x1b[2J`, strings.Repeat("!", 200)} {
			if !strings.Contains(shown, want) {
				t.Errorf("%q is not in\n%s", want, shown)
			}
		}
	})

	t.Run("IsChosenByKindReasonAndAge", func(t *testing.T) {
		for filter, want := range map[string]int{"--kind=scored": 2, "--reason=reason 2": 1, "--older-than=1h": 4, "--older-than=800000h": 0, "--kind=scored --reason=reason 1": 1, "--kind=none": 0} {
			var flags []string
			for _, flag := range strings.Split(filter, " --") {
				flags = append(flags, "--"+strings.TrimPrefix(flag, "--"))
			}
			if n := len(s.dead(game, flags...)); n != want {
				t.Errorf("%s: %d, want %d", filter, n, want)
			}
		}
	})

	t.Run("IsNotTouchedUnlessItIsSaidWhich", func(t *testing.T) {
		for _, arguments := range [][]string{{"dead", "drop"}, {"dead", "retry"}, {"dead", "drop", "--all", "--kind", "a"}, {"dead", "drop", "--older-than", "soon"}} {
			if err := fails(arguments...); err == nil {
				t.Errorf("%q is taken", arguments)
			}
		}
		if n := len(s.dead(game)); n != 4 {
			t.Errorf("%d are left", n)
		}
	})

	t.Run("IsDroppedByIdOrByWhatItIsAndOneThatIsNotThereIsSaid", func(t *testing.T) {
		first := s.dead(game)[0].ID
		if said := s.run("dead", "drop", game.String(), first); said != "dropped: 1" {
			t.Errorf("it says %q", said)
		}
		for _, id := range []string{first, "none"} {
			if err := run(t.Context(), []string{"dead", "drop", game.String(), id}, []string{"VALKEY_URL=" + s.valkey}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), id) {
				t.Errorf("%s: %v", id, err)
			}
			if err := run(t.Context(), []string{"dead", "show", game.String(), id}, []string{"VALKEY_URL=" + s.valkey}, io.Discard, io.Discard); err == nil {
				t.Errorf("%s is shown", id)
			}
		}
		if said := s.run("dead", "drop", game.String(), "--kind", "scored"); said != "dropped: 1" {
			t.Errorf("it says %q", said)
		}
		if said := s.run("dead", "drop", game.String(), "--all"); said != "dropped: 2" || len(s.dead(game)) != 0 {
			t.Errorf("it says %q", said)
		}
	})
}
