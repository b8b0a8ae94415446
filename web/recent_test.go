package web

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/broadcast"
)

// history is what the table would say of a game.
type history map[feed.ID]int64

func (h history) since(ver int64) []broadcast.Line {
	var lines []broadcast.Line
	for evt, at := range h {
		if at > ver {
			lines = append(lines, line(evt, at))
		}
	}
	slices.SortFunc(lines, func(a, b broadcast.Line) int { return cmp.Compare(a.Ver, b.Ver) })
	return lines
}

func (h history) newest(n int) ([]broadcast.Line, bool) {
	var lines []broadcast.Line
	for evt, at := range h {
		lines = append(lines, line(evt, at))
	}
	slices.SortFunc(lines, func(a, b broadcast.Line) int { return cmp.Compare(b.Evt, a.Evt) })
	return lines[:min(n, len(lines))], len(lines) > n
}

func line(evt feed.ID, ver int64) broadcast.Line {
	return broadcast.Line{Evt: evt, Ver: ver, JSON: []byte(feed.Cursor{Epoch: evt.String(), Ver: ver}.String())}
}

func same(a, b []broadcast.Line) bool {
	return slices.EqualFunc(a, b, func(a, b broadcast.Line) bool {
		return a.Evt == b.Evt && a.Ver == b.Ver && string(a.JSON) == string(b.JSON)
	})
}

func TestALineThatComesTwiceInOneMessageIsHeldAtItsNewest(t *testing.T) {
	t.Parallel()
	var r recent
	r.open("e", 0)
	r.advance(2, []broadcast.Line{line(1, 1), line(1, 2)})
	if got, _ := r.since(0); !same(got, []broadcast.Line{line(1, 2)}) {
		t.Errorf("holds %v", got)
	}
}

// TestRecent plays commits, overlapping messages, reads further back and forgetting: what is remembered always answers
// as the table would, or not at all; and so does a window that follows it.
func TestRecent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		table := history{}
		ver := int64(0)
		commit := func(n int) {
			for range n {
				ver++
				if rapid.IntRange(0, 3).Draw(t, "visible") > 0 {
					table[feed.ID(rapid.IntRange(1, 30).Draw(t, "evt"))] = ver
				}
			}
		}
		commit(rapid.IntRange(0, 20).Draw(t, "before"))
		var r recent
		r.open("e", ver)
		size := rapid.IntRange(1, 12).Draw(t, "window")
		w := window{ver: ver, limit: size}
		w.lines, w.older = table.newest(size)
		w.lines = slices.Clone(w.lines)
		following := true
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1:
				from := r.last
				commit(rapid.IntRange(1, 5).Draw(t, "commit"))
				overlap := max(0, from-int64(rapid.IntRange(0, 4).Draw(t, "overlap")))
				news := r.advance(ver, table.since(overlap))
				if want := table.since(from); !same(news, want) {
					t.Fatalf("news %v, want %v", news, want)
				}
			case 2:
				from := int64(rapid.IntRange(0, int(ver)).Draw(t, "reach"))
				if !r.reach(from, ver, table.since(from)) {
					t.Fatal("the whole did not connect")
				}
			case 3:
				r.trim(rapid.IntRange(0, 2000).Draw(t, "bytes"))
			case 4:
				if following = following && w.serves(&r, size); following {
					w.follow(&r)
				}
			}
			since := int64(rapid.IntRange(0, int(ver)).Draw(t, "since"))
			got, ok := r.since(since)
			if ok != (since >= r.floor) {
				t.Fatalf("since %d: %v with floor %d", since, ok, r.floor)
			}
			if ok && !same(got, table.since(since)) {
				t.Fatalf("since %d: %v, want %v", since, got, table.since(since))
			}
			if following && w.ver == ver {
				n := rapid.IntRange(1, size).Draw(t, "limit")
				got, older := w.newest(n)
				want, wantOlder := table.newest(n)
				if older != wantOlder || !same(got, want) {
					t.Fatalf("newest %d: %v %v, want %v %v", n, got, older, want, wantOlder)
				}
			}
		}
		bytes := 0
		for _, l := range r.log {
			bytes += len(l.JSON) + lineOverhead
		}
		if bytes != r.bytes {
			t.Fatalf("counts %d bytes, holds %d", r.bytes, bytes)
		}
	})
}
