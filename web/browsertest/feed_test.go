package browsertest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/web/browsertest"
)

// row is the script of a row.
func row(n int) string { return fmt.Sprintf("document.getElementById(%q)", evt(n)) }

// until waits until the rows are those, in that order.
func until(page *browsertest.Page, numbers ...int) {
	page.Until(fmt.Sprintf("%s === %q", ids, idsOf(numbers...)))
}

// open opens the page of g1 and takes its first subscription.
func open(t *testing.T) (*site, *browsertest.Page, *socket) {
	t.Helper()
	s := newSite(t)
	page := browsertest.Tab(t)
	page.Open(s.URL + "/acme/g1")
	k := s.socket()
	if since := k.sub("g1"); since != "" {
		t.Fatalf("a fresh page resumes from %q", since)
	}
	return s, page, k
}

// scored is a line of a kind that is hidden until the release.
func scored(n, ver int) object { return with(line(n, ver), "score", true) }

// marked compares the rows that carry a mark with those that must.
func marked(t *testing.T, page *browsertest.Page, mark string, numbers ...int) {
	t.Helper()
	got := browsertest.Eval[string](page, fmt.Sprintf(`[...document.querySelectorAll("#feed > [data-%s]")].map((row) => row.id).join(" ")`, mark))
	if want := idsOf(numbers...); got != want {
		t.Errorf("%s are %q, want %q", mark, got, want)
	}
}

