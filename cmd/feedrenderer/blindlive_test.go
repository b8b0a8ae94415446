package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/timeline"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

// TestABlindGameLiveTellsNothingBeforeItsReveal plays a blind game twice over running processes, of which renderers die,
// with scores that are late and re-claimed: two games that differ only in what nobody may see look the same to everybody.
func TestABlindGameLiveTellsNothingBeforeItsReveal(t *testing.T) {
	t.Parallel()
	plays := [2]*blindPlay{
		{tenant: "blind-x", secrets: secrets{pct: "3", eff: "18", codes: "a b c d e f", secret: "x y z"}},
		{tenant: "blind-y", secrets: secrets{pct: "100", eff: "600", codes: "🍎 🍌 🍒 🍓 🥝 🍍", secret: "🍍 🥝 🍓 🍒 🍌 🍎 and more"}},
	}
	t.Run("Play", func(t *testing.T) {
		for _, play := range plays {
			t.Run(string(play.tenant), func(t *testing.T) {
				t.Parallel()
				play.run(t)
			})
		}
	})
	if t.Failed() {
		return
	}
	for i, told := range plays[0].before {
		if said := strings.Join(told, "\n"); !strings.Contains(said, "bob joined") {
			t.Errorf("observer %d was told too little: %s", i, said)
		}
		if diff := cmp.Diff(told, plays[1].before[i]); diff != "" {
			t.Errorf("observer %d: the games differ: %s", i, diff)
		}
	}
	if diff := cmp.Diff(plays[0].asked, plays[1].asked); diff != "" {
		t.Errorf("the answers differ: %s", diff)
	}
}

// blindPlay is one playing of the game.
type blindPlay struct {
	tenant  feed.TenantID
	secrets secrets

	*system
	game      feed.GameKey
	web       *program
	table     *timeline.Reader
	observers []*observer
	next      feed.ID
	scores    map[string][]feed.ID // of each player
	held      int64                // entries that nobody can take over

	before [][]string // what each observer was told before the reveal
	asked  []string   // what was answered to questions before the reveal
}

const blindIdle = 3 * time.Second // the renderers' --min-idle

func (p *blindPlay) run(t *testing.T) {
	p.system = newSystem(t, serverstest.Valkey(t))
	p.game, p.table = feed.GameKey{Tenant: p.tenant, Game: "g1"}, p.reader()
	p.next, p.scores = feed.IDAt(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)), map[string][]feed.ID{}
	p.web = p.serve("web", "--tenants", string(p.tenant)).ready()

	// Two scores come before anything says that the game is blind, and are read under names that are no processes: one is
	// re-claimed at once, the other kept until after the reveal.
	p.score("ann")
	p.score("evelyn")
	p.command("XGROUP", "CREATE", p.game.Stream(), "feedrenderer", "0", "ENTRIESREAD", "0")
	for _, name := range []string{"gone", "held"} {
		p.command("XREADGROUP", "GROUP", "feedrenderer", name, "COUNT", "1", "STREAMS", p.game.Stream(), ">")
	}
	letGo := p.hold("held", p.scores["evelyn"][0])
	p.held = 1
	first := p.renderer()
	p.event("opened", "mode", "blind", "room", "r1", "prize", "100", "ends_ms", "1798761600000")
	p.quiet()
	p.observers = observe(t, p.web, p.game, 20)
	p.settle()

	for i, round := range []func(){
		func() { p.score("bob"); p.event("joined", "player", "bob"); p.score("cyd") },
		func() { p.event("guessed", "player", "bob", "guess", p.secrets.codes); p.score("bob") },
		func() {
			p.event("corrected", "target", p.scores["bob"][0].String(), "fields", `{"pct":"`+p.secrets.pct+`"}`)
			p.event("notice", "text", "hello")
		},
		func() {
			p.event("retracted", "target", p.scores["cyd"][0].String(), "reason", "a slip")
			p.score("danilo")
		},
	} {
		round()
		if i == 2 { // it may hold what was just appended
			first.signal(syscall.SIGKILL)
			first = p.renderer()
		}
		p.settle()
		p.look()
	}
	for _, o := range p.observers {
		p.before = append(p.before, o.told(t))
	}
	for _, hidden := range []string{p.secrets.codes, p.secrets.secret, `"pct"`, `"eff"`, " scored ", "a slip", "evelyn", "danilo"} {
		for i, o := range p.observers {
			if o.times(hidden) > 0 {
				t.Errorf("observer %d was told of %q", i, hidden)
			}
		}
		for _, answer := range p.asked {
			if _, body, _ := strings.Cut(answer, " <- "); strings.Contains(body, hidden) { // the question may name it
				t.Errorf("%q is told: %s", hidden, answer)
			}
		}
	}
	p.reveal(first, letGo)
}

