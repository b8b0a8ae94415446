package timeline

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codemojex/feedrenderer/feed"
)

// Another writer shows a line by a version that the re-rendering has not seen when it begins, and that it hides.
func TestARerenderingSeesWhatItHidesUnderTheLock(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	rerenderer := NewRerenderer(openPool(t, s.url, RoleRender))
	scored := func(version int, visibility feed.Visibility) feed.Line {
		l := again(g1.scored(at(1), "ann", "50"), version)
		l.Base.Visibility = visibility
		return l
	}
	s.apply(t, scored(1, feed.Score))
	before := s.game(t, g1.key()).Cursor

	owner := s.owner(t)
	other, err := owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(t.Context(), `update games set ver = ver + 1 where game = 'g1'`); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(t.Context(), `
update lines set ver = ver + 1, base_kv = 2, public = true, base = jsonb_set(base, '{visibility}', '"public"') where game = 'g1'`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := rerenderer.Apply(t.Context(), []feed.Line{scored(3, feed.Score)})
		done <- err
	}()
	watching := s.owner(t)
	for deadline := time.Now().Add(patience); ; {
		var waits bool
		if err := watching.QueryRow(t.Context(), `select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		if waits {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the re-rendering does not wait for the lock")
		}
	}
	if err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if after := s.game(t, g1.key()).Cursor; after.Epoch == before.Epoch {
		t.Errorf("a line that was shown is hidden, and the epoch is still %s", after.Epoch)
	}
	expect(t, s.texts(t, g1.key()))
}

func TestARerendererWritesAsAnyWriter(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	rerenderer := NewRerenderer(openPool(t, s.url, RoleRender))
	lines := []feed.Line{g1.opened(at(0), feed.ModeClassic), g1.scored(at(1), "ann", "50"), g1.corrects(at(2), at(1), map[string]string{"pct": "51"})}
	s.apply(t, lines...)
	for i := range lines {
		lines[i].KindVersion = 2
		if lines[i].Base != nil {
			lines[i].Base.Text += "!"
		}
	}
	bad := g1.notice(at(3), "a\x00b")
	for range 2 { // again is stale
		applied, err := rerenderer.Apply(t.Context(), append(lines, bad))
		if err != nil || len(applied.Rejected) != 1 || applied.Rejected[0].Index != len(lines) {
			t.Errorf("got %v, %v", applied.Rejected, err)
		}
	}
	expect(t, s.texts(t, g1.key()), "ann scored 51 %!", "classic game opened!")
}

func TestKeptEventsInOrderOfGameAndLine(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var want []string
	for _, name := range []feed.GameID{"G", "g", "g-1", "g_1", "z"} {
		g := line{Tenant: "acme", Game: name}
		s.apply(t, g.notice(at(1), "a"), g.notice(at(2), "b"), g.retracts(at(3), at(2), ""), g.corrects(at(5), at(4), nil))
		for i, versions := range [][2]int{{1, -1}, {1, 1}, {-1, 1}} {
			want = append(want, fmt.Sprint(name, at([]int{1, 2, 4}[i]), versions))
		}
	}
	s.apply(t, line{Tenant: "other", Game: "g"}.notice(at(1), "a"))
	read := func(of feed.GameKey, limit int) (got []string) {
		t.Helper()
		game, evt := feed.GameID(""), feed.ID(0)
		for {
			kept, err := s.Kept(t.Context(), of, game, evt, limit)
			if err != nil {
				t.Fatal(err)
			}
			if len(kept) == 0 {
				return got
			}
			for _, k := range kept {
				got = append(got, fmt.Sprint(k.Game, k.Evt, [2]int{k.Base.Version, k.Amendment.Version}))
				game, evt = k.Game, k.Evt
			}
		}
	}
	if diff := cmp.Diff(want, read(feed.GameKey{Tenant: "acme"}, 2)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want[3:6], read(feed.GameKey{Tenant: "acme", Game: "g"}, 1)); diff != "" {
		t.Error(diff)
	}
	for of, want := range map[feed.GameKey]int64{{Tenant: "acme"}: 15, {Tenant: "acme", Game: "g"}: 3, {Tenant: "nobody"}: 0} {
		if n, err := s.KeptCount(t.Context(), of); err != nil || n != want {
			t.Errorf("%s: got %d, %v, want %d", of, n, err, want)
		}
	}
}
