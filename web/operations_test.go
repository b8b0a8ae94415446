package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
)

// liveGroup is a group that the test changes. Its letters have ids from 1-0 on.
type liveGroup struct {
	mu      sync.Mutex // guards what follows
	health  GroupHealth
	err     error
	looks   int
	letters []DeadLetter
	fails   bool // a retried letter comes back at once
	last    int  // id
}

func (g *liveGroup) set(change func(*liveGroup)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(g)
}

func (g *liveGroup) Streams(_ context.Context, tenant feed.TenantID) (GroupHealth, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.looks++
	out := g.health
	out.At = feed.Instant(time.Now())
	return out.Of(tenant), g.err
}

func (g *liveGroup) List(_ context.Context, _ feed.GameKey, ask LettersQuery) (out []DeadLetter, next string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	after := 0
	if ask.After != "" {
		if after, err = strconv.Atoi(strings.TrimSuffix(ask.After, "-0")); err != nil {
			return nil, "", ErrNoLetter
		}
	}
	for _, l := range g.letters {
		n, err := strconv.Atoi(strings.TrimSuffix(l.ID, "-0"))
		if err != nil {
			return nil, "", err
		}
		if n <= after || ask.Kind != "" && l.Kind != ask.Kind {
			continue
		}
		if len(out) == ask.Limit {
			return out, out[len(out)-1].ID, nil
		}
		out = append(out, l)
	}
	return out, "", nil
}

func (g *liveGroup) Retry(_ context.Context, _ feed.GameKey, id string) error {
	l, err := g.take(id)
	if err == nil && g.fails {
		g.bury(l.Kind)
	}
	return err
}

func (g *liveGroup) Drop(_ context.Context, _ feed.GameKey, id string) error {
	_, err := g.take(id)
	return err
}

func (g *liveGroup) take(id string) (DeadLetter, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, l := range g.letters {
		if l.ID == id {
			g.letters = append(g.letters[:i:i], g.letters[i+1:]...)
			return l, nil
		}
	}
	return DeadLetter{}, ErrNoLetter
}

func (g *liveGroup) bury(kind string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last++
	g.letters = append(g.letters, DeadLetter{ID: strconv.Itoa(g.last) + "-0", Kind: kind})
}

// pendingOf is a group with one stream for each tenant, with so many pending.
func pendingOf(n int64, names ...feed.TenantID) GroupHealth {
	h := GroupHealth{Group: "feedrenderer"}
	for _, name := range names {
		h.Streams = append(h.Streams, StreamHealth{
			Tenant: name, Game: "g1", Stream: "emq:{" + string(name) + "}:stream:g1", Pending: n, OldestPending: float64(n), OldestTries: 1,
			Reasons: []string{}, Consumers: []ConsumerHealth{{Name: "r1", Alive: true, Pending: n}, {Name: "gone"}},
		})
	}
	return h
}

// desktop is an operator's socket of the tests.
type desktop struct {
	t    *testing.T
	conn *websocket.Conn
}

func (c *customs) desktop(t *testing.T, token string) *desktop {
	t.Helper()
	conn, _ := c.upgrade(t)
	d := &desktop{t, conn}
	if token != "" {
		d.send(`{"t":"auth","token":"` + token + `"}`)
	}
	return d
}

func (d *desktop) send(frame string) {
	d.t.Helper()
	if err := d.conn.Write(d.t.Context(), websocket.MessageText, []byte(frame)); err != nil {
		d.t.Fatal(err)
	}
}

// next is the next frame but for ticks.
func (d *desktop) next() string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	for {
		_, data, err := d.conn.Read(ctx)
		if err != nil {
			d.t.Fatal(err)
		}
		if !strings.HasPrefix(string(data), `{"t":"tick"`) {
			return string(data)
		}
	}
}

type streamsFrame struct {
	T       string
	Group   groupView
	Samples []sampleView
}

func (d *desktop) streams() (out streamsFrame) {
	d.t.Helper()
	text := d.next()
	if err := json.Unmarshal([]byte(text), &out); err != nil || out.T != "streams" {
		d.t.Fatalf("%v: %s", err, text)
	}
	return out
}

