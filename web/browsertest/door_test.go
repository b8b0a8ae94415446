package browsertest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/codemojex/feedrenderer/web/browsertest"
)

// auth waits for the page's next frame, which must show that token.
func (k *socket) auth(token string) {
	k.t.Helper()
	if frame := k.take(); frame["t"] != "auth" || frame["token"] != token {
		k.t.Fatalf("the page sent %v, want an auth with %s", frame, token)
	}
}

// enter gives the door a token, as a reader does.
func enter(page *browsertest.Page, token string) {
	page.Until(`document.getElementById("token").checkVisibility()`)
	page.Do(fmt.Sprintf(`document.getElementById("token").value = %q; document.querySelector("#door button").click()`, " "+token+" "))
}

// asks waits until the page asks for a token, with words of why.
func asks(page *browsertest.Page, why string) {
	page.Until(fmt.Sprintf(`document.getElementById("door").checkVisibility() && document.getElementById("door-why").textContent.includes(%q)`, why))
}

const admitted = `!document.getElementById("door").checkVisibility()`

// TestDoor is about pages that are not for everybody.
func TestDoor(t *testing.T) {
	t.Parallel()
	browsertest.Browser(t)

	private := func(t *testing.T, path string) (*site, *browsertest.Page) {
		s := newSite(t)
		page := browsertest.Tab(t)
		page.Open(s.URL + "/private/" + path)
		return s, page
	}

	t.Run("WithoutATokenItSaysNothingAndConnectsToNothing", func(t *testing.T) {
		t.Parallel()
		s, page := private(t, "g1")
		asks(page, "not for everybody")
		if got := browsertest.Eval[string](page, `document.body.innerText + document.title`); strings.Contains(got, "private") || strings.Contains(got, "g1") {
			t.Errorf("the page names what it is of: %s", got)
		}
		if got := browsertest.Eval[string](page, `[...document.querySelectorAll(".chip, .tool, .skeleton, #facts, #board, #end")].filter((each) => each.checkVisibility() && each.childElementCount).map((each) => each.id).join(" ")`); got != "" {
			t.Errorf("of the page behind the door is shown: %s", got)
		}
		for _, scheme := range []string{"light", "dark"} {
			page.Prefers("color-scheme", scheme)
			if bad := browsertest.Eval[string](page, contrast); bad != "" {
				t.Errorf("%s, hard to read: %s", scheme, bad)
			}
		}
		if len(s.sockets) > 0 || len(s.requests(0)) > 0 {
			t.Error("it asked the server")
		}
	})

	t.Run("ATokenOpensItAndStandsInNoAddress", func(t *testing.T) {
		t.Parallel()
		s, page := private(t, "g1")
		enter(page, "t0ken")
		k := s.socket()
		k.auth("t0ken")
		k.sub("g1")
		k.send(snap("g1", 300, true, down(300, 201)...))
		page.Until(row(300) + ` && ` + admitted)
		chip(page, "live")
		if got := browsertest.Eval[string](page, `[document.querySelector("#back").getAttribute("href"), document.querySelector("#back").textContent, document.getElementById("title").textContent].join(" ")`); got != "/private/ private Room g1" {
			t.Errorf("it is called %q", got)
		}
		scroll(page, "document.body.scrollHeight")
		s.answer(object{"lines": down(200, 101), "more": false, "cursor": "e1:300"})
		page.Until(row(200))
		s.mu.Lock()
		asked, shown := s.asked[0], s.shown[0]
		s.mu.Unlock()
		if shown != "Bearer t0ken" || strings.Contains(asked+browsertest.Eval[string](page, "location.href"), "t0ken") {
			t.Errorf("%s was asked for with %q", asked, shown)
		}
		// The tab keeps it; a line's address works as anywhere.
		page.Open(s.URL + "/private/g1?again#" + evt(300))
		k = s.socket()
		k.auth("t0ken")
		k.sub("g1")
		k.send(snap("g1", 300, false, down(300, 299)...))
		page.Until(row(300) + `?.matches("[data-target]:focus")`)
		other := browsertest.Tab(t)
		other.Open(s.URL + "/private/g1")
		asks(other, "not for everybody")
	})

	t.Run("ATokenOfALinkLeavesTheAddressAtOnce", func(t *testing.T) {
		t.Parallel()
		s, page := private(t, "g1?kind=scored#token=t0ken")
		k := s.socket()
		k.auth("t0ken")
		k.sub("g1")
		if got := browsertest.Eval[string](page, `location.pathname + location.search + location.hash + history.length`); strings.Contains(got, "t0ken") || !strings.HasPrefix(got, "/private/g1?kind=scored") {
			t.Errorf("the address says %s", got)
		}
		page.Do(`location.hash = "token=an0ther"`)
		page.Until(`location.hash === ""`)
		k.auth("an0ther")
		page.Open(s.URL + "/private/g1")
		s.socket().auth("an0ther")
		page.Open(s.URL + "/acme/g1#token=t0ken") // a page for everybody needs none
		k = s.socket()
		k.sub("g1")
		k.send(snap("g1", 1, false, line(1, 1)))
		page.Until(row(1) + ` && location.hash === "" && ` + admitted)
	})

	t.Run("WhoseTokenRunsOutIsAskedForAnotherAndMissesNothing", func(t *testing.T) {
		t.Parallel()
		s, page := private(t, "g1#token=old")
		k := s.socket()
		k.auth("old")
		k.sub("g1")
		k.send(snap("g1", 2, false, down(2, 1)...))
		until(page, 2, 1)
		k.close(4004, "expired: the token has run out, come back with another")
		k = s.socket()
		k.auth("old")
		k.close(4504, "credential: the key or token is malformed, expired or revoked")
		asks(page, "run out")
		chip(page, "refused")
		until(page, 2, 1)
		if !browsertest.Eval[bool](page, `document.getElementById("banner").hidden`) {
			t.Error("two things are asked of the reader at a time")
		}
		beat(page)
		if len(s.sockets) > 0 {
			t.Error("it came back with a token that was refused")
		}
		enter(page, "new")
		k = s.socket()
		k.auth("new")
		if since := k.sub("g1"); since != "e1:2" {
			t.Errorf("it resumes from %q", since)
		}
		k.send(delta("g1", 2, 3, line(3, 3)))
		until(page, 3, 2, 1)
		page.Until(admitted)
	})

	t.Run("ATokenForSomethingElseOpensNothing", func(t *testing.T) {
		t.Parallel()
		s, page := private(t, "g1#token=elsewhere")
		k := s.socket()
		k.auth("elsewhere")
		k.sub("g1")
		k.send(refusal("not_found"))
		asks(page, "opens nothing here")
		k.close(4503, "unproven: no key or token that is good for this tenant")
		asks(page, "a token of its own")
		enter(page, "right")
		k = s.socket()
		k.auth("right")
		k.sub("g1")
		k.send(snap("g1", 1, false, line(1, 1)))
		until(page, 1)
		page.Until(admitted)
	})

	t.Run("APageForEverybodyThatIsSoNoMoreKeepsWhatItShowsAndAsks", func(t *testing.T) {
		t.Parallel()
		s, page, k := open(t)
		k.send(snap("g1", 1, false, line(1, 1)), refusal("not_found"))
		noticed(page, "gone")
		k.close(4503, "unproven: no key or token that is good for this tenant")
		asks(page, "a token of its own")
		until(page, 1)
		enter(page, "t0ken")
		k = s.socket()
		k.auth("t0ken")
		k.sub("g1")
	})

	t.Run("WithoutASocketATokenIsRefusedAlike", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		s.blocked.Store(true)
		s.polls.Store(true)
		page := browsertest.Tab(t)
		page.Before(atOnce)
		page.Open(s.URL + "/private/g1#token=old")
		s.requests(1)
		s.answers <- func(w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) }
		asks(page, "run out")
	})

	t.Run("ATokenOpensTheLobbyAndTheGamesFromThere", func(t *testing.T) {
		t.Parallel()
		s, page := private(t, "")
		enter(page, "narrow")
		s.requests(1)
		s.answers <- func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }
		asks(page, "opens nothing here")
		enter(page, "t0ken")
		s.requests(2)
		s.answer(object{"games": []object{header("g1", 1)}, "more": false})
		k := s.socket()
		k.auth("t0ken")
		k.sub("g1")
		k.send(snap("g1", 1, false, line(1, 1)))
		page.Until(`document.querySelector("[data-game=g1] .card-line p").textContent === "player1 scored 1 %" && ` + admitted)
		page.Do(`document.querySelector("[data-game=g1]").click()`)
		k = s.socket()
		k.auth("t0ken")
		k.sub("g1")
	})
}
