package timeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/codemojex/feedrenderer/dedup"
	"github.com/codemojex/feedrenderer/feed"
)

// batch is what one statement writes: every game and every line at most once, as columns.
type batch struct {
	opens bool           // it holds bases alone: no header register, no amendment
	keys  []feed.GameKey // sorted: the order in which games are locked
	games gameColumns
	lines lineColumns
	rows  []row // beside lines
	first []int // of each game, beside keys: its first row; then the number of rows
}

type gameColumns struct {
	tenants, games []string
	events         []int64 // of the game in this batch: by so much its version rises

	// Not of a batch that opens lines alone:
	startedBy []int64 // MaxInt64 where no event of the batch says that the game is open
	registers [len(feed.Registers)]registerColumns
}

type registerColumns struct {
	values   []string
	by       []int64 // -1 where no event of the batch sets it
	versions []int32
}

type lineColumns struct {
	no            []int32 // 1-based index of the game
	ordinals      []int64 // 1-based within the game
	evts          []int64
	baseVersions  []int32 // -1 where there is no base
	public, modal []bool
	actors        []string
	points        []float64 // NaN for none
	bases         []string
	baseRaws      pgtype.FlatArray[[]byte] // as such it is encoded without reflection

	// Likewise:
	amendBys      []int64 // -1 where there is no amendment
	amendVersions []int32
	retracted     []bool
	amendments    []string
	amendRaws     pgtype.FlatArray[[]byte]
}

type lineKey struct {
	game feed.GameKey
	evt  feed.ID
}

type row = dedup.Row[lineKey, part[feed.Base], part[feed.Amendment]]

// part is a register of a line together with what is stored of it.
type part[T any] struct {
	value *T
	json  string
	raw   []byte
}

type header struct {
	events    int64
	startedBy int64
	registers [len(feed.Registers)]dedup.Register[string]
}

// newBatch collapses those inputs of Apply that are listed.
func newBatch(lines []feed.Line, texts []encoded, inputs []int) *batch {
	headers := make(map[feed.GameKey]*header)
	writes := make([]int, 0, len(inputs)) // those with a register of a line
	opens := true
	for _, i := range inputs {
		line := &lines[i]
		h := headers[line.Game]
		if h == nil {
			h = &header{startedBy: math.MaxInt64}
			headers[line.Game] = h
		}
		h.add(line)
		if line.Base != nil || line.Amendment != nil {
			writes = append(writes, i)
		}
		opens = opens && line.Base != nil && len(line.Sets) == 0
	}
	b := &batch{opens: opens, keys: make([]feed.GameKey, 0, len(headers))}
	for key := range headers {
		b.keys = append(b.keys, key)
	}
	slices.SortFunc(b.keys, feed.GameKey.Compare)
	b.addGames(headers)
	slices.SortFunc(writes, func(x, y int) int {
		if order := lines[x].Game.Compare(lines[y].Game); order != 0 {
			return order
		}
		return cmp.Compare(lines[x].Evt, lines[y].Evt)
	})
	b.rows = dedup.Collapse(len(writes), func(n int) row { return rowOf(&lines[writes[n]], &texts[writes[n]]) })
	b.addLines()
	return b
}

func (h *header) add(line *feed.Line) {
	h.events++
	if len(line.Sets) == 0 {
		return
	}
	for i, register := range feed.Registers {
		value, ok := line.Sets[register]
		if !ok {
			continue
		}
		switch register {
		case feed.RegisterMode:
			value = string(feed.ParseMode(value))
		case feed.RegisterEndsAt:
			if _, err := strconv.ParseInt(value, 10, 64); err != nil {
				continue
			}
		case feed.RegisterStatus:
			if feed.Status(value) == feed.StatusOpen {
				h.startedBy = min(h.startedBy, int64(line.Event))
			}
		}
		h.registers[i].Merge(dedup.Of(dedup.Stamp{ID: int64(line.Event), Version: line.KindVersion}, value))
	}
}

func rowOf(line *feed.Line, text *encoded) row {
	r := row{Key: lineKey{line.Game, line.Evt}}
	if line.Base != nil {
		stamp := dedup.Stamp{ID: int64(line.Evt), Version: line.KindVersion}
		r.First = dedup.Of(stamp, part[feed.Base]{line.Base, text.base, line.Raw})
	} else {
		stamp := dedup.Stamp{ID: int64(line.Amendment.By), Version: line.KindVersion}
		r.Second = dedup.Of(stamp, part[feed.Amendment]{line.Amendment, text.amendment, line.Raw})
	}
	return r
}

