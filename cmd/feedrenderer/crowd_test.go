package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
	"github.com/codemojex/feedrenderer/watch"
)

// crowd is many watchers of ten games, half of them on each of two web processes, while lines are committed.
type crowd struct {
	*system
	first   *program // the renderer that it begins with
	webs    [2]*program
	games   []feed.GameKey
	members []*member
	ctx     context.Context // ends the members
	said    int             // lines of each game
}

const crowdGames = 10

// member is a watcher of a crowd.
type member struct {
	game  int
	mu    sync.Mutex // guards what follows
	lines []feed.View
	at    feed.Cursor
	held  map[feed.ID]int64 // versions that it was sent
	twice int               // lines of a version that it had
	snaps int
	back  time.Time // when it was to come back after the last loss
}

func (m *member) take(state *watch.State, f watch.Frame) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.T == "snap" {
		m.snaps++
	}
	for _, line := range f.Lines {
		if line.Ver <= m.held[line.Evt] {
			m.twice++
		}
		m.held[line.Evt] = line.Ver
	}
	m.lines, m.at = append(m.lines[:0], state.Lines...), state.Cursor
}

func (m *member) lost(_ error, wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.back = time.Now().Add(wait)
}

// newCrowd starts an installation and lets a crowd of so many watch it.
func newCrowd(t *testing.T, tenant feed.TenantID, n int) *crowd {
	t.Helper()
	c := &crowd{system: newSystem(t, serverstest.Valkey(t))}
	c.first = c.serve("render", "--tenants", string(tenant))
	for i := range c.webs {
		c.webs[i] = c.serve("web", "--tenants", string(tenant))
	}
	for _, p := range append(c.webs[:], c.first) {
		p.ready()
	}
	for i := range crowdGames {
		c.games = append(c.games, feed.GameKey{Tenant: tenant, Game: feed.GameID(fmt.Sprintf("g%d", i))})
	}
	c.say()
	ctx, stop := context.WithCancel(t.Context())
	c.ctx = ctx
	var running sync.WaitGroup
	for i := range n {
		m := &member{game: i / 2 % crowdGames, held: map[feed.ID]int64{}}
		c.members = append(c.members, m)
		client := watch.New(watch.Config{
			URLs:    []string{c.live(i % 2), c.live(1 - i%2)},
			Games:   []watch.Game{{ID: c.games[m.game].Game}},
			OnFrame: m.take,
			OnLost:  m.lost,
		})
		running.Go(func() {
			if err := client.Run(ctx); ctx.Err() == nil {
				t.Errorf("a watcher was sent away for good: %v", err)
			}
		})
	}
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	c.allHoldAll()
	return c
}

func (c *crowd) live(web int) string {
	return "ws://" + c.webs[web].public + "/v1/tenants/" + string(c.games[0].Tenant) + "/live"
}

// say appends a line to each game.
func (c *crowd) say() {
	c.t.Helper()
	for _, game := range c.games {
		c.notices(game, fmt.Sprint("line ", c.said, "-"), 1)
	}
	c.said++
}

// sayUntil appends lines every while, until the condition holds.
func (c *crowd) sayUntil(what string, condition func() bool) {
	c.t.Helper()
	next := time.Now()
	until(c.t, what, func() bool {
		if !time.Now().Before(next) {
			c.say()
			next = time.Now().Add(3 * time.Second)
		}
		return condition()
	})
}

// allHoldAll waits until every member holds every line, and compares them with the table: each was sent every line
// version once, and none had to start over.
func (c *crowd) allHoldAll() {
	c.t.Helper()
	reader := c.reader()
	table := make([][]feed.View, len(c.games))
	until(c.t, "the table holds all lines", func() bool {
		for i, game := range c.games {
			if _, err := reader.Head(c.t.Context(), game); err != nil { // not there yet
				return false
			}
			if table[i] = lines(c.t, reader, game); len(table[i]) < c.said {
				return false
			}
		}
		return true
	})
	until(c.t, "all hold all lines", func() bool {
		for _, m := range c.members {
			m.mu.Lock()
			n := len(m.lines)
			m.mu.Unlock()
			if n < c.said {
				return false
			}
		}
		return true
	})
	for i, m := range c.members {
		m.mu.Lock()
		if m.twice > 0 || m.snaps != 1 {
			c.t.Errorf("watcher %d: %d lines twice, %d snapshots", i, m.twice, m.snaps)
		}
		if !slices.EqualFunc(m.lines, table[m.game], func(a, b feed.View) bool { return a.Evt == b.Evt && a.Ver == b.Ver && a.Text == b.Text }) {
			c.t.Errorf("watcher %d holds other lines than the table", i)
		}
		m.mu.Unlock()
	}
}

