package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
	"github.com/codemojex/feedrenderer/web/browsertest"
)

const within = 2 * time.Second // from an XADD to a row of the page, in the median

// TestAnXADDIsARowOfThePage goes the whole way in a real browser, with entries by a writer that knows nothing of us.
func TestAnXADDIsARowOfThePage(t *testing.T) {
	t.Parallel()
	s := newSystem(t, serverstest.OwnValkey(t).URL)
	s.serve("render", "--tenants", "acme", "--min-idle", "3s").ready()
	web := s.serve("web", "--tenants", "acme").ready()
	const stream = "emq:{acme}:stream:g1"

	s.xadd(stream, "kind", "opened", "mode", "classic")
	page := browsertest.Tab(t)
	page.Open("http://" + web.public + "/acme/g1")
	page.Until(`document.querySelectorAll("article").length === 1 && document.querySelector("#status").dataset.status === "live"`)
	page.Do(`
		window.seen = {}
		new MutationObserver(() => {
			for (const row of document.querySelectorAll("article")) window.seen[row.id] ??= Date.now()
		}).observe(document.querySelector("#feed"), { childList: true, subtree: true })`)

	t.Run("WithinTwoSeconds", func(t *testing.T) {
		var took []time.Duration
		for i := range 20 {
			at := time.Now()
			id := s.xadd(stream, "kind", "scored", "player", "alex", "pct", fmt.Sprint(i))
			page.Until(fmt.Sprintf(`window.seen[%q]`, id))
			seen := time.UnixMilli(browsertest.Eval[int64](page, fmt.Sprintf(`window.seen[%q]`, id)))
			took = append(took, seen.Sub(at))
			if text := rowText(page, id); text != fmt.Sprintf("alex scored %d %%", i) {
				t.Errorf("row %d says %q", i, text)
			}
		}
		if m := median(took); m > within {
			t.Errorf("from XADD to row: median %v, all %v", m, took)
		} else {
			t.Logf("from XADD to row: median %v of %d", m.Round(time.Millisecond), len(took))
		}
	})

	t.Run("ACorrectionChangesIt", func(t *testing.T) {
		id := s.xadd(stream, "kind", "scored", "player", "alex", "pct", "87")
		untilRow(page, id, "alex scored 87 %", "live")
		s.xadd(stream, "kind", "corrected", "target", id.String(), "fields", `{"pct":"88"}`)
		untilRow(page, id, "alex scored 88 %", "corrected")
	})

	t.Run("ARetractionMarksIt", func(t *testing.T) {
		id := s.xadd(stream, "kind", "scored", "player", "alex", "pct", "87")
		untilRow(page, id, "alex scored 87 %", "live")
		s.xadd(stream, "kind", "retracted", "target", id.String(), "reason", "sent twice")
		page.Until(fmt.Sprintf(`document.getElementById(%[1]q).dataset.state === "retracted" && !document.getElementById(%[1]q).textContent.includes("87")`, id))
	})

	t.Run("ALateOneGoesIntoItsPlace", func(t *testing.T) {
		below := s.xadd(stream, "kind", "notice", "text", "below")
		untilRow(page, below, "below", "live")
		late := feed.IDAt(below.Time().Add(time.Millisecond))
		until(t, "the clock has moved on", func() bool { return time.Since(late.Time()) > 5*time.Millisecond })
		above := s.xadd(stream, "kind", "notice", "text", "above")
		untilRow(page, above, "above", "live")
		// A stream only grows upwards: what comes late comes as a retried dead letter does.
		s.xadd(feed.TenantID("acme").RetryStream(), "dead.stream", stream, "dead.entry", late.EntryID(), "dead.attempts", "1",
			"f:kind", "notice", "f:text", "late")
		untilRow(page, late, "late", "live")
		page.Until(fmt.Sprintf(`[...document.querySelectorAll("article")].slice(0, 3).map(row => row.id).join() === "%s,%s,%s"`, above, late, below))
	})

	t.Run("AScoreOfAGameWithoutItsOpeningIsNowhereUntilItsModeIsStated", func(t *testing.T) {
		const stream = "emq:{acme}:stream:g2"
		scored := s.xadd(stream, "kind", "scored", "player", "alex", "pct", "87")
		notice := s.xadd(stream, "kind", "notice", "text", "after it")
		page := browsertest.Tab(t)
		page.Open("http://" + web.public + "/acme/g2")
		untilRow(page, notice, "after it", "live") // what came after it is there
		rows := `document.querySelectorAll("article").length`
		if n := browsertest.Eval[int](page, rows); n != 1 {
			t.Errorf("%d rows", n)
		}
		if shown := lines(t, s.reader(), feed.GameKey{Tenant: "acme", Game: "g2"}); len(shown) != 1 {
			t.Errorf("REST shows %d lines", len(shown))
		}
		s.run("mode", "acme/g2", "classic")
		untilRow(page, scored, "alex scored 87 %", "live")
		if n := browsertest.Eval[int](page, rows); n != 2 {
			t.Errorf("%d rows", n)
		}
	})
}

func rowText(page *browsertest.Page, id feed.ID) string {
	return browsertest.Eval[string](page, fmt.Sprintf(`document.querySelector("#%s .text").textContent`, id))
}

func untilRow(page *browsertest.Page, id feed.ID, text, state string) {
	page.Until(fmt.Sprintf(`(row => row && row.dataset.state === %q && row.querySelector(".text").textContent === %q)(document.getElementById(%q))`, state, text, id))
}
