package browsertest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/codemojex/feedrenderer/web/browsertest"
)

// contrast is the script that lists visible text whose contrast with what is under it is below AA.
const contrast = `(() => {
	const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
	const over = (color, ground) => {
		canvas.fillStyle = "rgb(" + ground.join(" ") + ")";
		canvas.fillRect(0, 0, 1, 1);
		canvas.fillStyle = color;
		canvas.fillRect(0, 0, 1, 1);
		return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
	};
	const ground = (node) => node === null ? [255, 255, 255] : over(getComputedStyle(node).backgroundColor, ground(node.parentElement));
	const light = (rgb) => rgb.map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const bad = [];
	for (const node of document.body.querySelectorAll("*")) {
		const style = getComputedStyle(node);
		const says = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()) || node.matches("input");
		if (!says || !node.checkVisibility() || node.closest(".sr, .skip, .exact, noscript, option")) continue;
		const under = ground(node);
		const [a, b] = [light(over(style.color, under)), light(under)].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
		if (ratio < (large ? 3 : 4.5)) bad.push(node.tagName + "." + node.className + " " + ratio.toFixed(2) + " " + node.textContent.slice(0, 30));
	}
	return bad.join("\n");
})()`

// everything is a snapshot with a line of each tone and state.
func everything() object {
	lines := []object{with(line(90, 9), "text", "player90 scored 90 %", "tone", "good"), with(line(80, 8), "tone", "bad"), with(line(70, 7), "tone", "loud"), line(60, 6)}
	return snap("g1", 9, false, append(lines, with(line(50, 5), "state", "corrected"), retracted(40, 4, "why"))...)
}

