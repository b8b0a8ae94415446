package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

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

// TestAGameOfTenThousandLinesOpensLikeASmallOne compares the two in the same minute, whatever else the machine does.
func TestAGameOfTenThousandLinesOpensLikeASmallOne(t *testing.T) {
	t.Parallel()
	s := newSystem(t, serverstest.OwnValkey(t).URL)
	serving := s.serve("render,web", "--tenants", "acme").ready()
	sizes := map[string]int{"small": 100, "large": 10_000}
	for game, size := range sizes {
		stream := "emq:{acme}:stream:" + game
		s.xadd(stream, "kind", "opened", "mode", "classic")
		for done := 1; done < size; {
			var batch []valkey.Completed
			for ; done < size && len(batch) < 500; done++ {
				batch = append(batch, s.client.B().Arbitrary("XADD").Keys(stream).Args("*", "kind", "scored", "player", fmt.Sprintf("p%d", done%300), "pct", fmt.Sprint(done%100)).Build())
			}
			for _, reply := range s.client.DoMulti(t.Context(), batch...) {
				if err := reply.Error(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	reader := s.reader()
	for game, size := range sizes {
		until(t, "all lines of "+game+" are there", func() bool {
			head, err := reader.Game(t.Context(), feed.GameKey{Tenant: "acme", Game: feed.GameID(game)})
			return err == nil && head.Counts.Lines == int64(size)
		})
	}
	page := browsertest.Tab(t)
	page.Before(`addEventListener("DOMContentLoaded", () => {
		const feed = document.getElementById("feed");
		new MutationObserver(() => feed.querySelector("article[tabindex]") && (window.opened ??= performance.now())).observe(feed, { childList: true });
	})`)
	took := map[string][]time.Duration{}
	for range 5 {
		for game := range sizes {
			page.Open("http://" + serving.public + "/acme/" + game)
			page.Until(`document.querySelectorAll("#feed > article").length === 100 && document.getElementById("status").dataset.status === "live" && window.opened`)
			took[game] = append(took[game], time.Duration(browsertest.Eval[float64](page, "opened")*float64(time.Millisecond)))
		}
	}
	small, large := median(took["small"]), median(took["large"])
	t.Logf("from the address to live rows: %v of 10000 lines, %v of 100 (ratio %.1f)", large.Round(time.Millisecond), small.Round(time.Millisecond), large.Seconds()/small.Seconds())
	if large > 2*small+time.Second/2 {
		t.Errorf("large ones open slowly: %v, small ones %v", took["large"], took["small"])
	}
}

// TestThePagesOfAPrivateTenantAreOpenedByTokensAlone goes the whole way in a real browser.
func TestThePagesOfAPrivateTenantAreOpenedByTokensAlone(t *testing.T) {
	t.Parallel()
	s := newSystem(t, serverstest.Valkey(t))
	const tenant, foreign = "door-a", "door-b"
	for _, id := range []string{tenant, foreign} {
		s.run("tenant", "create", id)
	}
	key, elsewhere := s.run("key", "create", tenant, "watch"), s.run("key", "create", foreign, "watch")
	serving := s.serve("render,web").ready()
	site := "http://" + serving.public
	const stream = "emq:{" + tenant + "}:stream:g1"
	s.xadd(stream, "kind", "opened", "mode", "classic")
	scored := s.xadd(stream, "kind", "scored", "player", "alex", "pct", "87")

	mint := func(body string) string {
		t.Helper()
		status, answer := browse(t, http.MethodPost, site+"/v1/tenants/"+tenant+"/watch-tokens", key, body)
		var minted struct{ Token string }
		if err := json.Unmarshal([]byte(answer), &minted); err != nil || status != http.StatusCreated {
			t.Fatalf("minting: %d %s", status, answer)
		}
		return minted.Token
	}
	const asked = `document.getElementById("token").checkVisibility()`
	enter := func(page *browsertest.Page, token string) {
		t.Helper()
		page.Until(asked)
		page.Do(fmt.Sprintf(`document.getElementById("token").value = %q; document.querySelector("#door button").click()`, token))
	}
	whole := mint(`{}`)

	t.Run("WithoutOneTheyAreThePagesOfWhatIsNotThere", func(t *testing.T) {
		t.Parallel()
		page := browsertest.Tab(t)
		page.Open(site + "/" + tenant + "/g1")
		page.Until(asked)
		if text := browsertest.Eval[string](page, `document.documentElement.outerHTML`); strings.Contains(text, tenant) || strings.Contains(text, "alex") {
			t.Errorf("it tells: %s", text)
		}
		_, unknown := browse(t, http.MethodGet, site+"/nobody/g1", "", "")
		if _, body := browse(t, http.MethodGet, site+"/"+tenant+"/g1", "", ""); body != unknown || !strings.Contains(body, "door") {
			t.Errorf("got %s, want what an unknown game has: %s", body, unknown)
		}
	})

	t.Run("WithOneTheLobbyAndItsGamesAreLive", func(t *testing.T) {
		t.Parallel()
		page := browsertest.Tab(t)
		page.Open(site + "/" + tenant + "/#token=" + whole)
		page.Until(`document.querySelector("[data-game=g1] .card-line p").textContent.match(/^(alex scored 87 %|meanwhile)$/)`)
		page.Open(browsertest.Eval[string](page, `document.querySelector("[data-game=g1]").href`))
		untilRow(page, scored, "alex scored 87 %", "live")
		if at := browsertest.Eval[string](page, `location.href`); at != site+"/"+tenant+"/g1" {
			t.Errorf("the page is at %s", at)
		}
	})

	t.Run("OneOfAnotherGameOrTenantOpensNothing", func(t *testing.T) {
		t.Parallel()
		for _, token := range []string{mint(`{"games": ["g2"]}`), elsewhere} {
			page := browsertest.Tab(t)
			page.Open(site + "/" + tenant + "/g1#token=" + token)
			page.Until(asked + ` && /opens nothing|of its own/.test(document.getElementById("door-why").textContent)`)
			enter(page, whole)
			untilRow(page, scored, "alex scored 87 %", "live")
			page.Until(`!` + asked)
		}
	})

	t.Run("OneThatRunsOutIsAskedForAgainAndNothingIsMissed", func(t *testing.T) {
		t.Parallel()
		page := browsertest.Tab(t)
		page.Open(site + "/" + tenant + "/g1")
		enter(page, mint(`{"games": ["g1"], "expires_in": "4s"}`))
		untilRow(page, scored, "alex scored 87 %", "live")
		page.Until(asked + ` && document.getElementById("door-why").textContent.includes("run out")`)
		untilRow(page, scored, "alex scored 87 %", "live")
		missed := s.xadd(stream, "kind", "notice", "text", "meanwhile")
		enter(page, whole)
		untilRow(page, missed, "meanwhile", "live")
	})

	t.Run("OneThatIsRevokedIsNoneAnyMore", func(t *testing.T) {
		t.Parallel()
		revoked := s.run("key", "create", tenant, "watch")
		page := browsertest.Tab(t)
		page.Open(site + "/" + tenant + "/g1#token=" + revoked)
		untilRow(page, scored, "alex scored 87 %", "live")
		s.run("key", "revoke", tenant, strings.Split(revoked, "_")[2])
		page.Until(asked + ` && document.getElementById("door-why").textContent.includes("revoked")`)
		page.Open(site + "/" + tenant + "/g1?again")
		page.Until(asked)
	})

	t.Cleanup(func() {
		if said := serving.stderr.String() + serving.stdout.String(); strings.Contains(said, whole) || strings.Contains(said, strings.Split(key, "_")[3]) {
			t.Errorf("a secret stands in the log: %s", said)
		}
	})
}

// TestAPageSaysWhatKeepsItFromWatchingAndGoesOnByItself is about a tenant that is suspended, or has no place left.
func TestAPageSaysWhatKeepsItFromWatchingAndGoesOnByItself(t *testing.T) {
	t.Parallel()
	s := newSystem(t, serverstest.Valkey(t))
	const tenant = "narrow"
	s.run("tenant", "create", tenant, "--public")
	s.run("tenant", "change", tenant, "--max-sockets", "1")
	serving := s.serve("render,web").ready()
	const stream = "emq:{" + tenant + "}:stream:g1"
	s.xadd(stream, "kind", "opened", "mode", "classic")
	said := s.xadd(stream, "kind", "notice", "text", "hello")
	address := "http://" + serving.public + "/" + tenant + "/g1"
	notice := func(page *browsertest.Page, name string) {
		t.Helper()
		page.Until(fmt.Sprintf(`document.getElementById("notice").dataset.notice === %q`, name))
	}

	first, second := browsertest.Tab(t), browsertest.Tab(t)
	first.Open(address)
	untilRow(first, said, "hello", "live")
	first.Until(`document.getElementById("status").dataset.status === "live"`)
	second.Open(address)
	notice(second, "full")
	s.run("tenant", "change", tenant, "--max-sockets", "10")
	second.Until(`document.getElementById("notice").hidden && document.getElementById("status").dataset.status === "live"`)

	s.run("tenant", "suspend", tenant)
	notice(first, "suspended")
	untilRow(first, said, "hello", "live")
	s.run("tenant", "resume", tenant)
	after := s.xadd(stream, "kind", "notice", "text", "after it")
	untilRow(first, after, "after it", "live")
	first.Until(`document.getElementById("notice").hidden`)
}

// browse asks as a browser does, with a key or none.
func browse(t *testing.T, method, url, key, body string) (status int, answer string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/html")
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	out, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(out)
}

func rowText(page *browsertest.Page, id feed.ID) string {
	return browsertest.Eval[string](page, fmt.Sprintf(`document.querySelector("#%s .text").textContent`, id))
}

func untilRow(page *browsertest.Page, id feed.ID, text, state string) {
	page.Until(fmt.Sprintf(`(row => row && row.dataset.state === %q && row.querySelector(".text").textContent === %q)(document.getElementById(%q))`, state, text, id))
}
