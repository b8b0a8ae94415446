package timeline

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

func TestMain(m *testing.M) { serverstest.Main(m) }

// patience bounds every wait of these tests.
const patience = 60 * time.Second

// store is a database with a writer and a reader, each as its own role.
type store struct {
	url string
	*Writer
	*Reader
}

func newStore(t testing.TB) *store {
	t.Helper()
	url := serverstest.Database(t)
	return &store{url: url, Writer: NewWriter(openPool(t, url, RoleRender)), Reader: NewReader(openPool(t, url, RoleWeb))}
}

func openPool(t testing.TB, url string, role Role) *pgxpool.Pool {
	t.Helper()
	pool, err := Open(t.Context(), url, role, 12)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// owner connects as the login that migrated.
func (s *store) owner(t testing.TB) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeConn(t, conn) })
	return conn
}

func closeConn(t testing.TB, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := conn.Close(ctx); err != nil {
		t.Error(err)
	}
}

// apply applies one batch and expects every line of it to be stored.
func (s *store) apply(t testing.TB, lines ...feed.Line) []feed.Change {
	t.Helper()
	applied, err := s.Apply(t.Context(), lines)
	if err != nil {
		t.Fatal(err)
	}
	if len(applied.Rejected) != 0 {
		t.Fatalf("rejected: %v", applied.Rejected)
	}
	return applied.Changes
}

// rows reads the newest lines as a watcher sees them.
func (s *store) rows(t testing.TB, game feed.GameKey) []feed.View {
	t.Helper()
	page, err := s.Page(t.Context(), game, PageQuery{Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	return page.Lines
}

// texts is what rows read, newest first.
func (s *store) texts(t testing.TB, game feed.GameKey) []string {
	t.Helper()
	var texts []string
	for _, view := range s.rows(t, game) {
		text := view.Text
		if view.State == feed.Retracted {
			text = "retracted: " + view.Reason
		}
		texts = append(texts, text)
	}
	return texts
}

func (s *store) game(t testing.TB, key feed.GameKey) feed.Game {
	t.Helper()
	game, err := s.Game(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return game
}

// at is an id whose instant is n minutes after noon of a day of 2026.
func at(n int) feed.ID {
	return feed.IDAt(time.Date(2026, 3, 1, 12, n, 0, 0, time.UTC))
}

// line makes lines of one game.
type line feed.GameKey

var g1 = line{Tenant: "acme", Game: "g1"}

func (l line) key() feed.GameKey { return feed.GameKey(l) }

func (l line) opens(id feed.ID, base feed.Base) feed.Line {
	raw := feed.Fields{{Name: "kind", Value: base.Kind}}.Raw()
	return feed.Line{Game: l.key(), Event: id, Evt: id, KindVersion: 1, Base: &base, Raw: raw}
}

func (l line) amends(id feed.ID, target feed.ID, amendment feed.Amendment) feed.Line {
	amendment.By = id
	raw := feed.Fields{{Name: "target", Value: target.String()}}.Raw()
	return feed.Line{Game: l.key(), Event: id, Evt: target, KindVersion: 1, Amendment: &amendment, Raw: raw}
}

func (l line) notice(id feed.ID, text string) feed.Line {
	return l.opens(id, feed.Base{
		Kind: "notice", Text: "{text}", Show: []string{"text"}, Fields: map[string]string{"text": text}, Visibility: feed.Public,
	})
}

func (l line) scored(id feed.ID, player, pct string) feed.Line {
	return l.opens(id, feed.Base{
		Kind: "scored", Text: "{player} scored {pct} %", Icon: "dart", Tone: feed.ToneGood, Actor: "player",
		Show: []string{"player", "pct", "eff"}, Fields: map[string]string{"player": player, "pct": pct},
		Score: []feed.ScoreTerm{{Field: "eff", Factor: 1}, {Field: "pct", Factor: 6}}, Visibility: feed.Score,
	})
}

func (l line) opened(id feed.ID, mode feed.Mode) feed.Line {
	opened := l.opens(id, feed.Base{
		Kind: "opened", Text: "{mode} game opened", Show: []string{"mode"},
		Fields: map[string]string{"mode": string(mode)}, Visibility: feed.Public,
	})
	opened.Sets = map[feed.Register]string{feed.RegisterMode: string(mode), feed.RegisterStatus: string(feed.StatusOpen)}
	return opened
}

func (l line) revealed(id feed.ID, secret string) feed.Line {
	revealed := l.opens(id, feed.Base{
		Kind: "revealed", Text: "the code was {secret}", Show: []string{"commitment", "secret"},
		Only:   map[feed.Mode][]string{feed.ModeBlind: {"secret"}},
		Fields: map[string]string{"commitment": "c0ffee", "secret": secret}, Visibility: feed.Public,
	})
	revealed.Reveals = true
	return revealed
}

func (l line) corrects(id, target feed.ID, fields map[string]string) feed.Line {
	return l.amends(id, target, feed.Amendment{Fields: fields})
}

func (l line) retracts(id, target feed.ID, reason string) feed.Line {
	return l.amends(id, target, feed.Amendment{Retracts: true, Reason: reason})
}

func (l line) sets(id feed.ID, register feed.Register, value string) feed.Line {
	return feed.Line{Game: l.key(), Event: id, Evt: id, KindVersion: 1, Sets: map[feed.Register]string{register: value}}
}

// again is the event rendered by a newer version of its kind.
func again(l feed.Line, version int) feed.Line {
	l.KindVersion = version
	return l
}

func games(tenant feed.TenantID, n int) []line {
	list := make([]line, n)
	for i := range list {
		list[i] = line{Tenant: tenant, Game: feed.GameID(fmt.Sprintf("g%04d", i))}
	}
	return list
}