// connections is how many sockets a web process has open.
func (p *program) connections() int { return int(p.metric("feedrenderer_web_connections")) }

// metric sums a metric over its labels.
func (p *program) metric(name string) float64 {
	p.t.Helper()
	_, text := get(p.t, "http://"+p.private+"/metrics")
	sum := 0.0
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == '{' || rest[0] == ' ') {
			value, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
			if err != nil {
				p.t.Fatal(err)
			}
			sum += value
		}
	}
	return sum
}

// TestWatchersOfAStoppedProcessGoOnElsewhere stops one of two web processes as an init system does.
func TestWatchersOfAStoppedProcessGoOnElsewhere(t *testing.T) {
	t.Parallel()
	const grace, spread = 10 * time.Second, 5 * time.Second // the defaults of serve
	c := newCrowd(t, "stopped", crowdSize)
	start := time.Now()
	c.webs[0].signal(syscall.SIGTERM)
	c.sayUntil("the process has ended", c.webs[0].ended)
	took := time.Since(start)
	c.sayUntil("all are on the other", func() bool { return c.webs[1].connections() == crowdSize })
	c.say()
	c.allHoldAll()

	var tenths []int // of the spread; on a busy machine byes come late, and so do those who heard them
	for i := 0; i < crowdSize; i += 2 {
		m := c.members[i]
		m.mu.Lock()
		tenth := max(0, int(m.back.Sub(start)*10/spread))
		tenths = append(tenths, make([]int, max(0, tenth+1-len(tenths)))...)
		tenths[tenth]++
		m.mu.Unlock()
	}
	t.Logf("the process ended after %v; %d watchers came back in the tenths of %v: %v", took, crowdSize/2, spread, tenths)
	if took > grace {
		t.Errorf("it took %v, more than its grace", took)
	}
	if most := slices.Max(tenths); most > crowdSize/5 {
		t.Errorf("%d of %d came back in one tenth of the time", most, crowdSize/2)
	}
}

// TestSilentWatchersAreToldAndHoldNothingUp stops a process a quarter of whose watchers answer nothing.
func TestSilentWatchersAreToldAndHoldNothingUp(t *testing.T) {
	t.Parallel()
	const grace = 10 * time.Second
	c := newCrowd(t, "silent", crowdSize/2)
	silent := make([]*watch.Conn, crowdSize/4)
	for i := range silent {
		conn, err := watch.Dial(t.Context(), c.live(0))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.CloseNow() })
		if err := conn.Subscribe(t.Context(), c.games[0].Game, feed.Cursor{}, 0); err != nil {
			t.Fatal(err)
		}
		silent[i] = conn
	}
	until(t, "all are connected", func() bool {
		return c.webs[0].connections()+c.webs[1].connections() == crowdSize/2+len(silent)
	})
	start := time.Now()
	c.webs[0].signal(syscall.SIGTERM)
	c.sayUntil("the process has ended", c.webs[0].ended)
	took := time.Since(start)
	t.Logf("the process ended after %v with %d silent watchers", took, len(silent))
	if took > grace {
		t.Errorf("it took %v, more than its grace", took)
	}
	untold := 0
	for _, conn := range silent {
		var err error
		for err == nil {
			_, err = conn.Read(t.Context())
		}
		if watch.CloseCode(err) != 4000 {
			untold++
		}
	}
	if untold > 0 {
		t.Errorf("%d of %d silent watchers were not told", untold, len(silent))
	}
	c.allHoldAll()
}

// TestTheSurvivorOfAKilledProcessAsksTheTableNoMore kills one of two web processes.
func TestTheSurvivorOfAKilledProcessAsksTheTableNoMore(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, "killed", crowdSize)
	const queries = "feedrenderer_web_hub_queries_total"
	before, start := c.webs[1].metric(queries), time.Now()
	c.webs[0].signal(syscall.SIGKILL)
	var back time.Duration
	c.sayUntil("all are on the other, for a while", func() bool {
		if back == 0 && c.webs[1].connections() == crowdSize {
			back = time.Since(start)
		}
		return back > 0 && time.Since(start) > 10*time.Second
	})
	asked, took := c.webs[1].metric(queries)-before, time.Since(start)
	rate := asked / crowdGames / took.Seconds()
	t.Logf("%d watchers came back within %v; in %v the survivor asked the table %v times, %.2f a game and second", crowdSize/2, back, took, asked, rate)
	if rate >= 1 {
		t.Errorf("the survivor asked the table %.2f times a game and second, want less than 1", rate)
	}
	c.say()
	c.allHoldAll()
}

func (p *program) ended() bool {
	select {
	case <-p.child.Ended():
		return true
	default:
		return false
	}
}
