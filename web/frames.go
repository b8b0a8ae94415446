package web

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/broadcast"
)

// frame is one message of the watch protocol, encoded once; its bytes are shared by all watchers it goes to and are
// never changed.
type frame struct {
	kind  frameKind
	epoch string // of snap, delta, lines
	from  int64  // of delta, lines
	to    int64  // of snap, delta, lines: where the watcher stands after it
	bytes []byte
	lines []byte    // of lines frames: the part of bytes between the brackets
	rung  time.Time // of lines frames: when the first of their commits was rung, zero if that is not known
}

type frameKind int

const (
	frameOther frameKind = iota
	frameSnap
	frameDelta
	frameLines
	frameGame
	frameStreams
)

// moves reports whether the frame takes the watcher to another version.
func (f *frame) moves() bool {
	return f.kind == frameSnap || f.kind == frameDelta || f.kind == frameLines
}

// answers reports whether the frame answers a subscription.
func (f *frame) answers() bool { return f.kind == frameSnap || f.kind == frameDelta }

// Names of games and epochs are letters, digits, '-' and '_': they stand in JSON as they are.

func snapFrame(game feed.GameID, at feed.Cursor, header []byte, lines []broadcast.Line, older bool) frame {
	b := openFrame("snap", game, size(lines)+len(header))
	b = append(b, `,"epoch":"`...)
	b = append(b, at.Epoch...)
	b = append(b, `","to":`...)
	b = strconv.AppendInt(b, at.Ver, 10)
	b = append(b, `,"game":`...)
	b = append(b, header...)
	b = append(b, `,"lines":[`...)
	b = appendLines(b, lines)
	b = append(b, `],"older":`...)
	b = strconv.AppendBool(b, older)
	return frame{kind: frameSnap, epoch: at.Epoch, to: at.Ver, bytes: append(b, '}')}
}

func deltaFrame(game feed.GameID, epoch string, from, to int64, lines []broadcast.Line) frame {
	f := rangeFrame("delta", game, epoch, from, to, size(lines), func(b []byte) []byte { return appendLines(b, lines) })
	f.kind = frameDelta
	return f
}

func linesFrame(game feed.GameID, epoch string, from, to int64, lines []broadcast.Line) frame {
	return rangeFrame("lines", game, epoch, from, to, size(lines), func(b []byte) []byte { return appendLines(b, lines) })
}

// joinFrames makes one lines frame of several that follow each other.
func joinFrames(game feed.GameID, frames []frame) frame {
	if len(frames) == 1 {
		return frames[0]
	}
	total := 0
	var rung time.Time
	for i := range frames {
		total += len(frames[i].lines) + 1
		if rung.IsZero() {
			rung = frames[i].rung
		}
	}
	joined := rangeFrame("lines", game, frames[0].epoch, frames[0].from, frames[len(frames)-1].to, total, func(b []byte) []byte {
		start := len(b)
		for i := range frames {
			if len(frames[i].lines) > 0 && len(b) > start {
				b = append(b, ',')
			}
			b = append(b, frames[i].lines...)
		}
		return b
	})
	joined.rung = rung
	return joined
}

func rangeFrame(t string, game feed.GameID, epoch string, from, to int64, size int, fill func([]byte) []byte) frame {
	b := openFrame(t, game, size)
	b = append(b, `,"epoch":"`...)
	b = append(b, epoch...)
	b = append(b, `","from":`...)
	b = strconv.AppendInt(b, from, 10)
	b = append(b, `,"to":`...)
	b = strconv.AppendInt(b, to, 10)
	b = append(b, `,"lines":[`...)
	start := len(b)
	b = fill(b)
	end := len(b)
	b = append(b, `]}`...)
	return frame{kind: frameLines, epoch: epoch, from: from, to: to, bytes: b, lines: b[start:end:end]}
}

func gameFrame(game feed.GameID, header []byte) frame {
	b := openFrame("game", game, len(header))
	b = append(b, `,"game":`...)
	b = append(b, header...)
	return frame{kind: frameGame, bytes: append(b, '}')}
}

func resetFrame(game feed.GameID, reason string) frame {
	b := openFrame("reset", game, 0)
	b = append(b, `,"reason":"`...)
	b = append(b, reason...)
	return frame{bytes: append(b, `"}`...)}
}

// tickGame is what a tick says of one game.
type tickGame struct {
	Game     feed.GameID `json:"g"`
	To       int64       `json:"to"`
	Watchers int         `json:"watchers"`
}

func tickFrame(now time.Time, games []tickGame) frame {
	return encodeFrame(struct {
		T     string       `json:"t"`
		Now   feed.Instant `json:"now"`
		Games []tickGame   `json:"games"`
	}{"tick", feed.Instant(now), games})
}

func byeFrame(after, spread time.Duration) frame {
	return encodeFrame(struct {
		T      string `json:"t"`
		After  int64  `json:"after_ms"`
		Spread int64  `json:"spread_ms"`
	}{"bye", after.Milliseconds(), spread.Milliseconds()})
}

// Codes of err frames.
const (
	errNotFound = "not_found" // the game is unknown, foreign or forbidden: one answer for all
	errDark     = "suspended" // the tenant is, and the watcher has a right to know
	errFrame    = "bad_frame" // the client's frame is not understood
	errTooMany  = "too_many"  // games on one socket
	errLater    = "unavailable"
)

// msgNotFound is said of whatever is not there, or not there for the one who asks.
const msgNotFound = "no such game"

// goneFrame says of a game that it is not there, or not there for the one who asks, by errNotFound or errDark.
func goneFrame(code string, game feed.GameID) frame {
	msg := msgNotFound
	if code == errDark {
		msg = "the tenant is suspended, subscribe again later"
	}
	return errorFrame(code, msg, game)
}

func errorFrame(code, msg string, game feed.GameID) frame {
	return encodeFrame(struct {
		T    string      `json:"t"`
		Code string      `json:"code"`
		Msg  string      `json:"msg"`
		Game feed.GameID `json:"g,omitempty"`
	}{"err", code, msg, game})
}

var pongFrame = frame{bytes: []byte(`{"t":"pong"}`)}

// encodeFrame encodes a frame of plain strings and numbers, which cannot fail.
func encodeFrame(v any) frame {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode frame %T: %v", v, err))
	}
	return frame{bytes: b}
}

func openFrame(t string, game feed.GameID, size int) []byte {
	b := make([]byte, 0, size+len(game)+160)
	b = append(b, `{"t":"`...)
	b = append(b, t...)
	b = append(b, `","g":"`...)
	b = append(b, game...)
	return append(b, '"')
}

func size(lines []broadcast.Line) int {
	n := 0
	for i := range lines {
		n += len(lines[i].JSON) + 1
	}
	return n
}

func appendLines(b []byte, lines []broadcast.Line) []byte {
	for i := range lines {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, lines[i].JSON...)
	}
	return b
}

// encodeViews encodes lines read from the table as a publisher would.
func encodeViews(views []feed.View) []broadcast.Line {
	lines := make([]broadcast.Line, len(views))
	for i := range views {
		lines[i] = broadcast.Line{Evt: views[i].Evt, Ver: views[i].Ver, JSON: views[i].AppendJSON(nil)}
	}
	return lines
}
