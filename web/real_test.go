package web

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/broadcast"
	"github.com/codemojex/feedrenderer/feed/tenants"
	"github.com/codemojex/feedrenderer/feed/timeline"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
	"github.com/codemojex/feedrenderer/migrations"
	"github.com/codemojex/feedrenderer/watch"
)

// real is the whole way from a rendered line to the watchers, on real servers.
type real struct {
	t                *testing.T
	database, valkey string
	writer           *timeline.Writer
	reader           *timeline.Reader
	publisher        *broadcast.Publisher
	client           valkey.Client
}

func newReal(t *testing.T, database, url string, names ...feed.TenantID) *real {
	t.Helper()
	r := &real{t: t, database: database, valkey: url}
	render := r.pool(timeline.RoleRender)
	if err := tenants.NewStore(render).Ensure(t.Context(), names); err != nil {
		t.Fatal(err)
	}
	r.writer = timeline.NewWriter(render)
	r.reader = timeline.NewReader(r.pool(timeline.RoleWeb))
	r.client = r.dial(func(o valkey.ClientOption) valkey.ClientOption { return o })
	r.publisher = broadcast.NewPublisher(r.client)
	return r
}

func (r *real) pool(role timeline.Role) *pgxpool.Pool {
	r.t.Helper()
	pool, err := timeline.Open(r.t.Context(), r.database, role, 4)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(pool.Close)
	return pool
}

func (r *real) dial(shape func(valkey.ClientOption) valkey.ClientOption) valkey.Client {
	r.t.Helper()
	option, err := valkey.ParseURL(r.valkey)
	if err != nil {
		r.t.Fatal(err)
	}
	client, err := valkey.NewClient(shape(option))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(client.Close)
	return client
}

// serve runs a web process of its own pools and connections.
func (r *real) serve() *site {
	r.t.Helper()
	pool := r.pool(timeline.RoleWeb)
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	return run(r.t, Config{
		Timeline: timeline.NewReader(pool), Tenants: tenants.NewStore(pool), Logger: quiet,
		Doorbell: broadcast.NewSubscriber(r.dial(broadcast.SubscriberOption), quiet), SetMode: r.setMode,
		Times: Times{Tick: 200 * time.Millisecond, Sweep: 200 * time.Millisecond, Header: 100 * time.Millisecond, Counts: 500 * time.Millisecond},
	})
}

func (r *real) setMode(ctx context.Context, key feed.GameKey, mode feed.Mode) error {
	changes, err := r.writer.SetMode(ctx, key, mode)
	if err != nil {
		return err
	}
	return r.publisher.Publish(ctx, changes)
}

// apply commits lines and rings for them, as a renderer does.
func (r *real) apply(lines ...feed.Line) error {
	applied, err := r.writer.Apply(r.t.Context(), lines)
	if err != nil {
		return err
	}
	return r.publisher.Publish(r.t.Context(), applied.Changes)
}

func (r *real) must(lines ...feed.Line) {
	r.t.Helper()
	if err := r.apply(lines...); err != nil {
		r.t.Fatal(err)
	}
}

func opened(key feed.GameKey, id feed.ID, mode feed.Mode) feed.Line {
	line := notice(key, id, "opened")
	line.Sets = map[feed.Register]string{feed.RegisterStatus: "open", feed.RegisterMode: string(mode)}
	return line
}

func notice(key feed.GameKey, id feed.ID, text string) feed.Line {
	return feed.Line{Game: key, Event: id, Evt: id, KindVersion: 1, Base: &feed.Base{Kind: "notice", Text: text, Visibility: feed.Public, Icon: "bell", Tone: feed.TonePlain}}
}

func score(key feed.GameKey, id feed.ID, text string) feed.Line {
	line := notice(key, id, text)
	line.Base.Kind, line.Base.Visibility = "scored", feed.Score
	return line
}

func amend(key feed.GameKey, id, target feed.ID, amendment feed.Amendment) feed.Line {
	amendment.By = id
	return feed.Line{Game: key, Event: id, Evt: target, KindVersion: 1, Amendment: &amendment}
}

