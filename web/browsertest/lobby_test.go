package browsertest_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/codemojex/feedrenderer/web/browsertest"
)

func TestLobby(t *testing.T) {
	t.Parallel()
	browsertest.Browser(t)

	lobby := func(t *testing.T, games ...string) (*site, *browsertest.Page, *socket) {
		s := newSite(t)
		page := browsertest.Tab(t)
		list := []object{}
		for _, game := range games {
			list = append(list, header(game, 1))
		}
		s.answer(object{"games": list, "more": false})
		page.Open(s.URL + "/acme/")
		return s, page, s.socket()
	}
	card := func(game, inside string) string {
		return fmt.Sprintf(`document.querySelector("[data-game=%s] %s")`, game, inside)
	}

	t.Run("FiveGamesShareOneSocketAndAllResume", func(t *testing.T) {
		t.Parallel()
		games := []string{"g1", "g2", "g3", "g4", "g5"}
		s, page, k := lobby(t, games...)
		for i, game := range games {
			k.sub(game)
			k.send(snap(game, 1, true, line(i+1, 1)))
		}
		for i, game := range games {
			page.Until(card(game, ".card-line p") + fmt.Sprintf(`.textContent === "player%d scored %d %%"`, i+1, i+1))
		}
		k.send(live("g3", 1, 2, with(line(50, 2), "text", hostile)))
		page.Until(card("g3", ".card-line p") + `.textContent === "` + hostile + `"`)
		k.drop()
		k = s.socket()
		for _, game := range games {
			want := "e1:1"
			if game == "g3" {
				want = "e1:2"
			}
			if got := k.sub(game); got != want {
				t.Errorf("%s resumes from %q, want %q", game, got, want)
			}
			k.send(delta(game, 1, 3, with(line(60, 3), "text", game+" goes on")))
		}
		for _, game := range games {
			page.Until(card(game, ".card-line p") + fmt.Sprintf(`.textContent === "%s goes on"`, game))
		}
		if len(s.sockets) > 0 {
			t.Error("there is more than one socket")
		}
	})

	t.Run("AGameThatEndsMovesToTheOthersThatAreOver", func(t *testing.T) {
		t.Parallel()
		_, page, k := lobby(t, "g1", "g2")
		k.sub("g1")
		k.sub("g2")
		k.send(snap("g1", 1, false, line(1, 1)), snap("g2", 1, false, line(2, 1)))
		page.Until(`document.querySelectorAll("#running .card").length === 2`)
		k.send(live("g1", 1, 2), object{"t": "game", "g": "g1", "game": with(header("g1", 2), "status", "settled")})
		page.Until(`document.querySelector("#over .card").dataset.game === "g1" && document.querySelectorAll("#running .card").length === 1`)
	})

	t.Run("LongNamesAndDoubleSizeBreakNoCardAndAllIsReadByDayAndByNight", func(t *testing.T) {
		t.Parallel()
		_, page, k := lobby(t, "g1", "g2")
		page.Prefers("reduced-motion", "reduce")
		k.sub("g1")
		k.sub("g2")
		long := strings.Repeat("W", 200)
		k.send(with(snap("g1", 2, true, with(line(1, 1), "actor", long, "text", long+" scored 7 %")), "game", with(header("g1", 2), "title", long, "mode", "golden", "pool", strings.Repeat("9", 60), "board", []object{{"player": long, "score": 600}})))
		k.send(with(snap("g2", 2, true, retracted(2, 2, long)), "game", with(header("g2", 2), "status", "settled", "mode", "blind", "title", "قط_فضائي")))
		page.Until(`document.querySelectorAll(".card-line[data-state]").length === 2`)
		for _, width := range []int64{1280, 640, 320} {
			page.Size(width, 700)
			if got := browsertest.Eval[string](page, `[document.scrollingElement, ...document.querySelectorAll(".card, .card-line, .card-facts, .top")].filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.className || each.tagName).join(" ")`); got != "" {
				t.Errorf("at %d px too wide: %s", width, got)
			}
		}
		for _, scheme := range []string{"light", "dark"} {
			page.Prefers("color-scheme", scheme)
			if bad := browsertest.Eval[string](page, contrast); bad != "" {
				t.Errorf("%s:\n%s", scheme, bad)
			}
		}
	})

	t.Run("WithoutGamesItSaysSo", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		page := browsertest.Tab(t)
		s.answer(object{"games": []object{}, "more": false})
		page.Open(s.URL + "/acme/")
		page.Until(`document.getElementById("notice").dataset.notice === "empty" && document.getElementById("plain") === null`)
		if text := browsertest.Eval[string](page, "document.body.innerText"); strings.Contains(text, "Reconnecting") {
			t.Errorf("it says %q", text)
		}
	})

	t.Run("OfSixHundredGamesOnlyThoseNearTheScreenAreFollowed", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		name := func(n int) string { return fmt.Sprintf("g%04d", n) }
		s.reply = func(uri string) any {
			address, err := url.Parse(uri)
			if err != nil {
				t.Error(err)
				return nil
			}
			query := address.Query()
			list := []object{}
			switch status := query.Get("status"); {
			case status == "open":
				list = append(list, with(header(name(600), 1), "started_at", "2026-01-02T03:04:05.000Z"))
			case status == "":
				from := 1
				if after := query.Get("after"); after != "" {
					if _, err := fmt.Sscanf(after, "g%d", &from); err != nil {
						t.Error(err)
					}
					from++
				}
				for n := from; n < from+100; n++ {
					list = append(list, with(header(name(n), 1), "status", "settled"))
				}
				return object{"games": list, "more": from < 501}
			}
			return object{"games": list, "more": false}
		}
		page := browsertest.Tab(t)
		page.Before(`window.follows = new Set(); const { send } = WebSocket.prototype; WebSocket.prototype.send = function (text) {
			const { t, g } = JSON.parse(text);
			if (t === "sub") follows.add(g); else if (t === "unsub") follows.delete(g);
			window.most = Math.max(window.most ?? 0, follows.size);
			send.call(this, text);
		}`)
		page.Open(s.URL + "/acme/")
		page.Until(`document.querySelectorAll(".card").length === 101`)
		// The one that goes on is there, though it stands on the last page of the list.
		page.Until(`document.querySelector("#running .card").dataset.game === "g0600" && follows.has("g0600") && follows.has("g0001")`)
		for n := 2; n <= 6; n++ {
			page.Do(`document.getElementById("more").click()`)
			page.Until(fmt.Sprintf(`document.querySelectorAll(".card").length === %d`, min(600, 100*n+1)))
		}
		page.Until(`document.getElementById("more").hidden`)
		page.Do(`document.querySelector("[data-game=g0599]").scrollIntoView()`)
		page.Until(`follows.has("g0599") && !follows.has("g0001")`)
		if most := browsertest.Eval[int](page, "most"); most > 60 {
			t.Errorf("%d games were followed at a time", most)
		}
	})
}
