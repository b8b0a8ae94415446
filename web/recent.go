package web

import (
	"cmp"
	"slices"
	"sort"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/broadcast"
)

// recent is what a hub remembers of its game: every line that changed above a version, the floor, each once and at its
// newest. It answers "changes since" any cursor from the floor on as the table would, without asking it.
type recent struct {
	epoch       string // "" until something was read
	floor, last int64  // the log holds what changed in (floor, last]
	log         []broadcast.Line
	newest      map[feed.ID]int64 // version under which a line of the log stands; older entries of it are blank
	bytes       int
}

// lineOverhead is what a line of the log costs beside its bytes.
const lineOverhead = 64

func (r *recent) opened() bool { return r.epoch != "" }

func (r *recent) cursor() feed.Cursor { return feed.Cursor{Epoch: r.epoch, Ver: r.last} }

// open begins anew at a version, remembering nothing.
func (r *recent) open(epoch string, ver int64) {
	*r = recent{epoch: epoch, floor: ver, last: ver, newest: map[feed.ID]int64{}}
}

// advance moves on to a version and returns what is new: the lines, all of (from, to] for some from at or below last,
// without those already known.
func (r *recent) advance(to int64, lines []broadcast.Line) []broadcast.Line {
	news := lines[sort.Search(len(lines), func(i int) bool { return lines[i].Ver > r.last }):]
	for _, line := range news {
		if ver, ok := r.newest[line.Evt]; ok {
			r.blank(ver)
		}
		r.newest[line.Evt] = line.Ver
		r.bytes += len(line.JSON) + lineOverhead
		r.log = append(r.log, line)
	}
	r.last = to
	return news
}

// blank takes the bytes of an entry that a newer one of the same line replaces.
func (r *recent) blank(ver int64) {
	i := r.above(ver - 1)
	r.bytes -= len(r.log[i].JSON)
	r.log[i].JSON = nil
}

// above is the index of the first entry of a version above ver.
func (r *recent) above(ver int64) int {
	return sort.Search(len(r.log), func(i int) bool { return r.log[i].Ver > ver })
}

// reach remembers further back: lines are what the table says changed in (from, to]. It fails where that does not
// connect with what is remembered.
func (r *recent) reach(from, to int64, lines []broadcast.Line) bool {
	if from >= r.floor {
		return true
	}
	if to < r.floor {
		return false
	}
	var before []broadcast.Line
	for _, line := range lines {
		if _, known := r.newest[line.Evt]; line.Ver <= r.floor && !known {
			before = append(before, line)
			r.newest[line.Evt] = line.Ver
			r.bytes += len(line.JSON) + lineOverhead
		}
	}
	r.log = append(before, r.log...)
	r.floor = from
	return true
}

// since answers what changed after a version up to last, in order of version; false where that is not remembered.
func (r *recent) since(ver int64) ([]broadcast.Line, bool) {
	if ver < r.floor || ver > r.last {
		return nil, false
	}
	tail := r.log[r.above(ver):]
	lines := make([]broadcast.Line, 0, len(tail))
	for _, line := range tail {
		if line.JSON != nil {
			lines = append(lines, line)
		}
	}
	return lines, true
}

// trim forgets the oldest entries until the log is within its bound.
func (r *recent) trim(bound int) {
	n := 0
	for ; n < len(r.log) && r.bytes > bound; n++ {
		line := r.log[n]
		r.bytes -= len(line.JSON) + lineOverhead
		if line.JSON != nil {
			delete(r.newest, line.Evt)
		}
		r.floor = line.Ver
	}
	if n > 0 {
		r.log = slices.Clone(r.log[n:])
	}
}

// window is the newest lines of a game as one snapshot showed them, brought up to date from what is remembered.
type window struct {
	ver   int64
	limit int              // it holds so many lines, or all there are
	lines []broadcast.Line // newest first, by EVT id
	older bool             // more exist below
}

// serves reports whether the window can be brought to the version of r and then show so many lines.
func (w *window) serves(r *recent, limit int) bool {
	return w != nil && w.ver >= r.floor && w.ver <= r.last && (limit <= w.limit || !w.older)
}

// follow brings the window to the version of r, which must reach back to it.
func (w *window) follow(r *recent) {
	changes, _ := r.since(w.ver)
	for _, line := range changes {
		i, held := slices.BinarySearchFunc(w.lines, line.Evt, func(l broadcast.Line, evt feed.ID) int { return cmp.Compare(evt, l.Evt) })
		switch {
		case held:
			w.lines[i] = line
		case i < len(w.lines) || !w.older:
			w.lines = slices.Insert(w.lines, i, line)
		}
	}
	if len(w.lines) > w.limit {
		w.lines, w.older = w.lines[:w.limit], true
	}
	w.ver = r.last
}

// newest gives the first n lines, and whether more exist.
func (w *window) newest(n int) (lines []broadcast.Line, older bool) {
	if n < len(w.lines) {
		return w.lines[:n], true
	}
	return w.lines, w.older
}
