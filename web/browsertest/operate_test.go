package browsertest_test

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/codemojex/feedrenderer/web/browsertest"
)

// desk serves the operators' page, and lets the test be the server behind it: it takes the page's sockets and answers for
// its dead letters, which are the test's.
type desk struct {
	*site
	mu      sync.Mutex // guards what follows
	letters []object
	done    []string // what was asked for but lists: method, path and credential
	down    bool     // nothing is answered
}

func newDesk(t *testing.T, letters ...object) *desk {
	t.Helper()
	d := &desk{site: &site{t: t, sockets: make(chan *socket, 16)}, letters: letters}
	pages, err := template.ParseGlob("../templates/*.html")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /static/", http.StripPrefix("/static/", http.FileServerFS(os.DirFS("../static"))))
	mux.HandleFunc("GET /acme/-/operate", func(w http.ResponseWriter, _ *http.Request) { d.page(w, pages, "operate.html", nil) })
	mux.HandleFunc("GET /v1/tenants/acme/live", d.live)
	mux.HandleFunc("/v1/tenants/acme/streams/", d.rest)
	d.Server = httptest.NewServer(mux)
	t.Cleanup(d.Close)
	return d
}

// rest lists the letters, and takes away what is retried or dropped.
func (d *desk) rest(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	var answer any = object{"dead_letters": nonNil(d.letters)}
	if r.Method != http.MethodGet {
		d.done = append(d.done, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Authorization"))
		n := len(d.letters)
		d.letters = slices.DeleteFunc(d.letters, func(l object) bool {
			return strings.HasSuffix(strings.TrimSuffix(r.URL.Path, "/retry"), "/"+l["id"].(string)) || r.URL.Query().Get("all") == "true"
		})
		answer = object{"done": n - len(d.letters), "more": false}
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		d.t.Error(err)
	}
}

func (d *desk) asked() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.done)
}

// enter opens the page and gives it a key, which it shows to the socket at once.
func (d *desk) enter(page *browsertest.Page) *socket {
	d.t.Helper()
	page.Open(d.URL + "/acme/-/operate")
	page.Until(`!document.querySelector("#gate").hidden && document.activeElement.id === "key"`)
	page.Type("fr_key" + kb.Enter)
	return d.operated()
}

func (d *desk) operated() *socket {
	d.t.Helper()
	k := d.socket()
	if frame := k.take(); frame["t"] != "auth" || frame["token"] != "fr_key" {
		d.t.Fatalf("the page sent %v, want its key", frame)
	}
	if frame := k.take(); frame["t"] != "operate" {
		d.t.Fatalf("the page sent %v, want operate", frame)
	}
	return k
}

func letter(n int, kind string, pairs ...any) object {
	at := time.Now().Add(-3 * time.Hour).UTC().Format("2006-01-02T15:04:05.000Z")
	return with(object{
		"id": fmt.Sprintf("179605263969%d-0", n), "game": "g1", "evt": evt(n), "entry": fmt.Sprintf("179605263969%d-0", n), "kind": kind, "reason": "target: missing",
		"attempts": 5, "at": at, "delivered_at": at, "consumer": "r1", "past": []object{}, "more_fields": false,
		"fields": []object{{"name": "kind", "value": kind, "bytes": len(kind)}, {"name": "text", "value": hostile, "bytes": 9000}},
	}, pairs...)
}

func streamRow(game string, pairs ...any) object {
	return with(object{
		"tenant": "acme", "game": game, "stream": "emq:{acme}:stream:" + game, "degraded": false, "reasons": []string{}, "length": 1000, "lag": 0, "lost": 0, "pending": 0,
		"oldest_pending_seconds": 0, "oldest_idle_seconds": 0, "oldest_deliveries": 0, "oldest_unread_seconds": 0, "dead_letters": 0, "alive": 2, "dead": 0,
	}, pairs...)
}

