package browsertest_test

import (
	"fmt"
	"testing"

	"github.com/codemojex/feedrenderer/web/browsertest"
)

// later moves the page's clock on, as a wait of that many milliseconds would.
func later(page *browsertest.Page, ms int) {
	page.Do(fmt.Sprintf(`const real = Date.now; Date.now = () => real() + %d`, ms))
}

// beat waits until the page has looked at its connection once more, as it does every second: it writes its title then.
func beat(page *browsertest.Page) {
	page.Do(`document.title = "waiting"`)
	page.Until(`document.title !== "waiting"`)
}

// chip waits until the status chip says so.
func chip(page *browsertest.Page, status string) {
	page.Until(fmt.Sprintf(`document.getElementById("status").dataset.status === %q`, status))
}

// blanked is the script of a watch over the rows: whether there ever were none.
const blanked = `window.blanked = false; new MutationObserver(() => { window.blanked ||= document.querySelector("#feed > article") === null }).observe(document.getElementById("feed"), { childList: true })`

func TestConnection(t *testing.T) {
	t.Parallel()
	browsertest.Browser(t)

	t.Run("AfterEachOfFiveDropsItResumesByItsCursorAndShowsWhatItMissed", func(t *testing.T) {
		t.Parallel()
		s, page, k := open(t)
		k.send(snap("g1", 2, false, down(2, 1)...))
		until(page, 2, 1)
		chip(page, "live")
		page.Do(blanked)
		for n := 3; n < 8; n++ {
			if n%2 == 0 {
				k.drop()
			} else {
				k.close(4000, "draining")
			}
			k = s.socket()
			if got, want := k.sub("g1"), fmt.Sprintf("e1:%d", n-1); got != want {
				t.Fatalf("it resumes from %q, want %q", got, want)
			}
			k.send(delta("g1", n-1, n-1))
			k.send(live("g1", n-1, n, line(n, n)))
			page.Until(row(n))
			chip(page, "live")
		}
		until(page, 7, 6, 5, 4, 3, 2, 1)
		if browsertest.Eval[bool](page, "window.blanked") {
			t.Error("the list was empty in between")
		}
	})

	t.Run("AGapIsAskedForAndOldNewsIgnored", func(t *testing.T) {
		t.Parallel()
		_, page, k := open(t)
		k.send(snap("g1", 10, false, down(2, 1)...))
		until(page, 2, 1)
		k.send(live("g1", 5, 9, line(99, 9)), live("g1", 12, 13, line(4, 13)), live("g1", 13, 14, line(5, 14)))
		if got := k.sub("g1"); got != "e1:10" {
			t.Fatalf("it asks from %q, want e1:10", got)
		}
		k.send(delta("g1", 10, 14, line(3, 12), line(4, 13), line(5, 14)), live("g1", 13, 14, with(line(5, 14), "text", "twice")),
			live("g1", 12, 15, with(line(4, 13), "text", "again"), with(line(5, 12), "text", "older"), line(6, 15)))
		until(page, 6, 5, 4, 3, 2, 1)
		if browsertest.Eval[bool](page, `/twice|again|older/.test(document.getElementById("feed").textContent)`) {
			t.Error("a line of the version held, or of an older one, was applied")
		}
	})

	t.Run("ATickBetraysALostTail", func(t *testing.T) {
		t.Parallel()
		_, page, k := open(t)
		k.send(snap("g1", 2, false, down(2, 1)...), tick("g1", 3))
		if got := k.sub("g1"); got != "e1:2" {
			t.Fatalf("it asks from %q, want e1:2", got)
		}
		k.send(delta("g1", 2, 3, line(3, 3)))
		until(page, 3, 2, 1)
	})

	t.Run("AResetReplacesWhatIsShownWithoutBlankingIt", func(t *testing.T) {
		t.Parallel()
		s, page, k := open(t)
		k.send(snap("g1", 9, false, down(3, 1)...))
		until(page, 3, 2, 1)
		page.Do(blanked)
		k.drop()
		k = s.socket()
		if got := k.sub("g1"); got != "e1:9" {
			t.Fatalf("it resumes from %q", got)
		}
		other := with(snap("g1", 4, false, line(3, 1), line(2, 4)), "epoch", "e2", "game", with(header("g1", 4), "cursor", "e2:4", "title", "Restored"))
		k.send(object{"t": "reset", "g": "g1", "reason": "epoch"}, other)
		until(page, 3, 2)
		k.send(live("g1", 4, 5, line(9, 5))) // of the epoch before: not believed, and asked about
		if got := k.sub("g1"); got != "e2:4" {
			t.Errorf("it asks from %q, want e2:4", got)
		}
		k.send(with(delta("g1", 4, 5, line(4, 5)), "epoch", "e2"))
		until(page, 4, 3, 2)
		if browsertest.Eval[bool](page, `window.blanked || document.getElementById("title").textContent !== "Restored"`) {
			t.Error("the list was empty in between, or the header is the old one")
		}
	})

	t.Run("AGameThatIsNotThereYetIsAskedForUntilItIs", func(t *testing.T) {
		t.Parallel()
		_, page, k := open(t)
		k.send(object{"t": "err", "g": "g1", "code": "not_found", "msg": "no such game"})
		page.Until(`document.getElementById("notice").dataset.notice === "unknown"`)
		later(page, 10_500)
		if since := k.sub("g1"); since != "" {
			t.Fatalf("it resumes from %q", since)
		}
		k.send(snap("g1", 1, false, line(1, 1)))
		until(page, 1)
		page.Until(`document.getElementById("notice").hidden`)
	})

	t.Run("SilenceIsSaidAndOneWordFromTheServerEndsIt", func(t *testing.T) {
		t.Parallel()
		s, page, k := open(t)
		s.silent.Store(true)
		page.Do(`window.clock = Date.now(); Date.now = () => window.clock`)
		k.send(snap("g1", 1, false, line(1, 1)))
		chip(page, "live")
		later(page, 12_000)
		beat(page)
		if browsertest.Eval[bool](page, `!document.getElementById("banner").hidden || document.getElementById("status").dataset.status !== "live"`) {
			t.Error("a tick that is 2 s late is called silence")
		}
		later(page, 2_000)
		page.Until(`!document.getElementById("banner").hidden && document.getElementById("banner").textContent.includes("Nothing heard for")`)
		if got := k.take(); got["t"] != "ping" {
			t.Fatalf("the page sent %v, want a ping", got)
		}
		k.send(object{"t": "pong"})
		page.Until(`document.getElementById("banner").hidden`)
		chip(page, "live")
	})

	t.Run("ADeadPeerIsGivenUpAndReplaced", func(t *testing.T) {
		t.Parallel()
		s, page, k := open(t)
		s.silent.Store(true)
		k.send(snap("g1", 1, false, line(1, 1)))
		until(page, 1)
		later(page, 16_500)
		k = s.socket()
		if got := k.sub("g1"); got != "e1:1" {
			t.Fatalf("it resumes from %q", got)
		}
		k.send(delta("g1", 1, 2, line(2, 2)))
		until(page, 2, 1)
	})

	t.Run("WhereNothingWasLostYetNothingIsReconnected", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		page := browsertest.Tab(t)
		page.Before(`window.WebSocket = class extends EventTarget { close() {} }; // it never opens
			new MutationObserver(([{ target }]) => { window.first ??= target.dataset.status }).observe(document, { subtree: true, attributeFilter: ["data-by"] })`)
		page.Open(s.URL + "/acme/g1")
		page.Until(`window.first !== undefined`)
		if first := browsertest.Eval[string](page, `window.first`); first != "catching-up" {
			t.Errorf("its script first says %s", first)
		}
	})

	t.Run("RetryNowAndTheNetworkReturningConnectAtOnce", func(t *testing.T) {
		t.Parallel()
		s, page, k := open(t)
		k.send(snap("g1", 1, false, line(1, 1)))
		until(page, 1)
		k.send(object{"t": "bye", "after_ms": 600_000, "spread_ms": 0})
		k.close(4000, "draining")
		chip(page, "reconnecting")
		page.Until(`/Reconnecting in \d+ s/.test(document.getElementById("status").textContent)`)
		page.Do(`document.querySelector("#banner button").click()`)
		k = s.socket()
		k.sub("g1")
		k.send(object{"t": "bye", "after_ms": 600_000, "spread_ms": 0})
		k.close(4000, "draining")
		chip(page, "reconnecting")
		page.Do(`dispatchEvent(new Event("online"))`)
		s.socket().sub("g1")
	})

	t.Run("LookedAtAgainOrTakenOutOfTheCacheItConnectsAtOnce", func(t *testing.T) {
		t.Parallel()
		s, page, k := open(t)
		k.send(snap("g1", 1, false, line(1, 1)))
		until(page, 1)
		for _, event := range []string{`document.dispatchEvent(new Event("visibilitychange"))`, `dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }))`} {
			k.send(object{"t": "bye", "after_ms": 600_000, "spread_ms": 0})
			k.close(4000, "draining")
			chip(page, "reconnecting")
			page.Do(event)
			k = s.socket()
			k.sub("g1")
		}
	})

	t.Run("WithoutANetworkItSaysOffline", func(t *testing.T) {
		t.Parallel()
		s, page, k := open(t)
		k.send(snap("g1", 1, false, line(1, 1)))
		until(page, 1)
		page.Do(`Object.defineProperty(navigator, "onLine", { configurable: true, value: false })`)
		k.send(object{"t": "bye", "after_ms": 600_000, "spread_ms": 0})
		k.close(4000, "draining")
		chip(page, "offline")
		later(page, 14_000)
		page.Until(`document.getElementById("banner").checkVisibility() && document.getElementById("banner").textContent.startsWith("You are offline")`)
		until(page, 1)
		page.Do(`delete navigator.onLine; dispatchEvent(new Event("online"))`)
		k = s.socket()
		k.sub("g1")
		k.send(delta("g1", 1, 2, line(2, 2)))
		until(page, 2, 1)
		chip(page, "live")
	})

	t.Run("WhoSleptSeesWhatCameMeanwhileAndWhereItBegins", func(t *testing.T) {
		t.Parallel()
		s, page, k := open(t)
		k.send(snap("g1", 2, false, down(2, 1)...))
		until(page, 2, 1)
		page.Do(`window.asleep = true; Object.defineProperty(document, "hidden", { get: () => asleep }); document.dispatchEvent(new Event("visibilitychange"))`)
		k.drop()
		later(page, 3_600_000)
		page.Do(`window.asleep = false; document.dispatchEvent(new Event("visibilitychange"))`)
		k = s.socket()
		if since := k.sub("g1"); since != "e1:2" {
			t.Errorf("it resumes from %q", since)
		}
		page.Do(`window.asleep = true; document.dispatchEvent(new Event("visibilitychange"))`)
		k.send(delta("g1", 2, 4, line(3, 3), line(4, 4)))
		page.Until(`document.title.startsWith("(2) ")`)
		page.Do(`window.asleep = false; document.dispatchEvent(new Event("visibilitychange"))`)
		until(page, 4, 3, 2, 1)
		page.Until(row(2) + `.matches("[data-seen]") && getComputedStyle(` + row(2) + `, "::after").content.includes("New above")`)
	})

	t.Run("AfterByeItStaysAndComesBackInTheWindowGiven", func(t *testing.T) {
		t.Parallel()
		s, page, k := open(t)
		k.send(snap("g1", 1, false, line(1, 1)))
		until(page, 1)
		k.send(object{"t": "bye", "after_ms": 400, "spread_ms": 200}, live("g1", 1, 2, line(2, 2)))
		until(page, 2, 1)
		if got := s.socket().sub("g1"); got != "e1:2" {
			t.Errorf("it resumes from %q, want e1:2", got)
		}
	})

	t.Run("AFinalCloseIsFinal", func(t *testing.T) {
		t.Parallel()
		s, page, k := open(t)
		k.send(snap("g1", 1, false, line(1, 1)))
		until(page, 1)
		k.close(4500, "malformed")
		chip(page, "refused")
		later(page, 2_000)
		page.Until(`!document.getElementById("banner").hidden && document.getElementById("banner").textContent.includes("malformed")`)
		page.Do(`dispatchEvent(new Event("focus")); document.dispatchEvent(new Event("visibilitychange"))`)
		beat(page)
		beat(page)
		if len(s.sockets) > 0 {
			t.Error("the page came back")
		}
		until(page, 1)
	})

	t.Run("FramesThatCannotBeReadOrAreOfNobodyHarmNothing", func(t *testing.T) {
		t.Parallel()
		_, page, k := open(t)
		k.send(snap("g1", 1, false, line(1, 1)), object{"t": "lines", "g": "elsewhere", "epoch": "e1", "from": 0, "to": 9, "lines": []object{line(9, 9)}}, object{"t": "future", "g": "g1"}, object{})
		k.text(`{"t":`)
		k.text(`null`)
		k.text(`7`)
		k.send(live("g1", 1, 2, line(2, 2)))
		until(page, 2, 1)
	})
}
