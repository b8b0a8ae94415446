package browsertest_test

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/codemojex/feedrenderer/web/browsertest"
)

// first is the script of the first visible row.
const first = `[...document.querySelectorAll("#feed > article")].find((row) => row.getBoundingClientRect().bottom > document.querySelector(".top").getBoundingClientRect().bottom)`

// scroll scrolls as a reader does and waits until the page has taken notice.
func scroll(page *browsertest.Page, y string) {
	page.Do(`scrollTo(0, ` + y + `); await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))`)
}

func top(page *browsertest.Page, n int) float64 {
	return browsertest.Eval[float64](page, row(n)+".getBoundingClientRect().top")
}

// firstVisible is the number of the first visible row.
func firstVisible(t *testing.T, page *browsertest.Page) int {
	t.Helper()
	id := browsertest.Eval[string](page, first+".id")
	var n int
	if _, err := fmt.Sscanf(strings.TrimPrefix(id, "EVT0SU"), "%d", &n); err != nil {
		t.Fatalf("first visible row %q: %v", id, err)
	}
	return n
}

func TestPlace(t *testing.T) {
	t.Parallel()
	browsertest.Browser(t)

	t.Run("AwayFromTheEdgeTheFirstVisibleRowKeepsItsPixelAndThePillCounts", func(t *testing.T) {
		t.Parallel()
		_, page, k := open(t)
		k.send(snap("g1", 1000, false, down(1000, 901)...))
		page.Until(row(1000))
		scroll(page, "1500")
		n := firstVisible(t, page)
		before := top(page, n)

		longer := strings.Repeat("a longer text than before ", 20)
		k.send(live("g1", 1000, 1016, append(down(1012, 1001),
			with(line(990, 1013), "text", longer, "state", "corrected"), // above the reader: taller
			with(line(985, 1014), "text", longer, "state", "corrected"),
			with(line(0, 1015), "evt", "EVT0SU0000098z", "text", "late, above the reader"),
			with(line(0, 1016), "evt", "EVT0SU0000091z", "text", "late, below the reader"))...))
		page.Until(`document.getElementById("pill").dataset.count === "12"`)
		page.Until(row(990) + `.dataset.state === "corrected"`)
		if got := top(page, n); math.Abs(got-before) > 1 {
			t.Errorf("the first visible row moved from %.1f to %.1f", before, got)
		}
		if text := browsertest.Eval[string](page, `document.getElementById("pill").innerText`); strings.TrimSpace(text) != "12 new" {
			t.Errorf("the pill says %q", text)
		}
		if browsertest.Eval[bool](page, row(1001)+" !== null") {
			t.Error("a new line was put in above the reader")
		}

		page.Do(`document.getElementById("pill").click()`)
		page.Until(`scrollY === 0 && document.querySelector("#feed > article").id === ` + fmt.Sprintf("%q", evt(1012)))
		page.Until(`document.getElementById("pill").hidden`)
		k.send(live("g1", 1016, 1017, line(1013, 1017)))
		page.Until(`document.querySelector("#feed > article").id === ` + fmt.Sprintf("%q", evt(1013)))
	})

	t.Run("ScrollingUpToWhatIsNewShowsItWithoutAJump", func(t *testing.T) {
		t.Parallel()
		_, page, k := open(t)
		k.send(snap("g1", 1000, false, down(1000, 901)...))
		page.Until(row(1000))
		scroll(page, "1800")
		k.send(live("g1", 1000, 1040, down(1040, 1001)...))
		page.Until(`document.getElementById("pill").dataset.count === "40"`)
		scroll(page, "600")
		page.Until(row(1040))
		n := firstVisible(t, page)
		if n > 1000 || n < 980 {
			t.Errorf("the reader was taken to line %d", n)
		}
		scroll(page, "0")
		page.Until(`document.getElementById("pill").hidden`)
	})

	t.Run("PausedItCountsAndResumesWhereTheReaderIs", func(t *testing.T) {
		t.Parallel()
		_, page, k := open(t)
		k.send(snap("g1", 100, false, down(100, 1)...))
		page.Until(row(100))
		page.Do(`document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "p", bubbles: true }))`)
		page.Until(`document.getElementById("pause").getAttribute("aria-pressed") === "true"`)
		k.send(live("g1", 100, 103, down(103, 101)...))
		page.Until(`document.getElementById("pill").dataset.count === "3"`)
		k.send(live("g1", 103, 104, retracted(99, 104, "")))
		page.Until(row(99) + `.dataset.state === "retracted"`)
		if browsertest.Eval[bool](page, row(101)+" !== null") {
			t.Error("a paused page shows a new line")
		}
		page.Do(`document.getElementById("pause").click()`)
		page.Until(row(103) + ` && document.getElementById("pill").hidden`)
	})

	t.Run("OlderLinesJoinWithoutGapOrRepetitionWhileLateOnesComeIn", func(t *testing.T) {
		t.Parallel()
		s, page, k := open(t)
		k.send(snap("g1", 300, true, down(300, 201)...))
		page.Until(row(300))
		scroll(page, "document.body.scrollHeight")
		if got, want := s.requests(1)[0], "/v1/tenants/acme/games/g1/timeline?before="+evt(201)+"&limit=100"; got != want {
			t.Fatalf("the page asked for %s, want %s", got, want)
		}
		// While the page is on its way: a late line in its range, which it does not have yet, and a correction of one that it has.
		late := "EVT0SU0000015z" // between 159 and 160
		k.send(live("g1", 300, 302, with(line(0, 301), "evt", late), with(line(140, 302), "text", "newer", "state", "corrected")))
		k.send(tick("g1", 302))
		page.Until(`document.querySelector("[data-fact=watchers]")`)
		n := firstVisible(t, page)
		before := top(page, n)
		s.answer(object{"lines": down(200, 101), "more": true, "cursor": "e1:300"})
		page.Until(row(140))
		if got := top(page, n); math.Abs(got-before) > 1 {
			t.Errorf("the first visible row moved from %.1f to %.1f", before, got)
		}
		if got := browsertest.Eval[string](page, row(140)+`.querySelector(".text").textContent`); got != "newer" {
			t.Errorf("a correction that overtook its page reads %q", got)
		}
		if n := browsertest.Eval[int](page, `document.querySelectorAll("#`+late+`").length`); n != 1 {
			t.Errorf("a late line that overtook its page is there %d times", n)
		}
		scroll(page, "document.body.scrollHeight")
		s.requests(2)
		s.answer(object{"lines": down(100, 1), "more": false, "cursor": "e1:302"})
		page.Until(row(100))
		scroll(page, "document.body.scrollHeight")
		page.Until(row(1) + ` && document.getElementById("end").checkVisibility()`)
		list := strings.Fields(browsertest.Eval[string](page, ids))
		want := []string{late}
		for n := 1; n <= 300; n++ {
			want = append(want, evt(n))
		}
		slices.Sort(want)
		slices.Reverse(want)
		if !slices.Equal(list, want) {
			t.Errorf("%d rows, want %d in order of their ids", len(list), len(want))
		}
	})

	t.Run("TheDocumentHoldsAtMost500RowsOfAnyNumber", func(t *testing.T) {
		t.Parallel()
		s, page, k := open(t)
		k.send(snap("g1", 1000, true, down(1000, 901)...))
		page.Until(row(1000))
		for last := 901; last > 101; last -= 100 {
			scroll(page, "document.body.scrollHeight")
			s.requests((1001 - last + 99) / 100)
			s.answer(object{"lines": down(last-1, last-100), "more": true, "cursor": "e1:1000"})
			page.Until(row(last - 1))
			if n := browsertest.Eval[int](page, `document.querySelectorAll("#feed > article").length`); n > 500 {
				t.Fatalf("%d rows", n)
			}
		}
		if browsertest.Eval[bool](page, row(1000)+" !== null") {
			t.Error("the newest row is still in the document")
		}
		n := firstVisible(t, page)
		k.send(live("g1", 1000, 1001, line(1001, 1001)))
		page.Until(`document.getElementById("pill").dataset.count === "1"`)
		if got := firstVisible(t, page); got != n {
			t.Errorf("the reader was taken from line %d to %d", n, got)
		}
		page.Do(`document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "Home", bubbles: true }))`)
		page.Until(`document.querySelector("#feed > article").id === ` + fmt.Sprintf("%q", evt(1001)) + ` && scrollY === 0`)
	})

	t.Run("APermalinkOpensWithTheLinesAroundIt", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		page := browsertest.Tab(t)
		page.Open(s.URL + "/acme/g1#" + evt(500))
		k := s.socket()
		k.sub("g1")
		answers := map[string]any{
			"/lines/" + evt(500):           line(500, 500),
			"/timeline?before=" + evt(500): object{"lines": down(499, 400), "more": true, "cursor": "e1:1000"},
			"/timeline?after=" + evt(500):  object{"lines": down(600, 501), "more": true, "cursor": "e1:1000"},
		}
		k.send(snap("g1", 1000, true, down(1000, 901)...))
		for _, asked := range s.requests(3) {
			path := strings.TrimSuffix(strings.TrimPrefix(asked, "/v1/tenants/acme/games/g1"), "&limit=100")
			if answers[path] == nil {
				t.Fatalf("the page asked for %s", asked)
			}
			s.answer(answers[path])
		}
		page.Until(row(500) + `?.matches("[data-target]:focus")`)
		if y := top(page, 500); y < 100 || y > 700 {
			t.Errorf("the line of the link is at %.0f px", y)
		}
		k.send(live("g1", 1000, 1002, line(1001, 1001), with(line(499, 1002), "text", "corrected meanwhile", "state", "corrected")))
		page.Until(row(499) + `.dataset.state === "corrected" && document.getElementById("pill").dataset.count === "1"`)

		page.Do(`document.getElementById("pill").click()`)
		if since := k.sub("g1"); since != "" {
			t.Errorf("to come back it resumes from %q, want a fresh snapshot", since)
		}
		k.send(snap("g1", 1002, true, down(1001, 902)...))
		page.Until(`document.querySelector("#feed > article").id === ` + fmt.Sprintf("%q", evt(1001)) + ` && document.getElementById("pill").hidden`)
	})

	t.Run("OlderLinesThatDoNotComeAreSaidToAndAskedForAgain", func(t *testing.T) {
		t.Parallel()
		s, page, k := open(t)
		k.send(snap("g1", 300, true, down(300, 201)...))
		page.Until(row(300))
		scroll(page, "document.body.scrollHeight")
		s.answers <- func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }
		page.Until(`document.getElementById("trouble").textContent.includes("503")`)
		page.Do(`document.getElementById("older").click()`)
		s.answer(object{"lines": down(200, 101), "more": false, "cursor": "e1:300"})
		page.Until(row(200) + ` && document.getElementById("trouble").hidden`)
	})

	t.Run("TheKeysJAndKGoFromLineToLine", func(t *testing.T) {
		t.Parallel()
		_, page, k := open(t)
		k.send(snap("g1", 3, false, down(3, 1)...))
		until(page, 3, 2, 1)
		press := func(key string) {
			page.Do(fmt.Sprintf(`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: %q, bubbles: true }))`, key))
		}
		for _, step := range []struct {
			key  string
			want int
		}{{"j", 3}, {"j", 2}, {"j", 1}, {"j", 1}, {"k", 2}} {
			press(step.key)
			if got := browsertest.Eval[string](page, "document.activeElement.id"); got != evt(step.want) {
				t.Fatalf("%s goes to %q, want line %d", step.key, got, step.want)
			}
		}
		k.send(live("g1", 3, 5, line(4, 4), with(line(2, 5), "text", "changed under the reader", "state", "corrected")))
		until(page, 4, 3, 2, 1)
		page.Until(row(2) + `.dataset.state === "corrected"`)
		if got := browsertest.Eval[string](page, "document.activeElement.id"); got != evt(2) {
			t.Errorf("after a change the focus is on %q", got)
		}
		press("Escape")
		page.Until(`document.activeElement === document.body`)
	})
}