func TestOnRealServers(t *testing.T) {
	t.Parallel()
	a, b := feed.GameKey{Tenant: "real-a", Game: "g1"}, feed.GameKey{Tenant: "real-b", Game: "g1"}
	r := newReal(t, serverstest.Database(t), serverstest.Valkey(t), a.Tenant, b.Tenant)
	s := r.serve()
	private := httptest.NewServer(s.Private())
	t.Cleanup(private.Close)

	t.Run("ALineItsCorrectionAndItsRetractionArriveLive", func(t *testing.T) {
		r.must(opened(a, evt(1), feed.ModeClassic))
		w := s.dial(t, "real-a")
		w.sub("g1", feed.Cursor{}, 0)
		snap := w.next()
		equal(t, texts(snap.Lines), []string{"opened"})
		if snap.Header.Mode != feed.ModeClassic || !snap.Header.Released || snap.Header.Status != feed.StatusOpen {
			t.Errorf("header %+v", snap.Header)
		}
		r.must(notice(a, evt(2), "two"))
		equal(t, texts(w.next().Lines), []string{"two"})
		r.must(amend(a, evt(3), evt(2), feed.Amendment{Text: "two, corrected"}))
		corrected := w.next().Lines
		equal(t, texts(corrected), []string{"two, corrected"})
		equal(t, corrected[0].State, feed.Corrected)
		r.must(amend(a, evt(4), evt(2), feed.Amendment{Retracts: true, Reason: "typo"}))
		retracted := w.next().Lines
		if len(retracted) != 1 || retracted[0].State != feed.Retracted || retracted[0].Text != "" || retracted[0].Reason != "typo" {
			t.Errorf("got %+v", retracted)
		}
		r.must(notice(a, evt(2), "two")) // a redelivery changes nothing
		r.must(notice(a, evt(5), "five"))
		next := w.next()
		equal(t, texts(next.Lines), []string{"five"})
		equal(t, next.From, snap.To+3)
		w.header(func(game *feed.Game) bool { return game.Counts.Lines == 2 })
	})

	t.Run("AHiddenLineIsNowhereAndComesLiveWhenTheModeIsStated", func(t *testing.T) {
		key := feed.GameKey{Tenant: "real-a", Game: "hidden"}
		r.must(score(key, evt(10), "secret 87 %"), notice(key, evt(11), "public"))
		w := s.dial(t, "real-a")
		w.sub("hidden", feed.Cursor{}, 0)
		snap := w.next()
		equal(t, texts(snap.Lines), []string{"public"})
		r.must(score(key, evt(12), "secret 88 %"))
		equal(t, len(w.next().Lines), 0) // the cursor moves, and nothing is said
		for _, path := range []string{"", "/timeline", "/timeline?q=secret", "/changes?since=" + snap.Epoch + ":0"} {
			if answer, body := s.get(t, "/v1/tenants/real-a/games/hidden"+path); strings.Contains(body, "secret") || answer.StatusCode != 200 {
				t.Errorf("%s: %d %s", path, answer.StatusCode, body)
			}
		}
		for _, held := range []string{"", "*"} {
			if answer, body := s.get(t, "/v1/tenants/real-a/games/hidden/lines/"+evt(10).String(), "If-None-Match", held); answer.StatusCode != 404 {
				t.Errorf("the hidden line, of which %q is held, answers %d %s", held, answer.StatusCode, body)
			}
		}
		answer, err := private.Client().Post(private.URL+"/v1/tenants/real-a/games/hidden/mode", "application/json", strings.NewReader(`{"mode":"classic"}`))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		equal(t, answer.StatusCode, 200)
		var got []string
		for len(got) < 2 {
			got = append(got, texts(w.next().Lines)...)
		}
		slices.Sort(got)
		equal(t, got, []string{"secret 87 %", "secret 88 %"})
		w.header(func(g *feed.Game) bool { return g.Released && g.Mode == feed.ModeClassic })
	})

	t.Run("TwoTenantsWithTheSameGameNeverSeeEachOther", func(t *testing.T) {
		key := func(tenant feed.TenantID) feed.GameKey { return feed.GameKey{Tenant: tenant, Game: "same"} }
		r.must(opened(key("real-a"), evt(20), feed.ModeClassic), opened(key("real-b"), evt(20), feed.ModeClassic))
		wa, wb := s.dial(t, "real-a"), s.dial(t, "real-b")
		for _, w := range []*wire{wa, wb} {
			w.sub("same", feed.Cursor{}, 0)
			equal(t, w.next().T, "snap")
		}
		r.must(notice(key("real-a"), evt(21), "for a"), notice(key("real-b"), evt(21), "for b"))
		equal(t, texts(wa.next().Lines), []string{"for a"})
		equal(t, texts(wb.next().Lines), []string{"for b"})
		r.must(notice(key("real-a"), evt(22), "only a"))
		r.must(notice(key("real-b"), evt(23), "then b"))
		equal(t, texts(wa.next().Lines), []string{"only a"})
		equal(t, texts(wb.next().Lines), []string{"then b"})
		for tenant, foreign := range map[string]string{"real-a": " b", "real-b": " a"} {
			for _, path := range []string{"/timeline", "/timeline?q=a", "/changes?since=x:0", "/lines/" + evt(22).String(), ""} {
				_, body := s.get(t, "/v1/tenants/"+tenant+"/games/same"+path)
				if strings.Contains(body, "for"+foreign) || strings.Contains(body, "only"+foreign) || strings.Contains(body, "then"+foreign) {
					t.Errorf("%s reads %s", tenant, body)
				}
			}
			_, page := s.get(t, "/"+tenant+"/same")
			if !strings.Contains(page, "for"+map[string]string{"real-a": " a", "real-b": " b"}[tenant]) || strings.Contains(page, "for"+foreign) {
				t.Errorf("the page of %s: %s", tenant, page)
			}
		}
	})

	t.Run("WatchersOfTwoProcessesAreCountedTogether", func(t *testing.T) {
		key := feed.GameKey{Tenant: "real-a", Game: "counted"}
		r.must(opened(key, evt(90), feed.ModeClassic))
		both := []*wire{s.dial(t, "real-a"), r.serve().dial(t, "real-a")}
		for _, w := range both {
			w.sub("counted", feed.Cursor{}, 0)
		}
		for _, w := range both {
			w.until(func(f watch.Frame) bool { return f.T == "tick" && len(f.Games) == 1 && f.Games[0].Watchers == 2 })
		}
	})

	t.Run("SearchAndPagesAnswer", func(t *testing.T) {
		key := feed.GameKey{Tenant: "real-a", Game: "pages"}
		lines := []feed.Line{opened(key, evt(100), feed.ModeClassic)}
		for i := range 20 {
			lines = append(lines, notice(key, evt(101+i), text(i)))
		}
		r.must(lines...)
		const game = "/v1/tenants/real-a/games/pages"
		seen := 0
		for before := evt(1000); ; {
			_, body := s.get(t, fmt.Sprintf("%s/timeline?limit=7&before=%s", game, before))
			page := decodePage(t, body)
			seen += len(page.Lines)
			if !page.More {
				break
			}
			before = page.Lines[len(page.Lines)-1].Evt
		}
		equal(t, seen, 21)
		answer, body := s.get(t, game+"/timeline?kind=notice&limit=2")
		equal(t, len(decodePage(t, body).Lines), 2)
		answer2, _ := s.get(t, game+"/timeline?kind=notice&limit=2", "If-None-Match", answer.Header.Get("ETag"))
		equal(t, answer2.StatusCode, 304)
		r.must(notice(key, evt(200), "new"))
		answer2, _ = s.get(t, game+"/timeline?kind=notice&limit=2", "If-None-Match", answer.Header.Get("ETag"))
		equal(t, answer2.StatusCode, 200)
	})
}

