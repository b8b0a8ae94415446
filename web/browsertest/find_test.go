package browsertest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/codemojex/feedrenderer/web/browsertest"
)

// said is a line of a kind, of a player, with values.
func said(n, ver int, kind, actor string, fields object) object {
	return with(line(n, ver), "kind", kind, "actor", actor, "text", actor+" and so on", "fields", fields)
}

// report waits until the bar says how the search stands.
func report(page *browsertest.Page, text string) {
	page.Until(fmt.Sprintf(`document.getElementById("found").textContent === %q`, text))
}

// slash presses the key as a keyboard does: where the page takes it, it types nothing.
func slash(page *browsertest.Page) {
	page.Do(`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "/", bubbles: true, cancelable: true }))`)
}

func choose(page *browsertest.Page, id, value string) {
	page.Do(fmt.Sprintf(`const select = document.getElementById(%q); select.value = %q; if (select.value !== %[2]q) throw new Error("not offered"); select.dispatchEvent(new Event("change"))`, id, value))
}

func TestFind(t *testing.T) {
	t.Parallel()
	browsertest.Browser(t)

	t.Run("WhatIsLoadedIsFoundAtOnceAndTheRestByTheServer", func(t *testing.T) {
		t.Parallel()
		s, page, k := open(t)
		var lines []object
		for _, l := range down(300, 201) {
			lines = append(lines, with(l, "fields", object{"player": l["actor"], "pct": "7"}))
		}
		k.send(snap("g1", 300, true, lines...))
		page.Until(row(300))
		scroll(page, "1500")
		n := len(s.requests(0))
		slash(page)
		page.Until(`document.activeElement.id === "q"`)
		page.Type("PLAYER29")
		until(page, 299, 298, 297, 296, 295, 294, 293, 292, 291, 290)
		report(page, "10 found so far")
		asked := s.requests(n + 1)[n]
		if want := "/v1/tenants/acme/games/g1/timeline?before=" + evt(290) + "&limit=100&q=PLAYER29"; asked != want {
			t.Fatalf("the page asked for %s, want %s", asked, want)
		}
		// On the page's way: a match below is amended so that it matches no more, another comes in late.
		k.send(live("g1", 300, 302, retracted(29, 301, ""), with(line(28, 302), "fields", object{"player": "player29"})))
		k.send(tick("g1", 302))
		page.Until(`document.querySelector("[data-fact=watchers]")`)
		s.answer(object{"lines": []object{with(line(129, 129), "fields", object{"player": "player29"}), with(line(29, 29), "fields", object{"player": "player29"})}, "more": false, "cursor": "e1:300"})
		until(page, 299, 298, 297, 296, 295, 294, 293, 292, 291, 290, 129, 28)
		report(page, "12 found in all")
		page.Until(`document.getElementById("end").textContent === "No more lines match" && document.getElementById("end").checkVisibility()`)
	})

	t.Run("LiveLinesRespectTheFilterAndTheOthersAreCounted", func(t *testing.T) {
		t.Parallel()
		_, page, k := open(t)
		k.send(snap("g1", 4, false, said(40, 4, "scored", "alex", object{}), said(30, 3, "golden_win", "bo", object{}), said(20, 2, "scored", "bo", object{}), said(10, 1, "scored", "alex", object{})))
		until(page, 40, 30, 20, 10)
		page.Do(`document.getElementById("search").click()`)
		choose(page, "actor", "bo")
		until(page, 30, 20)
		choose(page, "kind", "scored")
		until(page, 20)
		report(page, "1 found in all")
		if got := browsertest.Eval[string](page, "location.search"); got != "?kind=scored&actor=bo" {
			t.Errorf("the address says %s", got)
		}
		page.Do(`document.getElementById("pause").click()`)
		k.send(live("g1", 4, 9, said(50, 5, "scored", "alex", object{}), said(60, 6, "scored", "bo", object{}), said(70, 7, "golden_win", "bo", object{}), said(15, 8, "scored", "bo", object{}), with(said(20, 9, "scored", "cy", object{}), "state", "corrected")))
		page.Until(`document.getElementById("pill").dataset.count === "1"`)
		page.Do(`document.getElementById("pill").click()`)
		until(page, 60, 20, 15) // a line that is shown stays
		report(page, "3 found in all · 2 new lines do not match")
		if !browsertest.Eval[bool](page, row(15)+`.matches("[data-late]") && `+row(20)+`.dataset.state === "corrected" && `+row(20)+`.querySelector("q").textContent === "bo and so on"`) {
			t.Error("a found line has lost its marks")
		}
		page.Do(`document.getElementById("clear").click()`)
		until(page, 70, 60, 50, 40, 30, 20, 15, 10)
		if got := browsertest.Eval[string](page, "location.search"); got != "" {
			t.Errorf("cleared, the address says %s", got)
		}
	})

	t.Run("WhatIsRevealedIsFoundAsSuch", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		page := browsertest.Tab(t)
		page.Open(s.URL + "/acme/g1?actor=bo")
		k := s.socket()
		k.sub("g1")
		k.send(with(snap("g1", 4, false, said(40, 4, "guessed", "bo", object{}), said(30, 3, "guessed", "alex", object{})), "game", with(header("g1", 4), "mode", "blind", "released", false)))
		until(page, 40)
		bo := func(n, ver int) object { return with(scored(n, ver), "actor", "bo") }
		k.send(live("g1", 4, 9, bo(20, 5), scored(21, 6), said(35, 7, "notice", "alex", object{}), bo(22, 8), said(50, 9, "guessed", "bo", object{})))
		until(page, 50, 40, 22, 20)
		marked(t, page, "revealed", 20)
		marked(t, page, "late", 22) // after a line that nobody hid
		page.Until(`document.getElementById("digest").textContent === "Revealed: 1 line that had been hidden. 2 new, bo and so on."`)
	})

	t.Run("AnAddressWithAFilterOpensFiltered", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		page := browsertest.Tab(t)
		page.Open(s.URL + "/acme/g1?kind=scored&q=nobody%20%26%20co&other=1")
		k := s.socket()
		k.sub("g1")
		k.send(snap("g1", 100, true, down(100, 1)...))
		asked := s.requests(1)[0]
		if want := "/v1/tenants/acme/games/g1/timeline?before=" + evt(1) + "&limit=100&kind=scored&q=nobody+%26+co"; asked != want {
			t.Fatalf("the page asked for %s, want %s", asked, want)
		}
		s.answer(object{"lines": []object{}, "more": false, "cursor": "e1:100"})
		page.Until(`document.getElementById("end").textContent === "No line matches" && document.getElementById("end").checkVisibility()`)
		report(page, "0 found in all")
		if got := browsertest.Eval[string](page, `document.getElementById("q").value + "|" + document.getElementById("kind").value`); got != "nobody & co|scored" {
			t.Errorf("the bar says %q", got)
		}
		// A fresh snapshot, and the search goes on over it.
		k.drop()
		k = s.socket()
		k.sub("g1")
		k.send(object{"t": "reset", "g": "g1", "reason": "behind"}, snap("g1", 400, true, append([]object{with(line(400, 400), "fields", object{"said": "Nobody & Co"})}, down(399, 301)...)...))
		until(page, 400)
		if got, want := s.requests(2)[1], "before="+evt(400); !strings.Contains(got, want) {
			t.Errorf("the page asked for %s, want %s", got, want)
		}
		s.answers <- func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }
		page.Until(`document.getElementById("trouble").textContent.includes("503")`)
	})

	t.Run("TheKeysGoToTheTextAndBack", func(t *testing.T) {
		t.Parallel()
		_, page, k := open(t)
		k.send(snap("g1", 3, false, with(line(3, 3), "fields", object{"player": "player3"}), line(2, 2), line(1, 1)))
		until(page, 3, 2, 1)
		page.Type("j")
		page.Type("j")
		slash(page)
		page.Until(`document.activeElement.id === "q"`)
		page.Type("jkp3")
		k.send(live("g1", 3, 4, line(4, 4)))
		page.Until(`document.getElementById("end").textContent === "No line matches"`)
		if got := browsertest.Eval[string](page, `document.activeElement.id + document.getElementById("q").value`); got != "qjkp3" {
			t.Errorf("typing ended in %q", got)
		}
		page.Do(`document.getElementById("q").select()`)
		page.Type("player3")
		until(page, 3)
		page.Type(kb.Escape)
		page.Until(`document.activeElement !== document.getElementById("q") && document.getElementById("find").checkVisibility()`)
		until(page, 3)
		page.Do(`document.activeElement.blur()`)
		page.Type(kb.Escape)
		until(page, 4, 3, 2, 1)
		page.Until(`document.getElementById("find").hidden`)
	})

	t.Run("ALinkToALineIsWantedMoreThanAFilterThatHidesIt", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		page := browsertest.Tab(t)
		page.Open(s.URL + "/acme/g1?actor=player2#" + evt(1))
		k := s.socket()
		k.sub("g1")
		k.send(snap("g1", 3, false, down(3, 1)...))
		page.Until(row(1) + `?.matches("[data-target]:focus")`)
		until(page, 3, 2, 1)
		if got := browsertest.Eval[string](page, "location.search + location.hash"); got != "#"+evt(1) {
			t.Errorf("the address says %s", got)
		}
	})
}
