package timeline

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/codemojex/feedrenderer/dedup"
	"github.com/codemojex/feedrenderer/feed"
)

// model is one game as it must come out: the same rules in plain Go, one line after the other.
type model struct {
	lines     map[feed.ID]*modelLine
	headers   map[feed.Register]dedup.Register[string]
	startedBy dedup.Register[feed.ID] // of the stamp -id: the lowest wins
	released  bool
	floor     feed.ID // events at or below it have no say, and their lines are gone; -1 for none
}

type modelLine struct {
	base      dedup.Register[*feed.Base]
	amendment dedup.Register[*feed.Amendment]
}

func newModel(lines ...feed.Line) *model {
	m := &model{lines: make(map[feed.ID]*modelLine), headers: make(map[feed.Register]dedup.Register[string]), floor: -1}
	for i := range lines {
		m.apply(&lines[i])
	}
	return m
}

func (m *model) apply(l *feed.Line) {
	stamp := dedup.Stamp{ID: int64(l.Event), Version: l.KindVersion}
	if l.Evt > m.floor && (l.Base != nil || l.Amendment != nil) {
		stored := m.lines[l.Evt]
		if stored == nil {
			stored = new(modelLine)
			m.lines[l.Evt] = stored
		}
		if l.Base != nil {
			stored.base.Merge(dedup.Of(stamp, l.Base))
		} else {
			stored.amendment.Merge(dedup.Of(stamp, l.Amendment))
		}
	}
	if l.Event <= m.floor {
		return
	}
	for register, value := range l.Sets {
		header := m.headers[register]
		header.Merge(dedup.Of(stamp, value))
		m.headers[register] = header
		if register == feed.RegisterStatus && value == string(feed.StatusOpen) && m.floor < 0 {
			m.startedBy.Merge(dedup.Of(dedup.Stamp{ID: -int64(l.Event)}, l.Event))
		}
	}
	m.released = m.released || l.Reveals || l.Releases() && m.mode().Releases()
}

// expire is what Writer.Expire does; it reports whether that is anything.
func (m *model) expire(before feed.ID) bool {
	status := m.headers[feed.RegisterStatus]
	old := slices.DeleteFunc(slices.Collect(maps.Keys(m.lines)), func(id feed.ID) bool { return id >= before })
	if !feed.Status(status.Value).Final() || feed.ID(status.Stamp.ID) >= before || len(old) == 0 {
		return false
	}
	for _, id := range old {
		delete(m.lines, id)
	}
	m.floor = before - 1
	return true
}

func (m *model) mode() feed.Mode { return feed.ParseMode(m.headers[feed.RegisterMode].Value) }

// seen lists the lines that a watcher may see, newest first.
func (m *model) seen() []feed.ID {
	var ids []feed.ID
	for id, l := range m.lines {
		if l.base.Present && !l.base.Value.Hidden(m.released) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(x, y feed.ID) int { return cmp.Compare(y, x) })
	return ids
}

// views folds them; versions are left 0.
func (m *model) views() []feed.View {
	views := []feed.View{}
	for _, id := range m.seen() {
		views = append(views, feed.Fold(id, m.mode(), m.lines[id].base.Value, m.lines[id].amendment.Value))
	}
	return views
}

// matching folds those that the filters of a page select.
func (m *model) matching(q PageQuery) []feed.View {
	found := []feed.View{}
	for _, view := range m.views() {
		texts := slices.Collect(maps.Values(view.Fields))
		if a := m.lines[view.Evt].amendment.Value; a != nil {
			texts = append(texts, a.Text)
		}
		says := slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(q.Q)) })
		if view.State == feed.Retracted && q.Kind+q.Actor+q.Q != "" || q.Kind != "" && q.Kind != view.Kind ||
			q.Actor != "" && q.Actor != view.Actor || q.Q != "" && !says {
			continue
		}
		found = append(found, view)
	}
	return found
}

// game is the header; the cursor is left empty.
func (m *model) game(key feed.GameKey) feed.Game {
	status := m.headers[feed.RegisterStatus]
	game := feed.Game{
		Game: key.Game, Title: m.headers[feed.RegisterTitle].Value, Status: feed.Status(status.Value), Mode: m.mode(),
		Pool: m.headers[feed.RegisterPool].Value, Released: m.released, Board: m.board(),
	}
	if ms, err := strconv.ParseInt(m.headers[feed.RegisterEndsAt].Value, 10, 64); err == nil {
		game.EndsAt = instant(time.UnixMilli(ms))
	}
	if m.startedBy.Present {
		game.StartedAt = instant(m.startedBy.Value.Time())
	}
	if game.Status.Final() {
		game.EndedAt = instant(feed.ID(status.Stamp.ID).Time())
	}
	actors := make(map[string]bool)
	for _, view := range m.views() {
		if view.State != feed.Retracted {
			game.Counts.Lines++
			actors[view.Actor] = true
		}
	}
	delete(actors, "")
	game.Counts.Players = int64(len(actors))
	return game
}