// TestRestarts lets Valkey, then Postgres, go away and come back while two hundred watch: nobody reloads, and nothing is
// lost.
func TestRestarts(t *testing.T) {
	t.Parallel()
	const watchers = 200
	vk, pg := serverstest.OwnValkey(t), serverstest.OwnPostgres(t)
	if err := migrations.Up(t.Context(), pg.URL); err != nil {
		t.Fatal(err)
	}
	key := feed.GameKey{Tenant: "restarts", Game: "g1"}
	r := newReal(t, pg.URL, vk.URL, key.Tenant)
	s := r.serve()
	r.must(opened(key, evt(0), feed.ModeClassic))

	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	end := make(chan struct{})
	var last feed.Cursor // set when end is closed
	var crowd [watchers]*joined
	var watching sync.WaitGroup
	for i := range crowd {
		crowd[i] = &joined{game: key.Game, held: map[feed.ID]int64{}}
		watching.Go(func() {
			if err := crowd[i].watch(ctx, s.liveURL("restarts"), end, &last); err != nil {
				t.Errorf("watcher %d: %v", i, err)
			}
		})
	}
	eventually(t, "all watch", func() bool { return s.watching(key) == watchers })
	one := s.dial(t, "restarts")
	one.sub("g1", feed.Cursor{}, 0)
	at := one.next()

	back := func(server, text string, n int) {
		t.Helper()
		start := time.Now()
		eventually(t, "a line is committed after the return of "+server, func() bool { return r.apply(notice(key, evt(n), text)) == nil })
		for f := at; len(f.Lines) == 0 || f.Lines[len(f.Lines)-1].Text != text; {
			f = one.next()
		}
		t.Logf("lines flow %v after the return of %s", time.Since(start), server)
		if took := time.Since(start); took > soon {
			t.Errorf("lines flow only %v after the return of %s", took, server)
		}
	}
	if err := vk.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	back("Valkey", "after valkey", 1)

	if err := pg.Kill(); err != nil {
		t.Fatal(err)
	}
	late := s.dial(t, "restarts") // is answered from memory, or when that is possible
	late.sub("g1", feed.Cursor{Epoch: at.Epoch, Ver: at.To}, 0)
	if err := pg.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	back("Postgres", "after postgres", 2)
	if f := late.next(); f.T != "delta" {
		t.Errorf("one who came meanwhile got %+v", f)
	}

	page, err := r.reader.Page(ctx, key, timeline.PageQuery{Limit: maxLimit})
	if err != nil {
		t.Fatal(err)
	}
	last = page.Cursor
	close(end)
	watching.Wait()
	for i, w := range crowd {
		if w.gaps > 0 || w.twice > 0 || w.snaps != 1 || !slices.EqualFunc(w.state.Lines, page.Lines, sameLine) {
			t.Errorf("watcher %d: %d gaps, %d lines twice, %d snapshots, %d lines", i, w.gaps, w.twice, w.snaps, len(w.state.Lines))
		}
	}
}