// groupFrame is a frame of a group with two replicas that is well.
func groupFrame(rows []object, totals ...any) object {
	now := time.Now().UTC()
	samples := []object{}
	for i := range 240 {
		if i/20 == 5 {
			continue // nobody looked for five minutes
		}
		sample := object{
			"at": now.Add(time.Duration(i-240) * 15 * time.Second).Format("2006-01-02T15:04:05.000Z"), "pending": i % 7, "oldest_pending_seconds": float64(i%9) / 20, "dead_letters": 0,
			"settled_per_second": float64(40 + i%25),
		}
		if i%40 != 0 {
			sample["commit_p50_seconds"], sample["commit_p99_seconds"] = .004+float64(i%5)/2000, .02+float64(i%11)/500
		}
		samples = append(samples, sample)
	}
	return object{
		"t": "streams", "at": now.Format("2006-01-02T15:04:05.000Z"), "samples": samples,
		"group": object{
			"name": "feedrenderer", "more": 0, "streams": rows,
			"replicas": []object{
				{"name": "r1", "alive": true, "streams": len(rows), "pending": 0, "idle_seconds": 0.2},
				{"name": "r2", "alive": true, "streams": len(rows), "pending": 0, "idle_seconds": 0.1},
			},
			"totals": with(object{
				"streams": len(rows), "degraded": 0, "faults": 0, "pending": 0, "lag": 0, "lag_unknown": 0, "lost": 0, "dead_letters": 0, "oldest_pending_seconds": 0,
				"oldest_unread_seconds": 0, "alive": 2, "dead": 0,
			}, totals...),
		},
	}
}

// orphaned is a frame of the group: read under names of the dead, and never settled.
func orphaned() object {
	const weeks = 21 * 24 * 3600
	f := groupFrame([]object{
		streamRow("g1", "degraded", true, "pending", 952, "oldest_pending_seconds", weeks, "oldest_deliveries", 3, "alive", 0, "dead", 17,
			"reasons", []string{"952 pending, the oldest 21d0h old; names: 0 alive, 17 dead"}),
		streamRow("g2", "lag", 12, "oldest_unread_seconds", 3),
	}, "pending", 952, "oldest_pending_seconds", weeks, "degraded", 1, "alive", 0, "dead", 17, "lag", 12)
	replicas := []object{}
	for i := range 17 {
		replicas = append(replicas, object{"name": fmt.Sprint("gone-", i), "alive": false, "streams": 1, "pending": 56, "idle_seconds": weeks})
	}
	f["group"].(object)["replicas"] = replicas
	return f
}