func (b *batch) addGames(headers map[feed.GameKey]*header) {
	g := &b.games
	for _, key := range b.keys {
		h := headers[key]
		g.tenants = append(g.tenants, string(key.Tenant))
		g.games = append(g.games, string(key.Game))
		g.events = append(g.events, h.events)
		if b.opens {
			continue
		}
		g.startedBy = append(g.startedBy, h.startedBy)
		for i := range h.registers {
			columns, r := &g.registers[i], &h.registers[i]
			by, version := int64(-1), int32(-1)
			if r.Present {
				by, version = r.Stamp.ID, int32(r.Stamp.Version) // #nosec G115 -- checked by encode
			}
			columns.values = append(columns.values, r.Value)
			columns.by = append(columns.by, by)
			columns.versions = append(columns.versions, version)
		}
	}
}

func (b *batch) addLines() {
	n := len(b.rows)
	b.lines = lineColumns{
		no: make([]int32, 0, n), ordinals: make([]int64, 0, n), evts: make([]int64, 0, n), baseVersions: make([]int32, 0, n),
		public: make([]bool, 0, n), modal: make([]bool, 0, n), actors: make([]string, 0, n), points: make([]float64, 0, n),
		bases: make([]string, 0, n), baseRaws: make(pgtype.FlatArray[[]byte], 0, n),
	}
	l := &b.lines
	b.first = make([]int, len(b.keys)+1)
	no := 0
	for i := range b.rows {
		r := &b.rows[i]
		for no == 0 || b.keys[no-1] != r.Key.game {
			b.first[no] = i
			no++
		}
		l.no = append(l.no, int32(no)) // #nosec G115 -- at most one a line of the batch
		l.ordinals = append(l.ordinals, int64(i-b.first[no-1]+1))
		l.evts = append(l.evts, int64(r.Key.evt))
		l.addBase(&r.First, r.Second.Value.value)
		if !b.opens {
			l.addAmendment(&r.Second)
		}
	}
	for ; no <= len(b.keys); no++ {
		b.first[no] = n
	}
}

// game finds a game that an answer names.
func (b *batch) game(key feed.GameKey) (int, error) {
	i, ok := slices.BinarySearchFunc(b.keys, key, feed.GameKey.Compare)
	if !ok {
		return 0, fmt.Errorf("the answer names %s, which was not asked for", key)
	}
	return i, nil
}

// rowsOf are those of a game.
func (b *batch) rowsOf(game int) []row { return b.rows[b.first[game]:b.first[game+1]] }

func (l *lineColumns) addBase(r *dedup.Register[part[feed.Base]], amendment *feed.Amendment) {
	version, public, modal, actor, points := int32(-1), false, false, "", math.NaN()
	if base := r.Value.value; r.Present {
		version = int32(r.Stamp.Version) // #nosec G115 -- checked by encode
		public, modal = base.Visibility == feed.Public, len(base.Only) > 0
		actor = actorOf(base, amendment)
		if n, ok := feed.Points(feed.ModeUnknown, base, amendment); ok {
			points = n
		}
	}
	l.baseVersions = append(l.baseVersions, version)
	l.public = append(l.public, public)
	l.modal = append(l.modal, modal)
	l.actors = append(l.actors, actor)
	l.points = append(l.points, points)
	l.bases = append(l.bases, r.Value.json)
	l.baseRaws = append(l.baseRaws, r.Value.raw)
}

// actorOf is the actor that feed.Fold gives in a game of unknown mode. Where that depends on the mode, reads fold anew.
func actorOf(base *feed.Base, amendment *feed.Amendment) string {
	if !slices.Contains(base.Show, base.Actor) {
		return ""
	}
	if amendment != nil {
		if actor, ok := amendment.Fields[base.Actor]; ok {
			return actor
		}
	}
	return base.Fields[base.Actor]
}

func (l *lineColumns) addAmendment(r *dedup.Register[part[feed.Amendment]]) {
	by, version, retracts := int64(-1), int32(-1), false
	if r.Present {
		by, version = r.Stamp.ID, int32(r.Stamp.Version) // #nosec G115 -- checked by encode
		retracts = r.Value.value.Retracts
	}
	l.amendBys = append(l.amendBys, by)
	l.amendVersions = append(l.amendVersions, version)
	l.retracted = append(l.retracted, retracts)
	l.amendments = append(l.amendments, r.Value.json)
	l.amendRaws = append(l.amendRaws, r.Value.raw)
}