// watching is how many the hub of a game counts.
func (s *site) watching(key feed.GameKey) int {
	for _, h := range s.hubs.open() {
		if h.key == key {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.watchers()
		}
	}
	return 0
}

// TestPaging: late lines are inserted while somebody pages through history, and no page repeats or skips a
// line that was there at the start.
func TestPaging(t *testing.T) {
	t.Parallel()
	key := feed.GameKey{Tenant: "paging", Game: "g1"}
	r := newReal(t, serverstest.Database(t), serverstest.Valkey(t), key.Tenant)
	s := r.serve()
	lines := []feed.Line{opened(key, evt(0), feed.ModeClassic)}
	for i := range 60 {
		lines = append(lines, notice(key, evt(10+10*i), text(i)))
	}
	r.must(lines...)
	seen := map[feed.ID]int{}
	query := "?limit=7"
	for n := 0; ; n++ {
		_, body := s.get(t, "/v1/tenants/paging/games/g1/timeline"+query)
		page := decodePage(t, body)
		for _, line := range page.Lines {
			seen[line.Evt]++
		}
		if !page.More {
			break
		}
		query = "?limit=7&before=" + page.Lines[len(page.Lines)-1].Evt.String()
		r.must(notice(key, evt(15+10*n), "late"), notice(key, evt(1000+n), "new"), notice(key, evt(595-10*n), "late above"))
	}
	for _, line := range lines {
		if seen[line.Evt] != 1 {
			t.Errorf("%s was seen %d times", line.Evt, seen[line.Evt])
		}
	}
}