func newOperated(t *testing.T, g *liveGroup) *customs {
	t.Helper()
	return newCustoms(t, func(config *Config) {
		config.Group, config.DeadLetters = g, g
		config.Times.Operate, config.Times.Sample = 40*time.Millisecond, time.Hour
	})
}

func TestOperate(t *testing.T) {
	t.Parallel()
	g := &liveGroup{health: pendingOf(3, "acme", "globex")}
	c := newOperated(t, g)
	_, key := c.key("acme", tenants.Operate)
	const refused = `{"t":"err","code":"not_found","msg":"no such game"}`

	t.Run("ShowsItsOwnTenantToWhoOperatesIt", func(t *testing.T) {
		d := c.desktop(t, key)
		d.send(`{"t":"operate"}`)
		text := d.next()
		newDescription(t).is("server", "/components/schemas/ServerFrame", text)
		var f streamsFrame
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			t.Fatal(err)
		}
		if len(f.Group.Streams) != 1 || f.Group.Streams[0].Tenant != "acme" || f.Group.Totals.Pending != 3 || f.Group.Totals.Alive != 1 || f.Group.Totals.Dead != 1 ||
			len(f.Group.Replicas) != 2 || !f.Group.Replicas[0].Alive || len(f.Samples) == 0 || strings.Contains(text, "globex") {
			t.Errorf("got %s", text)
		}
	})

	t.Run("SaysOnlyWhatChanged", func(t *testing.T) {
		d := c.desktop(t, key)
		d.send(`{"t":"operate"}`)
		d.streams()
		g.mu.Lock()
		looks := g.looks
		g.mu.Unlock()
		eventually(t, "it was looked at again", func() bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			return g.looks > looks+2
		})
		d.send(`{"t":"ping"}`)
		if got := d.next(); got != `{"t":"pong"}` {
			t.Errorf("nothing changed, and it says %s", got)
		}
		g.set(func(g *liveGroup) { g.health = pendingOf(5, "acme", "globex") })
		if f := d.streams(); f.Group.Totals.Pending != 5 || len(f.Samples) != 0 {
			t.Errorf("got %+v", f)
		}
	})

	t.Run("IsNotThereForAnybodyElse", func(t *testing.T) {
		_, watching := c.key("acme", tenants.Watch)
		_, producing := c.key("acme", tenants.Produce)
		_, foreign := c.key("globex", tenants.Operate)
		for who, token := range map[string]string{"nobody": "", "watch": watching, "produce": producing, "foreign": foreign, "token": c.token("acme", time.Hour)} {
			d := c.desktop(t, token)
			d.send(`{"t":"operate"}`)
			if got := d.next(); got != refused {
				t.Errorf("%s gets %s", who, got)
			}
		}
	})

	t.Run("EndsWithTheRight", func(t *testing.T) {
		revoked, text := c.key("acme", tenants.Operate)
		_, watching := c.key("acme", tenants.Watch)
		d, e := c.desktop(t, text), c.desktop(t, key)
		for _, each := range []*desktop{d, e} {
			each.send(`{"t":"operate"}`)
			each.streams()
		}
		e.send(`{"t":"auth","token":"` + watching + `"}`)
		if got := e.next(); got != refused {
			t.Errorf("a lesser key later gets %s", got)
		}
		c.revoke(revoked)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for {
			if _, _, err := d.conn.Read(ctx); err != nil {
				equal(t, int(websocket.CloseStatus(err)), 4504)
				break
			}
		}
		eventually(t, "nothing is kept of them", func() bool {
			_ = e.conn.CloseNow()
			c.operations.mu.Lock()
			defer c.operations.mu.Unlock()
			for w := range c.operations.desks {
				if w.caller().key == revoked.ID || w.caller().role == tenants.Watch {
					return false
				}
			}
			return true
		})
	})

	t.Run("SaysOnceThatNothingCanBeSeenAndThenAllAnew", func(t *testing.T) {
		d := c.desktop(t, key)
		d.send(`{"t":"operate"}`)
		d.streams()
		g.set(func(g *liveGroup) { g.err = errors.New("connection refused at 10.0.0.7") })
		if got := d.next(); got != `{"t":"err","code":"unavailable","msg":"the streams are not available now"}` {
			t.Errorf("got %s", got)
		}
		g.set(func(g *liveGroup) { g.err = nil })
		if f := d.streams(); len(f.Samples) == 0 || f.Group.Totals.Streams != 1 {
			t.Errorf("got %+v", f)
		}
	})
}