// reveal kills the renderer between the apply of the reveal and the release, and sees every score come all the same.
func (p *blindPlay) reveal(renderer *program, letGo func()) {
	p.t.Helper()
	owner := p.owner()
	exec := func(sql string) {
		p.t.Helper()
		if _, err := owner.Exec(p.t.Context(), sql); err != nil {
			p.t.Fatal(err)
		}
	}
	lock, err := owner.Acquire(p.t.Context()) // its session holds up the release
	if err != nil {
		p.t.Fatal(err)
	}
	defer lock.Release()
	if _, err := lock.Exec(p.t.Context(), `select pg_advisory_lock(5)`); err != nil {
		p.t.Fatal(err)
	}
	exec(`
create function wait_before_release() returns trigger language plpgsql as $$ begin
  perform pg_advisory_xact_lock(5);
  return new;
end $$;
create trigger wait_before_release before update on games for each row
  when (new.released and not old.released) execute function wait_before_release()`)
	p.event("revealed", "secret", p.secrets.secret, "nonce", "n")
	const waiting = ` from pg_locks where locktype = 'advisory' and not granted
		and database = (select oid from pg_database where datname = current_database())`
	until(p.t, "the reveal is applied and the release waits", func() bool {
		var n int
		return owner.QueryRow(p.t.Context(), `select count(*)`+waiting).Scan(&n) == nil && n > 0
	})
	if header := p.header(); !strings.Contains(header, `"released":false`) {
		p.t.Errorf("between apply and release: %s", header)
	}
	renderer.signal(syscall.SIGKILL)
	<-renderer.child.Ended()
	exec(`select pg_terminate_backend(pid, 60000)` + waiting) // whose client is dead
	if _, err := lock.Exec(p.t.Context(), `select pg_advisory_unlock(5)`); err != nil {
		p.t.Fatal(err)
	}
	exec(`drop trigger wait_before_release on games`)
	for i, o := range p.observers {
		if n := o.times(" scored "); n > 0 {
			p.t.Errorf("observer %d was told %d scores before the release", i, n)
		}
	}

	p.renderer()
	for _, player := range []string{"ann", "bob", "cyd", "danilo"} {
		p.toldOnce(player)
	}
	if text := fmt.Sprintf(`"text":"danilo scored %s %%"`, p.secrets.pct); p.observers[0].times(text) != 1 {
		p.t.Errorf("not told: %s", text)
	}
	letGo()
	p.held = 0
	p.toldOnce("evelyn") // re-claimed after the reveal
	p.score("fay")
	p.toldOnce("fay")
	p.settle()
	for player := range p.scores { // and not once more since
		p.toldOnce(player)
	}
	var evts []feed.ID
	for _, line := range lines(p.t, p.table, p.game) {
		evts = append(evts, line.Evt)
	}
	slices.Reverse(evts)
	if !slices.IsSorted(evts) || evts[1] != p.scores["evelyn"][0] || len(evts) != 12 {
		p.t.Errorf("not all in place: %v", evts)
	}
}

// toldOnce waits until every observer was told each score of a player, and fails if one was told it twice.
func (p *blindPlay) toldOnce(player string) {
	p.t.Helper()
	for _, evt := range p.scores[player] {
		text := fmt.Sprintf(`"evt":"%s"`, evt)
		until(p.t, "every observer is told a score of "+player, func() bool {
			return !slices.ContainsFunc(p.observers, func(o *observer) bool { return o.times(text) == 0 })
		})
		for i, o := range p.observers {
			if n := o.times(text); n != 1 {
				p.t.Errorf("observer %d (%s) was told a score of %s %d times", i, o.way, player, n)
			}
		}
	}
}

func (p *blindPlay) renderer() *program {
	p.t.Helper()
	return p.serve("render", "--tenants", string(p.tenant), "--min-idle", blindIdle.String()).ready()
}

