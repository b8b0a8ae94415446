package timeline

import (
	"slices"
	"strings"
	"testing"

	"github.com/codemojex/feedrenderer/feed"
)

func TestABadRowCostsThatRow(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	batch := func(g line, bad int, value string) []feed.Line {
		var lines []feed.Line
		for i := range 500 {
			text := "fine"
			if i == bad {
				text = value
			}
			lines = append(lines, g.notice(at(0)+feed.ID(i), text))
		}
		return lines
	}
	refused := func(t *testing.T, lines []feed.Line, reason string, want ...int) {
		t.Helper()
		applied, err := s.Apply(t.Context(), lines)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, r := range applied.Rejected {
			got = append(got, r.Index)
			if !strings.Contains(r.Reason, reason) {
				t.Errorf("input %d: reason %q, want one with %q", r.Index, r.Reason, reason)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("rejected %v, want %v", got, want)
		}
		if shown := len(s.rows(t, lines[0].Game)); shown != min(500, len(lines)-len(want)) {
			t.Errorf("%d lines are shown", shown)
		}
	}
	t.Run("ANulInAShownField", func(t *testing.T) {
		t.Parallel()
		refused(t, batch(line{"acme", "nul"}, 250, "a\x00b"), "field text: holds a NUL byte", 250)
	})
	t.Run("InvalidUTF8InAShownField", func(t *testing.T) {
		t.Parallel()
		refused(t, batch(line{"acme", "utf8"}, 499, "a\xffb"), "field text: is not valid UTF-8", 499)
	})
	t.Run("AnythingInTheRawPayloadIsFine", func(t *testing.T) {
		t.Parallel()
		lines := batch(line{"acme", "raw"}, 0, "fine")
		lines[7].Raw = feed.Fields{{Name: "guess\xff", Value: "\x00\xfe"}}.Raw()
		refused(t, lines, "")
	})
	t.Run("ANumberThatDoesNotFit", func(t *testing.T) {
		t.Parallel()
		lines := batch(line{"acme", "number"}, 0, "fine")
		lines[3].KindVersion = 1 << 40
		lines[4].Base.Score = []feed.ScoreTerm{{Field: "text", Factor: 1e308}}
		lines[5].Event, lines[5].Evt = -1, -1
		refused(t, lines, "", 3, 4, 5)
	})
	t.Run("MoreThanALineHolds", func(t *testing.T) {
		t.Parallel()
		lines := batch(line{"acme", "huge"}, 0, "fine")[:3]
		lines[1].Raw = make([]byte, maxLineBytes)
		refused(t, lines, "bytes: at most", 1)
	})
	t.Run("TextInAHeader", func(t *testing.T) {
		t.Parallel()
		g := line{"acme", "header"}
		refused(t, []feed.Line{g.notice(at(1), "a"), g.sets(at(2), feed.RegisterTitle, "\x00")}, "header title", 1)
	})

	// What only the database refuses is found by halves.
	poisoned := newStore(t)
	poisoned.exec(t, `alter table lines add check (base #>> '{fields,text}' is distinct from 'poison')`)
	t.Run("AFaultThatOnlyTheDatabaseSees", func(t *testing.T) {
		t.Parallel()
		g := line{"acme", "halves"}
		lines := batch(g, 123, "poison")
		lines = append(lines, lines[123], g.corrects(at(9), lines[123].Evt, map[string]string{"text": "x"}), line{"acme", "other"}.notice(at(1), "a"))
		applied, err := poisoned.Apply(t.Context(), lines)
		if err != nil {
			t.Fatal(err)
		}
		if len(applied.Rejected) != 2 || applied.Rejected[0].Index != 123 || applied.Rejected[1].Index != 500 {
			t.Errorf("rejected %+v", applied.Rejected)
		}
		if n := poisoned.game(t, g.key()).Counts.Lines; n != 499 {
			t.Errorf("%d lines are shown", n)
		}
		expect(t, poisoned.texts(t, feed.GameKey{Tenant: "acme", Game: "other"}), "a")
		assertChain(t, applied.Changes)
	})
}
