package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
	"github.com/codemojex/feedrenderer/render"
	"github.com/codemojex/feedrenderer/watch"
)

// TestAReplayBesideLiveWorkBringsWhatIsMissingAndNothingTwice replays a game, with an interruption, while it goes on and
// twenty watch it.
func TestAReplayBesideLiveWorkBringsWhatIsMissingAndNothingTwice(t *testing.T) {
	t.Parallel()
	const tenant = feed.TenantID("replayed")
	s := newSystem(t, serverstest.Valkey(t))
	renderer := s.serve("render", "--tenants", string(tenant)).ready()
	web := s.serve("web", "--tenants", string(tenant)).ready()
	game := feed.GameKey{Tenant: tenant, Game: "g1"}
	begun := time.Now()
	ids := s.appendMany(game, replaySize)
	bad := s.xadd(game.Stream(), "kind", "retracted", "target", "nonsense")
	s.settled(game)
	drained := time.Since(begun)
	replayed := s.goneMissing(game, ids)

	members := make([]*counting, 20)
	for i := range members {
		members[i] = s.counting(web, game)
	}
	until(t, "all watch", func() bool { return web.connections() == len(members) })

	environ := []string{"VALKEY_URL=" + s.valkey, "DATABASE_URL=" + s.database}
	slow, fast := strconv.Itoa(replaySize/10), strconv.Itoa(replaySize)
	begun = time.Now()
	first := start(t, environ, "replay", game.String(), "--rate", slow) // so that there is time to interrupt it
	until(t, "progress is shown", func() bool { return strings.Contains(first.stderr.String(), " %  ") })
	live := s.xadd(game.Stream(), "kind", "notice", "text", "meanwhile")
	first.signal(syscall.SIGINT)
	<-first.child.Ended()
	from := regexp.MustCompile(`to go on: --from (\S+)`).FindStringSubmatch(first.stderr.String())
	if from == nil || first.child.Err() == nil {
		t.Fatalf("an interrupted replay does not say how to go on: %v", first.child.Err())
	}
	rest := start(t, environ, "replay", game.String(), "--rate", fast, "--from", from[1])
	<-rest.child.Ended()
	if err := rest.child.Err(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begun)

	one, other := replayCounts(t, first), replayCounts(t, rest)
	t.Logf("%d events: drained live in %v, replayed at most %s/s and then %s/s in %v: %+v, then %+v", replaySize, drained, slow, fast, took, one, other)
	if read := one.read + other.read; read < replaySize+1 || read > replaySize+3 { // the bad one, perhaps the live one; one was read twice
		t.Errorf("%d entries were read of %d", read, replaySize+1)
	}
	if n := one.changed + other.changed; n != len(replayed) {
		t.Errorf("%d lines were written, %d were missing", n, len(replayed))
	}
	if !strings.Contains(rest.stderr.String(), bad.EntryID()) || other.rejected != 1 {
		t.Errorf("the rejected entry %s is not named", bad.EntryID())
	}
	if n, err := s.client.Do(t.Context(), s.client.B().Xlen().Key(game.DeadLetters()).Build()).ToInt64(); err != nil || n != 1 {
		t.Errorf("%d dead letters, %v; want the one that was there before", n, err)
	}
	if table := lines(t, s.reader(), game); len(table) != replaySize+1 {
		t.Errorf("%d lines in the table, want %d", len(table), replaySize+1)
	}
	replayed[live] = true
	for i, m := range members {
		until(t, "a watcher has what was missing and what came meanwhile", func() bool { return m.has(replayed) })
		m.mu.Lock()
		if m.twice > 0 || m.snaps != 1 || m.sent != 100+len(replayed) {
			t.Errorf("watcher %d: %d lines twice, %d snapshots, %d lines for %d", i, m.twice, m.snaps, m.sent, 100+len(replayed))
		}
		m.mu.Unlock()
	}
	renderer.ready()
}

// appendMany appends so many events to a game that is classic.
func (s *system) appendMany(game feed.GameKey, n int) (ids []feed.ID) {
	s.t.Helper()
	for len(ids) < n {
		batch := make([]feed.Fields, min(500, n-len(ids)))
		for i := range batch {
			batch[i] = feed.Fields{{Name: "kind", Value: "scored"}, {Name: "player", Value: fmt.Sprint("p", i)}, {Name: "pct", Value: fmt.Sprint(i % 101)}}
		}
		if len(ids) == 0 {
			batch[0] = feed.Fields{{Name: "kind", Value: "opened"}, {Name: "mode", Value: "classic"}, {Name: "room", Value: "r"}}
		}
		receipts, err := s.producer.AppendAll(s.t.Context(), game, batch)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, receipt := range receipts {
			if receipt.Err != nil {
				s.t.Fatal(receipt.Err)
			}
			ids = append(ids, receipt.ID)
		}
	}
	return ids
}

// settled waits until the group has nothing left to do in a game.
func (s *system) settled(game feed.GameKey) {
	s.t.Helper()
	until(s.t, "the group has nothing left to do", func() bool {
		exists, err := s.client.Do(s.t.Context(), s.client.B().XinfoGroups().Key(game.Stream()).Build()).ToArray()
		if err != nil || len(exists) == 0 {
			return false
		}
		pending, lag := s.standing(game)
		return pending == 0 && lag == 0
	})
}