func TestThePageOfOperatorsIsTheSameForEveryTenantAndSaysNothingOfAny(t *testing.T) {
	t.Parallel()
	c := newCustoms(t, nil)
	_, want := c.ask(http.MethodGet, "/acme/-/operate", "", "")
	for _, tenant := range []string{"open", "globex", "nobody"} {
		answer, body := c.ask(http.MethodGet, "/"+tenant+"/-/operate", "nonsense", "")
		if answer.StatusCode != http.StatusOK || body != want {
			t.Errorf("%s: %d, other than acme's", tenant, answer.StatusCode)
		}
	}
	if strings.Contains(want, "acme") || !strings.Contains(want, "/static/operate.js") {
		t.Errorf("it says %s", want)
	}
	for _, path := range []string{"/v1/-/operate", "/BAD/-/operate", "/acme/-/other"} {
		if answer, _ := c.ask(http.MethodGet, path, "", ""); answer.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, answer.StatusCode)
		}
	}
}

func TestOperationsLookAtMostATwentiethOfTheTime(t *testing.T) {
	t.Parallel()
	for _, took := range []time.Duration{0, time.Millisecond, 4 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			looking, looks := time.Duration(0), 0
			group := groupFunc(func(ctx context.Context) (GroupHealth, error) {
				looks++
				looking += took
				select {
				case <-time.After(took):
				case <-ctx.Done():
				}
				return pendingOf(1, "acme"), nil
			})
			var times Times
			times.fill()
			o := &operations{
				group: group, times: times, hurry: make(chan struct{}, 1), desks: map[*watcher]*desk{}, history: newHistories(times.Sample),
				may: func(context.Context, *watcher) error { return nil },
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				o.run(ctx)
			}()
			for range 100 { // whoever comes, it is not hurried beyond that
				o.enter(ctx, newWatcher("acme", 1<<20))
				time.Sleep(6 * time.Second)
			}
			cancel()
			<-ended
			if looking > 10*time.Minute/lookShare+took || looks < 5 {
				t.Errorf("each took %v: %d looks, %v of ten minutes", took, looks, looking)
			}
		})
	}
}

// Who takes frames more slowly than the group changes gets fewer of them, and every sample all the same.
func TestASlowOperatorMissesNoSample(t *testing.T) {
	t.Parallel()
	start := time.Now()
	n := int64(0)
	var times Times
	times.fill()
	o := &operations{
		group: groupFunc(func(context.Context) (GroupHealth, error) {
			n++
			h := pendingOf(n, "acme")
			h.At = feed.Instant(start.Add(time.Duration(n) * times.Sample))
			return h, nil
		}),
		times: times, hurry: make(chan struct{}, 1), desks: map[*watcher]*desk{}, history: newHistories(times.Sample),
		may: func(context.Context, *watcher) error { return nil },
	}
	w := newWatcher("acme", 1<<10)
	o.enter(t.Context(), w)
	taken := func() (pending []float32) {
		t.Helper()
		for _, f := range w.take().frames {
			var got streamsFrame
			if f.kind != frameStreams {
				continue
			}
			if err := json.Unmarshal(f.bytes, &got); err != nil {
				t.Fatal(err)
			}
			for _, s := range got.Samples {
				pending = append(pending, s.Pending)
			}
		}
		return pending
	}
	o.look(t.Context())
	equal(t, taken(), []float32{1})
	for range 3 {
		o.look(t.Context())
	}
	equal(t, taken(), []float32{2})
	o.look(t.Context())
	equal(t, taken(), []float32{3, 4, 5})
	o.look(t.Context())
	w.say(frame{bytes: make([]byte, 1<<10)}) // which is more than it holds: all that waits is lost
	o.look(t.Context())
	equal(t, taken(), []float32{1, 2, 3, 4, 5, 6, 7})
}

type groupFunc func(context.Context) (GroupHealth, error)

func (f groupFunc) Streams(ctx context.Context, _ feed.TenantID) (GroupHealth, error) { return f(ctx) }