func (m *model) board() []feed.BoardEntry {
	best := make(map[string]float64)
	for _, id := range m.seen() {
		base, amendment := m.lines[id].base.Value, m.lines[id].amendment.Value
		actor := feed.Fold(id, m.mode(), base, amendment).Actor
		points, ok := feed.Points(m.mode(), base, amendment)
		if held, known := best[actor]; ok && actor != "" && (!known || points > held) {
			best[actor] = points
		}
	}
	board := []feed.BoardEntry{}
	for player, score := range best {
		board = append(board, feed.BoardEntry{Player: player, Score: score})
	}
	slices.SortFunc(board, func(x, y feed.BoardEntry) int {
		return cmp.Or(cmp.Compare(y.Score, x.Score), strings.Compare(x.Player, y.Player))
	})
	return board[:min(len(board), feed.BoardSize)]
}

// history makes a random set of events of one game, in order of their ids, each of them once. Pick chooses one of n.
//
// Modes are such that the end does not depend on the order: once one releases, all later ones do. (The latch is set by
// the mode that a game has when it is looked at, so a game that was classic for a while stays released.)
func history(l line, pick func(n int) int) []feed.Line {
	players := []string{"ann", "bob", "Cyd", ""}
	numbers := []string{"50", "7", "-3", "1.5", "100", "x", "", "1e3", "007", "12345678901234567", "1.", ".5", "-", "0", "٣", "9 ", "-0.25"}
	modes := []feed.Mode{feed.ModeUnknown, feed.ModeBlind, feed.ModeClassic, feed.ModeGolden}
	statuses := []feed.Status{feed.StatusGathering, feed.StatusOpen, feed.StatusRevealing, feed.StatusSettled, feed.StatusVoided}
	texts := []string{"", "", "said anew", "ANN was right"}
	mode := 0
	var events []feed.Line
	for i := range 6 + pick(12) {
		id, player, number := at(i), players[pick(len(players))], numbers[pick(len(numbers))]
		target := at(max(0, i-1-pick(5)) - pick(2))
		fields := map[string]string{"pct": number, "guess": "smuggled", "player": player}
		var event feed.Line
		switch pick(10) {
		case 0:
			event = l.notice(id, "note by "+player)
		case 1, 2, 3:
			event = l.scored(id, player, number)
		case 4:
			mode = max(mode, pick(len(modes)))
			event = l.opened(id, modes[mode])
		case 5:
			event = l.revealed(id, "secret "+number)
			event.Reveals = pick(3) == 0
			if pick(2) == 0 { // a score that one mode alone shows
				event.Base.Visibility, event.Base.Actor, event.Base.Show = feed.Score, "player", append(event.Base.Show, "player", "pct")
				event.Base.Only = map[feed.Mode][]string{feed.ModeGolden: {"pct"}, feed.ModeBlind: {"pct", "player"}}
				event.Base.Fields["player"], event.Base.Fields["pct"] = player, number
				event.Base.Score = []feed.ScoreTerm{{Field: "pct", Factor: 2.5}}
			}
		case 6:
			register := []feed.Register{feed.RegisterPool, feed.RegisterTitle, feed.RegisterEndsAt}[pick(3)]
			event = l.sets(id, register, strconv.Itoa(1772400000000+i))
		case 7:
			event = l.sets(id, feed.RegisterStatus, string(statuses[pick(len(statuses))]))
		case 8:
			event = l.amends(id, target, feed.Amendment{Text: texts[pick(len(texts))], Fields: fields, Reason: number})
		default:
			event = l.retracts(id, target, "because "+number)
		}
		events = append(events, event)
		if pick(4) == 0 {
			events = append(events, renderedAnew(event, pick))
		}
	}
	return events
}

// renderedAnew is the event by a newer version of its kind, which says something else.
func renderedAnew(event feed.Line, pick func(n int) int) feed.Line {
	event = again(event, 2+pick(2))
	version := strconv.Itoa(event.KindVersion)
	if event.Base != nil {
		base := *event.Base
		base.Text += " (version " + version + ")"
		base.Visibility = []feed.Visibility{feed.Public, feed.Score}[pick(2)]
		base.Score = []feed.ScoreTerm{{Field: "pct", Factor: 0.5}}
		event.Base = &base
	} else if event.Amendment != nil {
		amendment := *event.Amendment
		amendment.Reason += " " + version
		event.Amendment = &amendment
	} else if pool, ok := event.Sets[feed.RegisterPool]; ok {
		event.Sets = map[feed.Register]string{feed.RegisterPool: pool + version}
	}
	return event
}

// delivered is the history in some order, each event at least once.
func delivered(events []feed.Line, pick func(n int) int) []feed.Line {
	var out []feed.Line
	for _, event := range events {
		for range 1 + pick(3)/2 + pick(2) {
			out = append(out, event)
		}
	}
	for i := len(out) - 1; i > 0; i-- {
		j := pick(i + 1)
		out[i], out[j] = out[j], out[i]
	}
	return out
}