func TestEveryone(t *testing.T) {
	t.Parallel()
	browsertest.Browser(t)

	t.Run("ContrastIsAAByDayAndByNight", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		page := browsertest.Tab(t)
		page.Prefers("reduced-motion", "reduce")
		page.Open(s.URL + "/acme/g1?actor=player9")
		k := s.socket()
		k.sub("g1")
		k.send(with(everything(), "game", with(header("g1", 9), "status", "settled", "mode", "golden")))
		page.Until(`document.getElementById("end").checkVisibility()`)
		page.Do(`document.getElementById("clear").click(); document.getElementById("search").click()`)
		until(page, 90, 80, 70, 60, 50, 40)
		k.send(live("g1", 9, 10, line(65, 10)))
		page.Until(row(65))
		page.Do(`document.getElementById("pause").click()`)
		for _, status := range []string{"live", "catching-up", "reconnecting", "offline", "ended", "waiting", "refused"} {
			page.Do(fmt.Sprintf(`const chip = document.getElementById("status").cloneNode(true); chip.removeAttribute("id"); chip.dataset.status = %q; document.querySelector(".controls").append(chip)`, status))
		}
		for _, mode := range []string{"classic", "blind"} {
			page.Do(fmt.Sprintf(`const badge = document.getElementById("mode").cloneNode(true); badge.removeAttribute("id"); badge.dataset.mode = %q; document.querySelector(".name").append(badge)`, mode))
		}
		page.Do(`for (const id of ["banner", "trouble"]) document.getElementById(id).insertAdjacentElement("afterend", Object.assign(document.getElementById(id).cloneNode(true), { hidden: false, id: "" }))`)
		for _, scheme := range []string{"light", "dark"} {
			page.Prefers("color-scheme", scheme)
			if bad := browsertest.Eval[string](page, contrast); bad != "" {
				t.Errorf("%s:\n%s", scheme, bad)
			}
		}
	})

	t.Run("WhoWantsNoMotionSeesNone", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		page := browsertest.Tab(t)
		page.Prefers("reduced-motion", "reduce")
		page.Open(s.URL + "/acme/g1")
		k := s.socket()
		k.sub("g1")
		k.send(everything(), live("g1", 9, 12, line(100, 10), line(75, 11), with(line(60, 12), "state", "corrected")))
		page.Until(row(100) + ` && ` + row(60) + `.dataset.state === "corrected"`)
		k.send(object{"t": "game", "g": "g1", "game": with(header("g1", 12), "board", []object{{"player": "bo", "score": 600}, {"player": "alex", "score": 522}})})
		page.Until(`document.querySelector(".board .player").textContent === "bo"`)
		if got := browsertest.Eval[string](page, `document.getAnimations().filter((each) => each.effect.getTiming().duration > 10).map((each) => each.animationName ?? each.id).join(" ")`); got != "" {
			t.Errorf("something moves: %q", got)
		}
	})

	t.Run("NamesOfAnyKindAndDoubleSizeBreakNoRow", func(t *testing.T) {
		t.Parallel()
		_, page, k := open(t)
		var lines []object
		for i, name := range []string{"قط_فضائي", strings.Repeat("👩‍👩‍👧‍👦", 60), strings.Repeat("W", 200), strings.Repeat("ا", 150), "a\u202eb", strings.Repeat("9", 200)} {
			lines = append(lines, with(line(50-i, 50-i), "actor", name, "text", name+" scored 100 %"))
		}
		head := with(header("g1", 50), "title", strings.Repeat("Ü", 120), "pool", strings.Repeat("9", 60), "board", []object{{"player": strings.Repeat("W", 200), "score": 123456.5}})
		k.send(with(snap("g1", 50, false, lines...), "game", head))
		page.Until(row(50))
		page.Do(`document.getElementById("search").click()`)
		for _, width := range []int64{1280, 640, 320} { // 640 is 1280 at 200 %
			page.Size(width, 700)
			page.Until(`document.getElementById("announce").checkVisibility() && document.getElementById("title").offsetWidth > 60`)
			got := browsertest.Eval[string](page, `[document.scrollingElement, ...document.querySelectorAll(".body, .text, .top, .find, .board, .name, .facts")].filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.id || each.className || each.tagName).join(" ")`)
			if got != "" {
				t.Errorf("at %d px too wide: %s", width, got)
			}
		}
		if got := browsertest.Eval[string](page, `[...document.querySelector(".board-leader").childNodes].map((node) => node.nodeName).join()`); got != "BDI,#text" {
			t.Errorf("the leader's name stands in %s", got)
		}
		if got := browsertest.Eval[string](page, row(50)+`.querySelector(".text bdi").textContent`); got != "قط_فضائي" {
			t.Errorf("the name that stands isolated is %q", got)
		}
	})

	t.Run("AFeedOfArticlesWithNamesAndOnePoliteRegion", func(t *testing.T) {
		t.Parallel()
		_, page, k := open(t)
		k.send(everything())
		page.Until(row(90))
		for what, script := range map[string]string{
			"every row is an article with a name that can be reached": `[...document.querySelectorAll("[role=feed] > *")].every((each) => each.matches("article[tabindex='0']") && document.getElementById(each.getAttribute("aria-labelledby")).textContent)`,
			"there is one live region":                                `[...document.querySelectorAll("[aria-live], [role=status], [role=alert], [role=log]")].map((each) => each.id).join() === "digest"`,
			"whatever is pressed or filled in has a name":             `[...document.querySelectorAll("button, input, select, a")].every((each) => !each.checkVisibility() || (each.getAttribute("aria-label") || each.textContent).trim())`,
			"states are told by words":                                row(40) + `.textContent.includes("removed") && ` + row(50) + `.textContent.includes("edited")`,
		} {
			if !browsertest.Eval[bool](page, script) {
				t.Errorf("not so: %s", what)
			}
		}
	})

	t.Run("FocusIsNeverStolenWhateverHappens", func(t *testing.T) {
		t.Parallel()
		s, page, k := open(t)
		page.Do(atOnce)
		k.send(snap("g1", 3, false, down(3, 1)...))
		until(page, 3, 2, 1)
		ver := 3
		for i, focus := range []string{`document.getElementById("pause")`, row(2), row(2) + `.querySelector("a.when")`} {
			page.Do(focus + `.focus()`)
			changed := fmt.Sprintf("changed %d", i)
			k.send(live("g1", ver, ver+2, line(10+i, ver+1), with(line(1, ver+2), "state", "corrected", "text", changed)))
			ver += 2
			k.send(object{"t": "game", "g": "g1", "game": with(header("g1", ver), "board", []object{{"player": changed, "score": i}})})
			page.Until(row(10+i) + ` && document.querySelector(".board .player").textContent === ` + row(1) + `.querySelector(".text").textContent`)
			k.close(4006, "suspended: the tenant is, come back later")
			noticed(page, "suspended")
			k = s.socket()
			k.sub("g1")
			k.send(delta("g1", ver, ver))
			page.Until(`document.getElementById("notice").hidden`)
			if !browsertest.Eval[bool](page, focus+` === document.activeElement`) {
				t.Errorf("the focus left %s for %s", focus, browsertest.Eval[string](page, `document.activeElement.outerHTML`))
			}
		}
	})

	t.Run("DigestsComeAtMostEveryEightSecondsWhateverHappens", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		page := browsertest.Tab(t)
		page.Open(s.URL + "/static/icons.txt")
		said := browsertest.Eval[[]struct {
			At   int    `json:"at"`
			Text string `json:"text"`
		}](page, `(async () => {
			const { Announcer } = await import("/static/announcer.js");
			let now = 100000;
			let due = [];
			const said = [];
			Date.now = () => now;
			window.setTimeout = (work, ms) => due.push({ at: now + ms, work });
			const announcer = new Announcer({ set textContent(text) { said.push({ at: now, text }); } });
			for (let n = 0; n < 3000; n++, now += 20) { // 50 lines a second for a minute
				announcer.note({ t: "lines", placed: [{ line: { evt: "EVT" + (10000 + n), text: "line " + n } }], changed: [], revealed: [] });
				const [ready, later] = [due.filter(({ at }) => at <= now), due.filter(({ at }) => at > now)];
				due = later;
				for (const { work } of ready) work();
			}
			return said;
		})()`)
		if len(said) < 6 || len(said) > 8 {
			t.Errorf("%d digests in a minute: %v", len(said), said)
		}
		for i := 1; i < len(said); i++ {
			if gap := said[i].At - said[i-1].At; gap < 8000 {
				t.Errorf("%d ms between two digests", gap)
			}
			if !strings.HasPrefix(said[i].Text, "40") { // 400 and a few
				t.Errorf("it says %q", said[i].Text)
			}
		}
	})

	t.Run("TimesGoOnByTheServersClockAndAreExactOnDemand", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		s.silent.Store(true) // about the time, too
		page := browsertest.Tab(t)
		page.Before(`{ const { setInterval } = window; window.setInterval = (work, ms) => {
			if (ms === 60000) window.minute = work;
			return ms === 1000 ? 0 : setInterval(work, ms); // the connection is not looked at: hours pass below
		}; }`)
		page.Open(s.URL + "/acme/g1")
		k := s.socket()
		k.sub("g1")
		k.send(snap("g1", 1, false, with(line(1, 1), "at", "2026-01-02T03:04:05.000Z")), with(tick("g1", 1), "now", "2026-01-02T03:04:30.000Z"))
		page.Until(`document.querySelector("[data-fact=watchers]")`)
		says := func(text string) {
			t.Helper()
			page.Do(`minute()`)
			if got := browsertest.Eval[string](page, row(1)+`.querySelector("time").textContent`); got != text {
				t.Errorf("it says %q, want %q", got, text)
			}
		}
		says("now")
		later(page, 5*60_000)
		says("5 min")
		k.send(with(tick("g1", 1), "now", "2026-01-02T05:04:30.000Z", "games", []object{{"g": "g1", "to": 1, "watchers": 6}}))
		page.Until(`document.querySelector("[data-fact=watchers] dd").textContent.includes("6")`)
		says("2 h")
		page.Type("j")
		page.Until(`getComputedStyle(` + row(1) + `.querySelector(".exact")).opacity === "1"`)
		page.Do(`document.activeElement.blur()`)
		page.Until(`getComputedStyle(` + row(1) + `.querySelector(".exact")).opacity === "0"`)
		page.Hover("#" + evt(1) + " .when")
		page.Until(`getComputedStyle(` + row(1) + `.querySelector(".exact")).opacity === "1"`)
		if got := browsertest.Eval[string](page, row(1)+`.querySelector("time").dateTime`); got != "2026-01-02T03:04:05.000Z" {
			t.Errorf("for programs it is %q", got)
		}
		exact := browsertest.Eval[string](page, row(1)+`.querySelector(".exact").textContent`)
		if !strings.Contains(exact, "05") || !strings.Contains(exact, "UTC") && !strings.Contains(exact, "GMT") {
			t.Errorf("exactly it is %q", exact)
		}
	})
}
