package feed

// Mode is how a game is played. Anything but the three known modes is unknown, and unknown hides scores.
type Mode string

// Modes of a game.
const (
	ModeUnknown Mode = ""
	ModeClassic Mode = "classic"
	ModeGolden  Mode = "golden"
	ModeBlind   Mode = "blind"
)

// ParseMode reads a mode; every other text is [ModeUnknown].
func ParseMode(s string) Mode {
	switch m := Mode(s); m {
	case ModeClassic, ModeGolden, ModeBlind:
		return m
	}
	return ModeUnknown
}

// Releases reports whether scores of a game known to be of this mode are public from the start.
func (m Mode) Releases() bool { return m == ModeClassic || m == ModeGolden }

// Visibility says who may see a line.
type Visibility string

// A public line is always shown. A score line is hidden until its game is released: its mode is known not to be blind,
// or it was revealed.
const (
	Public Visibility = "public"
	Score  Visibility = "score"
)

// Register names a header field of a game. Each is a register of its own, with the EVT id of the event that wrote it.
type Register string

// The header registers.
const (
	RegisterStatus Register = "status"
	RegisterMode   Register = "mode"
	RegisterPool   Register = "pool"
	RegisterEndsAt Register = "ends_at" // unix milliseconds in decimal
	RegisterTitle  Register = "title"
)

// Registers lists the header registers in a fixed order.
var Registers = [...]Register{RegisterStatus, RegisterMode, RegisterPool, RegisterEndsAt, RegisterTitle}

// Status is where a game stands.
type Status string

// Statuses of a game. A game of which no event said its status is unknown.
const (
	StatusUnknown   Status = ""
	StatusGathering Status = "gathering"
	StatusOpen      Status = "open"
	StatusRevealing Status = "revealing"
	StatusSettled   Status = "settled"
	StatusVoided    Status = "voided"
)

// Final reports whether nothing more is expected of a game of this status.
func (s Status) Final() bool { return s == StatusSettled || s == StatusVoided }

// Tone is the mood in which a page shows a line.
type Tone string

// Tones of a line.
const (
	TonePlain Tone = "plain"
	ToneGood  Tone = "good"
	ToneBad   Tone = "bad"
	ToneLoud  Tone = "loud"
)

// Line is what one rendered event writes: a base, or an amendment, or neither where the event only sets header
// registers. [Base] and [Amendment] are never both set.
type Line struct {
	Game        GameKey
	Event       ID                  // the event that was rendered
	Evt         ID                  // the line it writes: Event itself for a base, the target for an amendment
	KindVersion int                 // of the event's kind; renders anew when it rises
	Base        *Base               //
	Amendment   *Amendment          //
	Sets        map[Register]string // header registers; the source of each is Event
	Reveals     bool                // releases the game, whatever its mode
	Raw         []byte              // the event's fields, packed by [Fields.Raw]
}

// Releases reports whether the release of the game must be looked at after this line was applied, won or stale.
func (l *Line) Releases() bool {
	_, setsMode := l.Sets[RegisterMode]
	return l.Reveals || setsMode
}

// Base is the register that the opening event of a line writes. A write enters iff there is none yet or it was
// rendered from a newer version of its kind.
type Base struct {
	Kind       string            `json:"kind"`
	Text       string            `json:"text"`             // pattern: {field} stands for a shown field
	Icon       string            `json:"icon,omitempty"`   //
	Tone       Tone              `json:"tone,omitempty"`   //
	Actor      string            `json:"actor,omitempty"`  // name of the field that holds the actor
	Show       []string          `json:"show,omitempty"`   // the only fields that ever leave the server
	Only       map[Mode][]string `json:"only,omitempty"`   // fields of Show that are shown in that mode alone
	Fields     map[string]string `json:"fields,omitempty"` // values of Show, those the event had
	Score      []ScoreTerm       `json:"score,omitempty"`  // for the board: the first whose field is a number counts
	Visibility Visibility        `json:"visibility"`       //
}

// ScoreTerm is a way to read a score off a line: the field's number times Factor.
type ScoreTerm struct {
	Field  string  `json:"field"`
	Factor float64 `json:"factor"`
}

// Amendment is the register that corrections and retractions of a line write: the newest by (By, kind version) stands,
// alone. It is a patch against the base, never against an earlier amendment.
type Amendment struct {
	By       ID                `json:"by"`                 // EVT id of the correction or retraction
	Retracts bool              `json:"retracts,omitempty"` //
	Reason   string            `json:"reason,omitempty"`   //
	Text     string            `json:"text,omitempty"`     // stands in place of the base's pattern
	Fields   map[string]string `json:"fields,omitempty"`   // in place of the base's values, where its kind shows them
}
