package feed

// Game is the header of a game as every answer and frame carries it.
type Game struct {
	Game      GameID       `json:"game"`
	Title     string       `json:"title,omitempty"`
	Status    Status       `json:"status"`
	Mode      Mode         `json:"mode,omitempty"`
	Pool      string       `json:"pool,omitempty"`
	EndsAt    *Instant     `json:"ends_at,omitempty"`
	StartedAt *Instant     `json:"started_at,omitempty"` // the earliest event that said the game is open
	EndedAt   *Instant     `json:"ended_at,omitempty"`   // the event that set the final status
	Released  bool         `json:"released"`
	Counts    Counts       `json:"counts"`
	Board     []BoardEntry `json:"board"` // best first, at most 20
	Cursor    Cursor       `json:"cursor"`
}

// Counts are derived from the lines that may be seen.
type Counts struct {
	Lines   int64 `json:"lines"`
	Players int64 `json:"players"` // distinct actors
}

// BoardEntry is the best score of a player.
type BoardEntry struct {
	Player string  `json:"player"`
	Score  float64 `json:"score"`
}

// BoardSize is the number of players a board shows.
const BoardSize = 20

// Change is what one batch altered in one game: versions (From, To], which touch the version before and the one after.
// From equals To where nothing changed.
type Change struct {
	Game     GameKey
	Epoch    string
	From, To int64
	Released bool // state of the game at To
	Mode     Mode // likewise
	Lines    []ChangedLine
}

// ChangedLine is a line that a batch altered, as it is stored at its version. It has a base: an amendment that still
// waits for its original is nobody's to see and is left out.
type ChangedLine struct {
	Evt       ID
	Ver       int64
	Base      *Base
	Amendment *Amendment // nil where there is none
}

// Views folds the changed lines for watchers, the hidden ones left out, in order of version.
func (c *Change) Views() []View {
	views := make([]View, 0, len(c.Lines))
	for _, line := range c.Lines {
		if line.Base.Hidden(c.Released) {
			continue
		}
		view := Fold(line.Evt, c.Mode, line.Base, line.Amendment)
		view.Ver = line.Ver
		views = append(views, view)
	}
	return views
}
