package watch

import (
	"cmp"
	"slices"

	"github.com/codemojex/feedrenderer/feed"
)

// State is what one watcher knows of one game: frames in, the game out. It does no I/O.
//
// A line enters iff its version is above the one held, and stands at the place of its EVT id. A frame up to a version
// already reached is old news; one that begins above it leaves a gap. A header enters iff its cursor is newer.
type State struct {
	Game      feed.GameID
	Cursor    feed.Cursor // where to resume; zero before the first snapshot
	Lines     []feed.View // newest first, an unbroken stretch from the newest down
	Older     bool        // more lines exist below
	Header    *feed.Game
	Watchers  int   // by the last tick, about
	Announced int64 // the version that the last tick spoke of
	Refusal   string
	Keep      int // lines held at most; 0: all
}

// Apply takes a frame of this game, or a tick. It reports true where the state cannot catch up by itself: subscribe
// again from its cursor.
func (s *State) Apply(f Frame) (ask bool) {
	switch f.T {
	case "snap":
		s.snap(f)
	case "delta", "lines":
		return s.follow(f)
	case "game":
		s.head(f.Header)
	case "tick":
		for _, game := range f.Games {
			if game.Game == s.Game {
				s.Watchers, s.Announced = game.Watchers, game.To
			}
		}
	case "err":
		s.Refusal = f.Code
	}
	return false
}

func (s *State) snap(f Frame) {
	if f.Epoch != s.Cursor.Epoch {
		s.Header = nil
	}
	s.Cursor = feed.Cursor{Epoch: f.Epoch, Ver: f.To}
	s.Announced, s.Refusal = f.To, ""
	s.Lines, s.Older = slices.Clone(f.Lines), f.Older
	s.head(f.Header)
	s.trim()
}

func (s *State) follow(f Frame) (ask bool) {
	if s.Cursor == (feed.Cursor{}) { // nothing live comes before the snapshot
		return false
	}
	s.Refusal = ""
	if f.Epoch != s.Cursor.Epoch || f.From > s.Cursor.Ver {
		return true
	}
	if f.To <= s.Cursor.Ver {
		return false
	}
	for _, line := range f.Lines {
		s.put(line)
	}
	s.Cursor.Ver = f.To
	s.trim()
	return false
}

func (s *State) put(line feed.View) {
	i, held := slices.BinarySearchFunc(s.Lines, line.Evt, func(l feed.View, evt feed.ID) int { return cmp.Compare(evt, l.Evt) })
	switch {
	case held:
		if line.Ver > s.Lines[i].Ver {
			s.Lines[i] = line
		}
	case i < len(s.Lines) || !s.Older:
		s.Lines = slices.Insert(s.Lines, i, line)
	}
}

func (s *State) head(game *feed.Game) {
	if game == nil || game.Cursor.Epoch != s.Cursor.Epoch {
		return
	}
	if s.Header == nil || game.Cursor.Ver > s.Header.Cursor.Ver {
		s.Header = game
	}
}

func (s *State) trim() {
	if s.Keep > 0 && len(s.Lines) > s.Keep {
		s.Lines, s.Older = s.Lines[:s.Keep], true
	}
}