// event appends under an id that is the same in every play.
func (p *blindPlay) event(kind string, fields ...string) feed.ID {
	p.t.Helper()
	p.next++
	all := feed.Fields{{Name: "kind", Value: kind}}
	for i := 0; i < len(fields); i += 2 {
		all = append(all, feed.Field{Name: fields[i], Value: fields[i+1]})
	}
	if err := feed.AppendEvent(p.t.Context(), p.client, p.game, p.next, all); err != nil {
		p.t.Fatal(err)
	}
	return p.next
}

func (p *blindPlay) score(player string) {
	p.t.Helper()
	s := p.secrets
	p.scores[player] = append(p.scores[player], p.event("scored", "player", player, "pct", s.pct, "eff", s.eff, "guess", s.codes))
}

func (p *blindPlay) command(words ...string) {
	p.t.Helper()
	if err := p.client.Do(p.t.Context(), p.client.B().Arbitrary(words...).Build()).Error(); err != nil {
		p.t.Fatalf("%v: %v", words, err)
	}
}

// hold keeps an entry from being taken over, under a name in the group, until let go.
func (p *blindPlay) hold(name string, id feed.ID) (letGo func()) {
	ctx, stop := context.WithCancel(p.t.Context())
	var holding sync.WaitGroup
	holding.Go(func() {
		beat := time.NewTicker(blindIdle / 30)
		defer beat.Stop()
		for {
			claim := p.client.B().Arbitrary("XCLAIM").Keys(p.game.Stream()).Args("feedrenderer", name, "0", id.EntryID(), "IDLE", "0", "JUSTID").Build()
			if err := p.client.Do(ctx, claim).Error(); err != nil && ctx.Err() == nil {
				p.t.Errorf("hold %s: %v", id, err)
			}
			select {
			case <-ctx.Done():
				return
			case <-beat.C:
			}
		}
	})
	letGo = func() { stop(); holding.Wait() }
	p.t.Cleanup(letGo)
	return letGo
}

// quiet waits until the group has nothing left but the entry that is held.
func (p *blindPlay) quiet() {
	p.t.Helper()
	until(p.t, "the group has nothing left but what is held", func() bool {
		pending, lag := p.standing(p.game)
		return pending == p.held && lag == 0
	})
}

// settle waits until everything is rendered and every observer has come to where the table is, its header too, and so
// has the list of games, which is a second behind.
func (p *blindPlay) settle() {
	p.t.Helper()
	p.quiet()
	until(p.t, "every observer is where the table is", func() bool {
		head, err := p.table.Head(p.t.Context(), p.game)
		if err != nil {
			p.t.Fatal(err)
		}
		header := masked(p.header())
		if _, list := get(p.t, "http://"+p.web.public+"/v1/tenants/"+string(p.tenant)+"/games"); !strings.Contains(masked(list), header) {
			return false
		}
		for _, o := range p.observers {
			o.mu.Lock()
			there := o.at >= head.Cursor.Ver && (o.way == "poll" || o.game == header)
			o.mu.Unlock()
			if !there {
				return false
			}
		}
		return true
	})
}

func (p *blindPlay) header() string {
	p.t.Helper()
	_, body := get(p.t, gameURL(p.web, p.game))
	return strings.TrimSpace(body)
}

// look asks for everything there is to ask for.
func (p *blindPlay) look() {
	p.t.Helper()
	tenant, game := "/v1/tenants/"+string(p.tenant), "/v1/tenants/"+string(p.tenant)+"/games/g1"
	paths := []string{
		tenant + "/games", game, game + "/board", game + "/timeline", game + "/timeline?limit=2", game + "/timeline?kind=scored", game + "/timeline?actor=danilo",
		game + "/timeline?q=3", game + "/timeline?q=100", "/" + string(p.tenant) + "/", "/" + string(p.tenant) + "/g1", "/" + string(p.tenant) + "/g1?q=100",
	}
	for id := p.next - 12; id <= p.next; id++ {
		paths = append(paths, game+"/lines/"+id.String())
	}
	for _, path := range paths {
		answer, err := http.Get("http://" + p.web.public + path)
		if err != nil {
			p.t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			p.t.Fatal(err)
		}
		answer.Header.Del("Date")
		answer.Header.Del("Content-Length") // of the body with its versions
		said := fmt.Sprintf("%s <- %d %v %s", path, answer.StatusCode, answer.Header, body)
		p.asked = append(p.asked, masked(nameOfPlay.ReplaceAllString(said, "blind-*")))
	}
}

var nameOfPlay = regexp.MustCompile(`blind-[xy]`)
