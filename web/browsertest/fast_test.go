package browsertest_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/web/browsertest"
)

// heldFrames lets the test say when the page may draw, and counts the messages of its sockets.
const heldFrames = `
window.frames_ = [];
window.got = 0;
window.WebSocket = class extends WebSocket {
	constructor(...args) { super(...args); this.addEventListener("message", () => window.got++); }
};
window.hold = () => {
	const { requestAnimationFrame } = window;
	window.requestAnimationFrame = (work) => frames_.push(work);
	return new Promise((done) => requestAnimationFrame(done)); // after those that were asked for before
};
window.batches = 0;
window.watch = () => new MutationObserver(() => window.batches++).observe(document.getElementById("feed"), { childList: true });
`

func TestFast(t *testing.T) {
	t.Parallel()
	browsertest.Browser(t)

	t.Run("AGameOfTenThousandLinesOpensWithAHundredAndNoRequest", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		page := browsertest.Tab(t)
		page.Open(s.URL + "/acme/g1")
		k := s.socket()
		k.sub("g1")
		page.Do(`window.start = performance.now(); new MutationObserver(() => { window.took ??= performance.now() - start }).observe(document.getElementById("feed"), { childList: true })`)
		k.send(with(snap("g1", 10_000, true, down(10_000, 9_901)...), "game", with(header("g1", 10_000), "counts", object{"lines": 10_000, "players": 300})))
		page.Until(`document.querySelectorAll("#feed > article").length === 100 && document.querySelector("[data-fact=lines] dd").textContent === "10,000"`)
		beat(page)
		if asked := s.requests(0); len(asked) > 0 {
			t.Errorf("it asked for %q", asked)
		}
		t.Logf("from the snapshot to its rows: %.0f ms", browsertest.Eval[float64](page, "took"))
	})

	t.Run("WhatComesBetweenTwoFramesIsDrawnOnce", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		page := browsertest.Tab(t)
		s.silent.Store(true)
		page.Before(heldFrames)
		page.Open(s.URL + "/acme/g1")
		k := s.socket()
		k.sub("g1")
		k.send(snap("g1", 100, false, down(100, 1)...))
		page.Until(row(100))
		page.Do(`await hold(); watch()`) // as a hidden tab's browser holds them
		for n := 101; n <= 500; n += 2 {
			k.send(live("g1", n-1, n+1, line(n, n), line(n+1, n+1)))
		}
		page.Until(`got === 201`)
		if browsertest.Eval[bool](page, `batches > 0`) {
			t.Error("rows were made before the frame")
		}
		page.Do(`window.start = performance.now(); for (const work of frames_.splice(0)) work(); window.took = performance.now() - start; await 0`)
		page.Until(row(500))
		if n := browsertest.Eval[int](page, `batches`); n != 1 {
			t.Errorf("the rows were changed %d times, want once", n)
		}
		if n := browsertest.Eval[int](page, `document.querySelectorAll("#feed > article").length`); n > 500 {
			t.Errorf("%d rows", n)
		}
		t.Logf("400 lines in one frame: %.0f ms", browsertest.Eval[float64](page, "took"))
	})

	t.Run("FiftyLinesASecondMakeEachRowOnceAndDrawOnceAFrame", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		page := browsertest.Tab(t)
		page.Open(s.URL + "/acme/g1")
		k := s.socket()
		k.sub("g1")
		k.send(snap("g1", 200, true, down(200, 101)...))
		page.Until(row(200))
		page.Do(counted)
		const lines, rows = 100, 50 // rows of the yardstick, one a frame: a busy machine draws few a second
		rush := func() {
			beat := time.NewTicker(time.Second / 50)
			defer beat.Stop()
			for n := 201; n <= 200+lines; n++ {
				<-beat.C
				if n%10 == 0 { // every tenth brings the header
					k.send(live("g1", n-1, n, line(n, n)), object{"t": "game", "g": "g1", "game": header("g1", n)})
				} else {
					k.send(live("g1", n-1, n, line(n, n)))
				}
			}
			page.Until(row(200 + lines))
		}
		before := page.Worked()
		rush()
		page.Until(`added >= ` + strconv.Itoa(lines))
		took := page.Worked() - before
		got := browsertest.Eval[struct{ Added, Removed, Draws, Frames, Long int }](page, `({ added, removed, draws, frames, long })`)
		if got.Added != lines || got.Draws > got.Frames {
			t.Errorf("%d rows were made of %d lines, %d times in %d frames", got.Added, lines, got.Draws, got.Frames)
		}
		if n := browsertest.Eval[int](page, `document.querySelectorAll("#feed > article").length`); n != 200-101+1+lines-got.Removed || n > 150 {
			t.Errorf("%d rows, %d removed", n, got.Removed)
		}

		// The yardstick: the same rows put on top of a list of as many, by nothing but the browser.
		bare := browsertest.Tab(t)
		bare.Open(s.URL + "/acme/g1?bare")
		s.socket().sub("g1")
		begun := bare.Worked()
		bare.Do(fmt.Sprintf(plain, rows))
		yardstick := bare.Worked() - begun
		t.Logf("a line costs the page's thread %v, a bare list %v (ratio %.1f); %d tasks of more than 50 ms, %d draws in %d frames",
			(took / lines).Round(10*time.Microsecond), (yardstick / rows).Round(10*time.Microsecond), (took/lines).Seconds()/(yardstick/rows).Seconds(), got.Long, got.Draws, got.Frames)
		if took/lines > 3*(yardstick/rows) {
			t.Error("that is much for a row")
		}
	})
}

// counted counts what happens to the rows, frames, and tasks that are called long.
const counted = `
window.added = window.removed = window.draws = window.frames = window.long = 0;
new MutationObserver((records) => {
	draws++;
	for (const { addedNodes, removedNodes } of records) { added += addedNodes.length; removed += removedNodes.length; }
}).observe(document.getElementById("feed"), { childList: true });
new PerformanceObserver((list) => { long += list.getEntries().length }).observe({ type: "longtask" });
const frame = () => { frames++; requestAnimationFrame(frame); };
requestAnimationFrame(frame);
`

// plain puts so many rows on top of a bare list, one a frame.
const plain = `
const { lineView } = await import("/static/line-view.js");
const list = document.getElementById("feed");
const line = (n) => lineView({ line: { evt: "EVT" + (10000000000 + n), at: new Date().toISOString(), text: "player" + n + " scored 7 %%", actor: "player" + n, icon: "dart", tone: "plain", state: "live", kind: "scored" }, before: [] }, Date.now());
list.replaceChildren(...Array.from({ length: 150 }, (_, n) => line(n)));
for (let n = 150; n < 150 + %d; n++) {
	await new Promise(requestAnimationFrame);
	list.prepend(line(n));
	list.lastElementChild.remove();
}
`