func TestOperatePage(t *testing.T) {
	t.Parallel()
	browsertest.Browser(t) // for all of them

	t.Run("KeepsTheKeyForTheTabAloneAndInNoAddress", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		page := browsertest.Tab(t)
		d.enter(page).send(groupFrame([]object{streamRow("g1")}))
		page.Until(`!document.querySelector("#figures").hidden && document.querySelector("#status").dataset.status === "live"`)
		if kept := browsertest.Eval[string](page, `JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie, location.href.includes("fr_key"), history.length])`); !strings.HasPrefix(kept, `[{"operate:acme":"fr_key"},{},"",false,`) {
			t.Errorf("kept: %s", kept)
		}
		page.Open(d.URL + "/acme/-/operate")
		d.operated().send(groupFrame([]object{streamRow("g1")}))
		page.Until(`!document.querySelector("#figures").hidden`)
		page.Do(`document.querySelector("#forget").click()`)
		page.Until(`!document.querySelector("#gate").hidden && document.querySelector("#figures").hidden && !sessionStorage.getItem("operate:acme")`)
	})

	t.Run("SaysThatAKeyIsNotGood", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		page := browsertest.Tab(t)
		d.enter(page).send(object{"t": "err", "code": "not_found", "msg": "no such game"})
		page.Until(`document.querySelector("#gate-said").textContent === "This key does not operate this tenant." && !sessionStorage.getItem("operate:acme")`)
		page.Type("fr_key" + kb.Enter)
		d.operated().close(4504, "credential: the key or token is malformed, expired or revoked")
		page.Until(`document.querySelector("#gate-said").textContent.includes("expired or revoked") && document.querySelector("#banner").hidden`)
	})

	t.Run("ShowsTheAgeOfTheOldestPendingAsTheLargestFigure", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		page := browsertest.Tab(t)
		k := d.enter(page)
		k.send(orphaned())
		page.Until(`document.querySelector("#oldest").textContent === "21 d 0 h" && document.querySelector("#hero").dataset.state === "bad"`)
		if larger := browsertest.Eval[string](page, `[...document.querySelectorAll("body *")].filter(node => node.id !== "oldest" && parseFloat(getComputedStyle(node).fontSize) * 1.5 > parseFloat(getComputedStyle(document.querySelector("#oldest")).fontSize)).map(node => node.outerHTML).join()`); larger != "" {
			t.Errorf("as large: %s", larger)
		}
		for where, want := range map[string]string{
			"#state": "No renderer runs, and events wait.", "#reasons": "952 pending, the oldest 21d0h old; names: 0 alive, 17 dead",
			"#replicas tbody": "gone-16", "#streams tbody": "delivery 3", "#tiles": "952",
		} {
			page.Until(fmt.Sprintf(`document.querySelector(%q).textContent.includes(%q)`, where, want))
		}
		if n := browsertest.Eval[int](page, `document.querySelectorAll("#replicas tbody tr").length`); n != 17 {
			t.Errorf("%d replicas", n)
		}
		k.send(groupFrame([]object{streamRow("g1"), streamRow("g2")}))
		page.Until(`document.querySelector("#oldest").textContent === "0 s" && document.querySelector("#state").textContent === "Nothing waits." && document.querySelector("#hero").dataset.state === "good"`)
		page.Until(`document.querySelectorAll("#replicas tbody tr").length === 2 && document.querySelector("#reasons").children.length === 0`)
	})

	t.Run("HasAWordForEachState", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		page := browsertest.Tab(t)
		k := d.enter(page)
		k.send(groupFrame([]object{}))
		page.Until(`document.querySelector("#notice h2").textContent === "No streams yet" && document.querySelector("#figures").hidden`)
		away := groupFrame([]object{streamRow("g1", "pending", 40)}, "pending", 40)
		group := away["group"].(object)
		group["eviction"] = "allkeys-lru"
		group["replicas"].([]object)[0]["store_away_since"] = "2026-11-30T12:00:00.000Z"
		k.send(away)
		page.Until(`document.querySelector("#reasons").textContent.includes("allkeys-lru") && document.querySelector("#reasons").textContent.includes("r1 cannot write lines") && document.querySelector("#replicas").textContent.includes("store away")`)
		k.send(object{"t": "err", "code": "unavailable", "msg": "the streams are not available now"})
		page.Until(`document.querySelector("#notice h2").textContent.includes("does not answer") && document.querySelector("#figures").dataset.stale === "true" && !document.querySelector("#figures").hidden`)
		k.send(groupFrame([]object{streamRow("g1")}))
		page.Until(`document.querySelector("#notice").hidden && document.querySelector("#figures").dataset.stale === "false"`)
		k.drop()
		page.Until(`document.querySelector("#figures").dataset.stale === "true" && document.querySelector("#status").dataset.status !== "live" && !document.querySelector("#figures").hidden`)
		d.operated().send(groupFrame([]object{streamRow("g1")}))
		page.Until(`document.querySelector("#figures").dataset.stale === "false" && document.querySelector("#status").dataset.status === "live"`)
	})

	t.Run("DrawsTheLastHourAndNothingWhereNobodyLooked", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		page := browsertest.Tab(t)
		k := d.enter(page)
		k.send(groupFrame([]object{streamRow("g1")}))
		page.Until(`document.querySelectorAll(".plot svg").length === 3 && document.querySelectorAll(".plot .curve").length === 4`)
		runs := browsertest.Eval[string](page, `[...document.querySelectorAll(".curve")].map(path => path.getAttribute("d").split("M").length - 1).join()`)
		if runs != "2,6,6,2" { // one gap; and where nothing was settled there is nothing that took time
			t.Errorf("runs of the curves: %s", runs)
		}
		page.Do(`document.querySelector("#plot-settled svg").focus()`)
		page.Type(kb.ArrowLeft)
		page.Until(`document.querySelector("#plot-settled figcaption").textContent.includes(" at ") && document.querySelector("#plot-settled b").textContent === "53"`)
		if label := browsertest.Eval[string](page, `document.querySelector("#plot-settled svg").getAttribute("aria-label")`); !strings.Contains(label, "Now 54, at most 64") {
			t.Errorf("it is said as %q", label)
		}
		k.send(with(groupFrame([]object{streamRow("g1")}), "samples", []object{{"at": time.Now().Add(time.Minute).UTC().Format("2006-01-02T15:04:05.000Z"), "pending": 0, "oldest_pending_seconds": 7, "dead_letters": 0, "settled_per_second": 90}}))
		page.Until(`document.querySelector("#plot-settled svg").getAttribute("aria-label").includes("Now 90, at most 90") && document.querySelector("#plot-oldest b").textContent === "7 s"`)
	})

	t.Run("RetriesAndDropsDeadLetters", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, letter(1, "cheered", "past", []object{{"at": "2026-11-30T09:00:00.000Z", "attempts": 2, "reason": "bad before"}}), letter(2, hostile), letter(3, "scored"))
		page := browsertest.Tab(t)
		k := d.enter(page)
		k.send(groupFrame([]object{streamRow("g1", "dead_letters", 3)}, "dead_letters", 3))
		page.Until(`document.querySelectorAll(".letter").length === 3`)
		for _, want := range []string{"cheered", "target: missing", "5 attempts, retried once", "bad before", hostile, "9,000 bytes", "3 h", evt(1)} {
			page.Until(fmt.Sprintf(`document.querySelector("#letters").textContent.includes(%q)`, want))
		}
		page.Do(`document.querySelector(".letter [data-act=retry]").focus()`)
		page.Type(kb.Enter)
		page.Until(`document.querySelectorAll(".letter").length === 2 && document.querySelector("#letters-said").textContent.startsWith("cheered is rendered once more") && document.activeElement.closest(".letter")`)
		page.Do(`document.querySelectorAll(".letter")[1].querySelector("[data-act=drop]").click()`)
		page.Until(`document.querySelector("[data-sure]").textContent === "Drop for good?"`)
		if got := d.asked(); len(got) != 1 {
			t.Errorf("asked too soon: %q", got)
		}
		page.Do(`document.querySelector("[data-sure]").click()`)
		page.Until(`document.querySelectorAll(".letter").length === 1 && document.querySelector("#letters-said").textContent === "scored was dropped."`)

		d.mu.Lock()
		d.down = true
		d.mu.Unlock()
		page.Do(`document.querySelector(".letter [data-act=retry]").click()`)
		page.Until(`document.querySelector("#letters-said").textContent.includes("Nothing was done: the server answered 503") && !document.querySelector(".letter [data-act=retry]").disabled`)
		k.send(groupFrame([]object{streamRow("g1", "dead_letters", 2)}, "dead_letters", 2))
		page.Until(`document.querySelector(".letters-trouble").textContent.includes("did not come: the server answered 503") && document.querySelector("#letters-said").textContent.includes("Nothing was done")`)
		d.mu.Lock()
		d.down = false
		d.mu.Unlock()
		k.send(groupFrame([]object{streamRow("g1", "dead_letters", 1)}, "dead_letters", 1))
		page.Until(`document.querySelector(".letters-trouble").textContent === "" && document.querySelector("#letters-said").textContent.includes("Nothing was done")`)
		page.Do(`for (let i = 0; i < 2; i++) document.querySelector("[data-act=retry-all]").click()`)
		page.Until(`document.querySelectorAll(".letter").length === 0 && document.querySelector("#letters-said").textContent.startsWith("1 of g1")`)
		const at = "/v1/tenants/acme/streams/g1/dead-letters"
		want := []string{
			"POST " + at + "/1796052639691-0/retry Bearer fr_key", "DELETE " + at + "/1796052639693-0 Bearer fr_key", "POST " + at + "/retry?all=true Bearer fr_key",
		}
		if got := d.asked(); !slices.Equal(got, want) {
			t.Errorf("asked for %q", got)
		}
	})

	t.Run("IsReadableInAnyLightAndOnAPhone", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, letter(1, strings.Repeat("long-", 40)), letter(2, "مرحبا"))
		page := browsertest.Tab(t)
		k := d.enter(page)
		for _, f := range []object{orphaned(), groupFrame([]object{streamRow("g1", "dead_letters", 2), streamRow(strings.Repeat("G", 64))}, "dead_letters", 2)} {
			k.send(f)
			page.Until(fmt.Sprintf(`document.querySelector("#tiles [data-name='Dead letters'] .tile-figure").textContent === "%v"`, f["group"].(object)["totals"].(object)["dead_letters"]))
			for _, light := range []string{"light", "dark"} {
				page.Prefers("color-scheme", light)
				if bad := browsertest.Eval[string](page, contrast); bad != "" {
					t.Errorf("%s: %s", light, bad)
				}
			}
		}
		page.Until(`document.querySelectorAll(".letter").length === 2`)
		for _, width := range []int64{320, 390, 1280} {
			page.Size(width, 800)
			page.Until(`document.documentElement.scrollWidth <= innerWidth`)
		}
	})
}