// goneMissing takes every hundredth line out of the table, of those below the newest hundred, as no program of ours does.
func (s *system) goneMissing(game feed.GameKey, ids []feed.ID) map[feed.ID]bool {
	s.t.Helper()
	missing := map[feed.ID]bool{}
	var evts []int64
	for i := 50; i < len(ids)-100; i += 100 {
		missing[ids[i]] = true
		evts = append(evts, int64(ids[i]))
	}
	if _, err := s.owner().Exec(s.t.Context(), `delete from lines where tenant = $1 and game = $2 and evt = any($3)`, game.Tenant, game.Game, evts); err != nil {
		s.t.Fatal(err)
	}
	return missing
}

// counting is a member that counts.
type counting struct {
	member
	sent int // lines, guarded by mu
}

func (c *counting) take(state *watch.State, f watch.Frame) {
	c.member.take(state, f)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent += len(f.Lines)
}

// counting watches a game until the test ends, beginning with its newest 100 lines, of which it keeps as many.
func (s *system) counting(web *program, game feed.GameKey) *counting {
	s.t.Helper()
	m := &counting{member: member{held: map[feed.ID]int64{}}}
	client := watch.New(watch.Config{
		URLs:    []string{"ws://" + web.public + "/v1/tenants/" + string(game.Tenant) + "/live"},
		Games:   []watch.Game{{ID: game.Game, Limit: 100, Keep: 100}},
		OnFrame: m.take,
		OnLost:  m.lost,
	})
	ctx, stop := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := client.Run(ctx); ctx.Err() == nil {
			s.t.Errorf("a watcher was sent away for good: %v", err)
		}
	})
	s.t.Cleanup(func() {
		stop()
		running.Wait()
	})
	until(s.t, "a watcher has begun", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.snaps > 0
	})
	return m
}

// has says whether the member was sent all of some lines.
func (m *member) has(evts map[feed.ID]bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for evt := range evts {
		if m.held[evt] == 0 {
			return false
		}
	}
	return true
}

// counts is what a replay says in the end.
type counts struct{ read, changed, same, lineless, rejected int }

var countsPattern = regexp.MustCompile(`^[a-z ]+: (\d+); changed a line: (\d+), nothing new: (\d+), without a line: (\d+), rejected: (\d+)\n$`)

func replayCounts(t *testing.T, p *program) counts {
	t.Helper()
	return parseCounts(t, p.stdout.String())
}

func parseCounts(t *testing.T, said string) (c counts) {
	t.Helper()
	found := countsPattern.FindStringSubmatch(said)
	if found == nil {
		t.Fatalf("it says %q", said)
	}
	for i, into := range []*int{&c.read, &c.changed, &c.same, &c.lineless, &c.rejected} {
		*into, _ = strconv.Atoi(found[1+i]) // digits
	}
	return c
}

func TestBoundsOfAReplay(t *testing.T) {
	t.Parallel()
	id, err := feed.IDOfEntry("1796040987937-28672")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                            "",
		"1796040987937-28672":         "1796040987937-28672",
		id.String():                   "1796040987937-28672",
		"2026-11-30T15:00:00Z":        "1796050800000",
		"2026-11-30T16:00:00.5+01:00": "1796050800500",
	} {
		f := &faults{}
		if got := bound(f, "from", text); got != want || f.err() != nil {
			t.Errorf("%q: got %q, %v, want %q", text, got, f.err(), want)
		}
	}
	for _, text := range []string{"yesterday", "1796040987937", "2026-11-30", "GAM0SUoNEEXNia", "1960-01-01T00:00:00Z"} {
		f := &faults{}
		if bound(f, "from", text); f.err() == nil || !strings.Contains(f.err().Error(), "--from") {
			t.Errorf("%q: got %v", text, f.err())
		}
	}
}

func TestAReplayOfNothingSaysSo(t *testing.T) {
	t.Parallel()
	s := newSystem(t, serverstest.Valkey(t))
	s.run("tenant", "create", "replay-none")
	for arguments, want := range map[string]string{
		"replay replay-nobody/g1":                              "unknown tenant",
		"replay replay-none/g1":                                "replay-none/g1: its stream has no entries there",
		"rerender replay-none/g1 --from g2/EVT0SV7KUvBkHp":     "not in game replay-none/g1",
		"rerender replay-none --from EVT0SV7KUvBkHp --rate 0":  "2 faults",
		"replay replay-none/g1 --kinds /nowhere/at/all --to x": "2 faults",
	} {
		environ := []string{"VALKEY_URL=" + s.valkey, "DATABASE_URL=" + s.database}
		err := run(t.Context(), strings.Fields(arguments), environ, t.Output(), t.Output())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", arguments, err, want)
		}
	}
	if said := parseCounts(t, s.run("rerender", "replay-none")+"\n"); said != (counts{}) {
		t.Errorf("of no lines: %+v", said)
	}
}

func TestProgressInATerminalIsOneLineThatIsDrawnAnew(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	b := &bar{out: &out, terminal: true, begun: time.Now()}
	b.clear()
	b.show(render.Progress{Read: 10, Share: 0.25, At: "1-0"})
	b.show(render.Progress{Read: 11, Share: 0.26, At: "1-1"}) // too soon to be drawn
	b.show(render.Progress{Read: 40, Share: 1, At: "4-0"})
	b.clear()
	b.clear()
	drawn := regexp.MustCompile(`, \d+/s`).ReplaceAllString(out.String(), "")
	want := "\r[##########------------------------------]  25 %  10 events, at 1-0\x1b[K" +
		"\r[########################################] 100 %  40 events, at 4-0\x1b[K" +
		"\r\x1b[K"
	if drawn != want {
		t.Errorf("got %q, want %q", drawn, want)
	}
}