func TestFeed(t *testing.T) {
	t.Parallel()
	browsertest.Browser(t)

	t.Run("ALineStandsAtThePlaceOfItsIdAndALateOneSaysSo", func(t *testing.T) {
		t.Parallel()
		_, page, k := open(t)
		k.send(snap("g1", 3, false, line(30, 3), line(20, 2), line(10, 1)), live("g1", 3, 5, line(25, 4), line(40, 5)))
		until(page, 40, 30, 25, 20, 10)
		if !browsertest.Eval[bool](page, row(25)+`.matches("[data-late]") && `+row(25)+`.querySelector(".mark.late") !== null`) {
			t.Error("the late line is not marked")
		}
		if browsertest.Eval[bool](page, `document.querySelectorAll("[data-late]").length !== 1`) {
			t.Error("a line in its order is marked late")
		}
	})

	t.Run("ACorrectionKeepsItsRowAndSaysWhatItSaidBefore", func(t *testing.T) {
		t.Parallel()
		_, page, k := open(t)
		k.send(snap("g1", 2, false, line(20, 2), line(10, 1)))
		until(page, 20, 10)
		k.send(live("g1", 2, 3, with(line(10, 3), "state", "corrected", "text", "player10 scored 99 %", "amended_at", "2026-01-02T03:04:05.000Z")))
		page.Until(row(10) + `.dataset.state === "corrected"`)
		until(page, 20, 10)
		if got := browsertest.Eval[string](page, row(10)+`.querySelector(".text").textContent`); got != "player10 scored 99 %" {
			t.Errorf("the row says %q", got)
		}
		if browsertest.Eval[bool](page, row(10)+`.querySelector("details").open`) {
			t.Error("what it said before is shown unasked")
		}
		page.Do(row(10) + `.querySelector("summary").click()`)
		page.Until(row(10) + `.querySelector("details").open && ` + row(10) + `.querySelector("details q").checkVisibility()`)
		if got := browsertest.Eval[string](page, row(10)+`.querySelector("details q").textContent`); got != "player10 scored 10 %" {
			t.Errorf("it said %q before", got)
		}
	})

	t.Run("AVeryLongLineIsCutAndShownInFullWhenAsked", func(t *testing.T) {
		t.Parallel()
		_, page, k := open(t)
		long := strings.Repeat("x", 999) + "😀" + strings.Repeat("1 ", 10_000)
		k.send(snap("g1", 2, false, with(line(20, 2), "text", long), line(10, 1)))
		until(page, 20, 10)
		if got := browsertest.Eval[string](page, row(20)+`.querySelector(".text").textContent`); got != strings.Repeat("x", 999)+"…" {
			t.Errorf("the row says %q", got)
		}
		page.Do(row(20) + `.querySelector("summary").click()`)
		page.Until(row(20) + `.querySelector("details p").checkVisibility()`)
		if got := browsertest.Eval[string](page, row(20)+`.querySelector("details p").textContent`); got != long {
			t.Errorf("in full it says %d bytes, want %d", len(got), len(long))
		}
		if browsertest.Eval[bool](page, row(10)+`.querySelector("details") !== null`) {
			t.Error("a short line offers itself in full")
		}
	})

	t.Run("ARetractionStaysAsRemovedAndKeepsNothingOfWhatItSaid", func(t *testing.T) {
		t.Parallel()
		_, page, k := open(t)
		k.send(snap("g1", 2, false, line(20, 2), line(10, 1)))
		until(page, 20, 10)
		k.send(live("g1", 2, 3, with(line(10, 3), "state", "corrected", "text", "player10 scored 99 %")), live("g1", 3, 4, retracted(10, 4, "entered twice")))
		page.Until(row(10) + `.dataset.state === "retracted"`)
		until(page, 20, 10)
		text := browsertest.Eval[string](page, row(10)+".textContent")
		if !strings.Contains(text, "removed") || !strings.Contains(text, "entered twice") || strings.Contains(text, "scored") {
			t.Errorf("the row says %q", text)
		}
		k.send(live("g1", 4, 5, with(line(10, 5), "state", "corrected", "text", "back again")))
		page.Until(row(10) + `.dataset.state === "corrected" && ` + row(10) + `.querySelector(".text").textContent === "back again"`)
	})

	t.Run("RevealedLinesAppearInTheirPlacesAsOneMomentAndAreNotLate", func(t *testing.T) {
		t.Parallel()
		_, page, k := open(t)
		blind := with(header("g1", 3), "mode", "blind", "released", false, "board", []object{})
		k.send(with(snap("g1", 3, false, line(30, 3), line(20, 2), line(10, 1)), "game", blind))
		page.Until(`document.getElementById("notice").dataset.notice === "blind"`)
		k.send(live("g1", 3, 4, line(15, 4)), object{"t": "game", "g": "g1", "game": with(blind, "cursor", "e1:4")})
		page.Until(row(15) + `?.matches("[data-late]")`)
		k.send(live("g1", 4, 8, scored(28, 5), retracted(18, 6, ""), scored(12, 7), line(31, 8)), object{"t": "game", "g": "g1", "game": with(header("g1", 8), "mode", "blind")})
		until(page, 31, 30, 28, 20, 18, 15, 12, 10)
		marked(t, page, "revealed", 28, 18, 12)
		marked(t, page, "late", 15)
		page.Until(`document.getElementById("notice").hidden`)
		// On a busy machine the late line has had a digest of its own by then.
		page.Until(`/^Revealed: 3 lines that had been hidden\. [12] new, player31 scored 31 %\.$/.test(document.getElementById("digest").textContent)`)
	})

	t.Run("ALineThatCameLateIsNotCalledRevealedForComingWithARelease", func(t *testing.T) {
		t.Parallel()
		_, page, k := open(t)
		blind := with(header("g1", 1000), "mode", "blind", "released", false, "board", []object{})
		k.send(with(snap("g1", 1000, false, line(30, 3), line(20, 2), line(10, 1)), "game", blind))
		// In the one frame of the release: before it, of it, after it.
		k.send(live("g1", 1000, 2004, line(15, 1001), scored(14, 1500), scored(16, 1501), line(13, 2003), scored(18, 2004)), live("g1", 2004, 2005, scored(17, 2005)))
		until(page, 30, 20, 18, 17, 16, 15, 14, 13, 10)
		marked(t, page, "revealed", 16, 14)
		marked(t, page, "late", 18, 17, 15, 13)

		// The header first, and the release in pieces.
		k.send(with(snap("g1", 1000, false, line(30, 3), line(20, 2), line(10, 1)), "epoch", "e2", "game", with(blind, "cursor", "e2:1000")))
		until(page, 30, 20, 10)
		k.send(object{"t": "game", "g": "g1", "game": with(header("g1", 2000), "mode", "blind", "cursor", "e2:2000")})
		k.send(with(live("g1", 1000, 1500, scored(14, 1500)), "epoch", "e2"), with(live("g1", 1500, 2000, scored(16, 1501)), "epoch", "e2"), with(live("g1", 2000, 2001, scored(17, 2001)), "epoch", "e2"))
		until(page, 30, 20, 17, 16, 14, 10)
		marked(t, page, "revealed", 16, 14)
		marked(t, page, "late", 17)
	})

	t.Run("WhateverAGameSaysIsText", func(t *testing.T) {
		t.Parallel()
		_, page, k := open(t)
		evil := with(line(30, 3), "text", hostile, "actor", hostile, "kind", hostile, "icon", hostile, "tone", hostile)
		head := with(header("g1", 3), "title", hostile, "pool", hostile, "board", []object{{"player": hostile, "score": 1}})
		k.send(with(snap("g1", 3, false, evil, retracted(20, 2, hostile), with(line(10, 1), "text", hostile, "state", "corrected", "reason", hostile)), "game", head))
		until(page, 30, 20, 10)
		k.send(live("g1", 3, 4, with(line(10, 4), "text", "x", "state", "corrected", "reason", hostile)))
		page.Until(row(10) + `.querySelector("q") !== null`)
		for _, selector := range []string{"#" + evt(30) + " .text", "#" + evt(20) + " .text bdi", "#" + evt(10) + " q", "#" + evt(10) + " details > p:last-child", "#title", "[data-fact=pool] dd", ".board .player"} {
			if got := browsertest.Eval[string](page, fmt.Sprintf("document.querySelector(%q).textContent", selector)); got != hostile {
				t.Errorf("%s says %q", selector, got)
			}
		}
		if n := browsertest.Eval[int](page, `document.querySelectorAll("img, [onerror]").length`); n != 0 {
			t.Errorf("%d elements were made of text", n)
		}
	})

	t.Run("TheHeaderSaysHowTheGameStandsAndTimeGoesOn", func(t *testing.T) {
		t.Parallel()
		_, page, k := open(t)
		now := time.Now()
		at := func(d time.Duration) string { return now.Add(d).UTC().Format("2006-01-02T15:04:05.000Z") }
		k.send(with(snap("g1", 1, false, line(10, 1)), "game", with(header("g1", 1), "pool", "900", "mode", "golden", "started_at", at(-time.Hour), "ends_at", at(3*time.Hour))), tick("g1", 1))
		page.Until(`document.querySelector("[data-fact=watchers]")`)
		says := func(want string) {
			t.Helper()
			page.Until(fmt.Sprintf(`[document.getElementById("title"), document.getElementById("mode"), ...document.querySelectorAll("#facts dt, #facts dd")].map((each) => each.textContent).join(" ").replace(/\d\d min|\d\d:\d\d/, "..") === %q`, want))
		}
		says("Room g1 Golden room Status Open Pool 900 Time left 2 h .. Players 2 Lines 3 Watching ≈ 5")
		page.Until(`parseFloat(document.querySelector("#elapsed span").style.inlineSize) >= 25`)
		later(page, int((2*time.Hour + 55*time.Minute).Milliseconds()))
		k.send(with(tick("g1", 1), "now", at(2*time.Hour+55*time.Minute)))
		says("Room g1 Golden room Status Open Pool 900 Time left .. Players 2 Lines 3 Watching ≈ 5")
		page.Until(`parseFloat(document.querySelector("#elapsed span").style.inlineSize) >= 97`)
	})

	t.Run("HeaderAndBoardFollowTheGameAndAreNeverAheadOfTheLines", func(t *testing.T) {
		t.Parallel()
		_, page, k := open(t)
		k.send(snap("g1", 1, false, line(10, 1)))
		until(page, 10)
		page.Do(`window.early = false; new MutationObserver(() => { window.early ||= document.querySelector(".board li .player").textContent === "bo" && document.querySelectorAll("#feed > article").length < 2 }).observe(document.body, { subtree: true, childList: true, characterData: true })`)
		newer := with(header("g1", 3), "status", "settled", "board", []object{{"player": "bo", "score": 600}, {"player": "alex", "score": 522}})
		k.send(object{"t": "game", "g": "g1", "game": newer}, object{"t": "game", "g": "g1", "game": with(header("g1", 2), "title", "old news")}, tick("g1", 1))
		page.Until(`document.querySelector("[data-fact=watchers]")`)
		k.send(live("g1", 1, 3, line(20, 3)))
		page.Until(`document.querySelector(".board li .player").textContent === "bo" && document.getElementById("status").dataset.status === "ended" && document.getElementById("title").textContent === "Room g1"`)
		if browsertest.Eval[bool](page, `window.early`) {
			t.Error("the board told of a line that was not there yet")
		}
		k.send(live("g1", 3, 4, line(30, 4)))
		page.Until(row(30) + ` && document.getElementById("title").textContent === "Room g1"`)
	})

	t.Run("TheBoardStandsBesideTheFeedAndOnAPhoneFoldsUpBelowIt", func(t *testing.T) {
		t.Parallel()
		_, page, k := open(t)
		k.send(snap("g1", 2, false, down(2, 1)...))
		until(page, 2, 1)
		const right = `document.getElementById("board").getBoundingClientRect().left >= document.getElementById("feed").getBoundingClientRect().right`
		if !browsertest.Eval[bool](page, right+` && document.querySelector(".board li").checkVisibility()`) {
			t.Error("the board is not beside the feed")
		}
		page.Size(390, 844)
		page.Until(`document.getElementById("board").getBoundingClientRect().bottom >= innerHeight - 1 && !document.querySelector(".board li").checkVisibility()`)
		if got := browsertest.Eval[string](page, `document.querySelector(".board-leader").textContent`); got != "alex · 522" {
			t.Errorf("folded it says %q", got)
		}
		page.Do(`document.querySelector(".board-toggle").click()`)
		page.Until(`document.querySelector(".board li").checkVisibility() && document.querySelector(".board-toggle").ariaExpanded === "true"`)

		// What is found is told beside the button that ends it, below what is looked for.
		page.Do(`document.getElementById("search").click(); const kind = document.getElementById("kind"); kind.value = "scored"; kind.dispatchEvent(new Event("change"))`)
		report(page, "2 found in all")
		const rows = `["q", "kind", "actor", "found", "clear"].map((id) => document.getElementById(id).getBoundingClientRect()).map(({ top, bottom }) => Math.round((top + bottom) / 2))`
		got := browsertest.Eval[[]int](page, rows)
		if got[0] >= got[1] || got[1] != got[2] || got[2] >= got[3] || max(got[3]-got[4], got[4]-got[3]) > 2 {
			t.Errorf("the parts of the bar stand at %d", got)
		}
	})

	t.Run("ADigestIsAnnouncedAndCanBeSwitchedOff", func(t *testing.T) {
		t.Parallel()
		_, page, k := open(t)
		k.send(snap("g1", 1, false, line(10, 1)), live("g1", 1, 4, line(20, 2), line(30, 3), line(40, 4)))
		page.Until(`document.getElementById("digest").textContent === "3 new, player40 scored 40 %."`)
		page.Do(`document.getElementById("announce").click(); document.getElementById("digest").textContent = ""`)
		k.send(live("g1", 4, 5, line(50, 5)))
		page.Until(row(50))
		if got := browsertest.Eval[string](page, `document.getElementById("announce").getAttribute("aria-pressed") + document.getElementById("digest").textContent`); got != "false" {
			t.Errorf("switched off it says %q", got)
		}
	})
}
