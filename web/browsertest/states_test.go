package browsertest_test

import (
	"fmt"
	"testing"

	"github.com/codemojex/feedrenderer/web/browsertest"
)

// noticed waits until a notice of that name is there, with a title.
func noticed(page *browsertest.Page, name string) {
	page.Until(fmt.Sprintf(`document.getElementById("notice").dataset.notice === %q && document.querySelector("#notice h2").checkVisibility()`, name))
}

func refusal(code string) object {
	return object{"t": "err", "g": "g1", "code": code, "msg": "no"}
}

// TestStates walks a game through all that it can be.
func TestStates(t *testing.T) {
	t.Parallel()
	browsertest.Browser(t)

	t.Run("FromNotThereToOver", func(t *testing.T) {
		t.Parallel()
		s, page, k := open(t)
		ver := 0
		is := func(pairs ...any) {
			ver++
			k.send(live("g1", ver-1, ver), object{"t": "game", "g": "g1", "game": with(with(header("g1", ver), "released", true, "board", []object{}), pairs...)})
		}
		k.send(refusal("not_found"))
		noticed(page, "unknown")
		chip(page, "waiting")
		later(page, 10_500)
		k.sub("g1")
		k.send(with(snap("g1", 0, false), "game", with(header("g1", 0), "status", "", "counts", object{"lines": 0, "players": 0})))
		noticed(page, "empty")
		chip(page, "live")
		is("status", "gathering", "mode", "golden")
		noticed(page, "gathering")
		is("status", "open", "mode", "blind", "released", false)
		noticed(page, "blind")
		page.Until(`document.querySelector(".board-note").textContent === "Hidden for now"`)
		is("status", "revealing", "mode", "blind", "released", false)
		noticed(page, "revealing")
		is("status", "revealing", "mode", "blind")
		page.Until(`document.querySelector("#notice p").textContent.includes("have come out")`)
		is("status", "voided")
		noticed(page, "voided")
		chip(page, "ended")
		k.send(live("g1", ver, ver+2, line(1, ver+1), line(2, ver+2)))
		ver += 2
		is("status", "settled", "pool", "900", "board", []object{{"player": "alex", "score": 522}, {"player": "bo", "score": 522}})
		noticed(page, "ended")
		if got := browsertest.Eval[string](page, `document.querySelector("#notice p").textContent`); got != "alex, bo came first · pool 900 · 2 players, 3 lines." {
			t.Errorf("the summary says %q", got)
		}

		// Over and quiet, it keeps no socket; whoever looks again gets what was amended meanwhile.
		quiet(page, k, ver, 7)
		gone(t, k)
		chip(page, "ended")
		beat(page)
		if !browsertest.Eval[bool](page, `document.getElementById("banner").hidden`) {
			t.Error("a game that is over is missed")
		}
		page.Do(`document.dispatchEvent(new Event("visibilitychange"))`)
		k = s.socket()
		if got, want := k.sub("g1"), fmt.Sprintf("e1:%d", ver); got != want {
			t.Errorf("it looks again from %s, want %s", got, want)
		}
		k.send(delta("g1", ver, ver+5, with(line(1, ver+5), "state", "corrected", "text", "amended")))
		page.Until(row(1) + `.dataset.state === "corrected"`)
		quiet(page, k, ver+5, 8)
		gone(t, k)
		chip(page, "ended")
	})

	t.Run("RefusalsAreSaidInTheirOwnWordsAndTriedAgain", func(t *testing.T) {
		t.Parallel()
		s, page, k := open(t)
		page.Do(atOnce)
		k.send(object{"t": "bye", "after_ms": 3000, "spread_ms": 0})
		k.close(4005, "busy: a limit of the tenant is reached, come back later")
		noticed(page, "full")
		chip(page, "reconnecting")
		k = s.socket()
		k.sub("g1")
		k.send(refusal("suspended"))
		noticed(page, "suspended")
		chip(page, "waiting")
		k.send(refusal("unavailable"))
		noticed(page, "refused")
		later(page, 10_500)
		k.sub("g1")
		k.send(snap("g1", 1, false, line(1, 1)))
		until(page, 1)
		page.Until(`document.getElementById("notice").hidden`)
		k.send(refusal("not_found")) // the right to watch was taken away
		noticed(page, "gone")
		chip(page, "waiting")
		until(page, 1)
		k.close(4006, "suspended: the tenant is, come back later")
		noticed(page, "suspended")
		k = s.socket()
		k.sub("g1")
		k.send(delta("g1", 1, 2, line(2, 2)))
		until(page, 2, 1)
		page.Until(`document.getElementById("notice").hidden`)
	})
}

// quiet lets 16 seconds pass in which nothing comes but a tick of so many watchers.
func quiet(page *browsertest.Page, k *socket, to, watchers int) {
	later(page, 8_000)
	k.send(with(tick("g1", to), "games", []object{{"g": "g1", "to": to, "watchers": watchers}}))
	page.Until(fmt.Sprintf(`document.querySelector("[data-fact=watchers] dd").textContent === "≈ %d"`, watchers))
	later(page, 8_000)
}

// gone waits until the page has let the socket go.
func gone(t *testing.T, k *socket) {
	t.Helper()
	if err := k.ended(); err == nil {
		t.Fatal("the page still sends")
	}
}
