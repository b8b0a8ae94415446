package render

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/codemojex/feedrenderer/consumer"
	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

// Keeper has what lines were rendered from.
type Keeper interface {
	Kept(ctx context.Context, of feed.GameKey, after feed.GameID, evt feed.ID, limit int) ([]timeline.Kept, error)
	KeptCount(ctx context.Context, of feed.GameKey) (int64, error)
}

// StoredSource gives the events that stored lines were rendered from, where their kind has a newer version now: of the
// base, of the amendment that stands, or both together, so that a line changes once. What was never a line is not among
// them, nor an amendment that a newer one has replaced.
type StoredSource struct {
	keeper Keeper
	kinds  *Kinds
	of     feed.GameKey
	kind   string // "" for all

	game         feed.GameID // behind this line
	evt          feed.ID
	opened       bool
	total, given int64
}

// NewStoredSource makes a source of a game's lines, or of all of a tenant's where of.Game is "". kind chooses events of one
// kind, "" all. from is a place that [StoredSource.Next] gave, or "" for the first.
func NewStoredSource(keeper Keeper, kinds *Kinds, of feed.GameKey, kind, from string) (*StoredSource, error) {
	s := &StoredSource{keeper: keeper, kinds: kinds, of: of, kind: kind}
	if from == "" {
		return s, nil
	}
	game, evt, ok := strings.Cut(from, "/")
	if !ok {
		return nil, fmt.Errorf("place %.100q: want the game and the EVT id of a line, GAME/EVT", from)
	}
	var err error
	if s.game, err = feed.ParseGameID(game); err != nil {
		return nil, err
	}
	if s.evt, err = feed.ParseID(evt); err != nil {
		return nil, err
	}
	if of.Game != "" && of.Game != s.game {
		return nil, fmt.Errorf("place %s is not in game %s", from, of)
	}
	return s, nil
}

// Next implements [Source]. The text is GAME/EVT of the last line that was looked at.
func (s *StoredSource) Next(ctx context.Context, n int) (page []consumer.Message, at string, err error) {
	if !s.opened {
		if s.total, err = s.keeper.KeptCount(ctx, s.of); err != nil {
			return nil, "", err
		}
		s.opened = true
	}
	kept, err := s.keeper.Kept(ctx, s.of, s.game, s.evt, max(1, n/2)) // two events of a line at most
	if err != nil || len(kept) == 0 {
		return nil, "", err
	}
	for _, k := range kept {
		for _, event := range []timeline.KeptEvent{k.Base, k.Amendment} {
			message, due, err := s.message(k.Game, event)
			if err != nil {
				return nil, "", fmt.Errorf("line %s of %s/%s: %w", k.Evt, s.of.Tenant, k.Game, err)
			}
			if due {
				page = append(page, message)
			}
		}
	}
	last := kept[len(kept)-1]
	s.game, s.evt = last.Game, last.Evt
	s.given += int64(len(kept))
	return page, string(s.game) + "/" + s.evt.String(), nil
}

// message is the entry that the event came in. due says whether it renders anew.
func (s *StoredSource) message(game feed.GameID, event timeline.KeptEvent) (m consumer.Message, due bool, err error) {
	if event.Version < 0 {
		return m, false, nil
	}
	fields, err := feed.ParseRaw(event.Raw)
	if err != nil {
		return m, false, err
	}
	name := cmp.Or(fields.Kind(), feed.KindUnnamed)
	if s.kind != "" && s.kind != name || s.kinds.version(name) <= event.Version {
		return m, false, nil
	}
	m = consumer.Message{
		Stream: feed.GameKey{Tenant: s.of.Tenant, Game: game}.Stream(), EntryID: event.ID.EntryID(), Attempts: 1,
		Fields: append(make(consumer.Fields, 0, len(fields)+1), consumer.Field{Name: "id", Value: event.ID.String()}),
	}
	for name, value := range fields.All() {
		m.Fields = append(m.Fields, consumer.Field{Name: name, Value: value})
	}
	return m, true, nil
}

// Share implements [Source].
func (s *StoredSource) Share() float64 {
	if s.total == 0 {
		return 1
	}
	return min(1, float64(s.given)/float64(s.total))
}

// version is that of the kind as it is described now, 0 where it is not.
func (k *Kinds) version(name string) int {
	if kind, ok := k.byName[name]; ok {
		return kind.version
	}
	return 0
}
