package watch

import (
	"encoding/json"
	"fmt"

	"github.com/codemojex/feedrenderer/feed"
)

// Frame is one message of the server. Which fields are set depends on T.
type Frame struct {
	T      string      `json:"t"` // snap, delta, lines, game, tick, reset, bye, pong or err
	Game   feed.GameID `json:"g"`
	Epoch  string      `json:"epoch"`
	From   int64       `json:"from"`
	To     int64       `json:"to"`
	Lines  []feed.View `json:"lines"`
	Older  bool        `json:"older"`     // snap: more lines exist below
	Header *feed.Game  `json:"game"`      // snap, game
	Reason string      `json:"reason"`    // reset
	Now    string      `json:"now"`       // tick: the server's clock
	Games  []TickGame  `json:"games"`     // tick
	After  int64       `json:"after_ms"`  // bye
	Spread int64       `json:"spread_ms"` // bye
	Code   string      `json:"code"`      // err
	Msg    string      `json:"msg"`       // err
}

// TickGame is what a tick says of one game: its version, and about how many watch it.
type TickGame struct {
	Game     feed.GameID `json:"g"`
	To       int64       `json:"to"`
	Watchers int         `json:"watchers"`
}

// ParseFrame reads a frame. One that cannot be read is a lost frame: the next shows the gap.
func ParseFrame(data []byte) (Frame, error) {
	var f Frame
	if err := json.Unmarshal(data, &f); err != nil {
		return Frame{}, fmt.Errorf("frame not understood: %w", err)
	}
	return f, nil
}

// request is what a client sends.
type request struct {
	T     string      `json:"t"`
	Game  feed.GameID `json:"g,omitempty"`
	Since string      `json:"since,omitempty"`
	Limit int         `json:"limit,omitempty"`
	Token string      `json:"token,omitempty"`
}
