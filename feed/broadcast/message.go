package broadcast

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/codemojex/feedrenderer/feed"
)

// Message is what one commit says of one game: it moved from version From to version To, and these lines of it changed.
type Message struct {
	Game     feed.GameKey
	Epoch    string
	From, To int64     // the range (From, To]; equal where nothing changed
	At       time.Time // of the ringing, right after the commit, by the publisher's clock; zero if it does not say
	Bare     bool      // the lines were too many to be carried: read them from the table
	Lines    []Line    // in order of version, those that may be seen
}

// Line is a changed line, encoded once by the publisher: its bytes go to every watcher as they are.
type Line struct {
	Evt  feed.ID
	Ver  int64
	JSON json.RawMessage // a [feed.View]
}

// Count is how many watchers of a game a process has.
type Count struct {
	Game     feed.GameKey
	Process  string
	Watchers int
}

// InlineBytes bounds the lines of a message, encoded: a larger change rings bare.
const InlineBytes = 32 << 10

// maxMessageBytes bounds what is decoded at all, far above anything a publisher of ours sends.
const maxMessageBytes = 1 << 20

// wire is either a message or a count, which alone has a process.
type wire struct {
	By      string            `json:"by,omitempty"` // the process that rang, if it has listeners itself
	Tenant  feed.TenantID     `json:"tenant"`
	Game    feed.GameID       `json:"game"`
	Epoch   string            `json:"epoch,omitempty"`
	From    int64             `json:"from"`
	To      int64             `json:"to"`
	At      int64             `json:"at,omitempty"`   // ms since 1970
	Lines   []json.RawMessage `json:"lines,omitzero"` // absent: bare
	Process string            `json:"process,omitempty"`
	N       int               `json:"n,omitempty"`
}

// channel is where a game's messages are published: feed:{tenant}:game.
func channel(game feed.GameKey) string {
	return "feed:{" + string(game.Tenant) + "}:" + string(game.Game)
}

// openOf is how a message begins that a process rang which has listeners itself.
func openOf(process string) string { return `{"by":"` + process + `",` }

// encode makes the message of a change, and what wire reads of it, from whose bytes the message has its lines. Names of
// tenants and games and epochs are letters, digits, '-' and '_': they stand in JSON as they are.
func encode(change *feed.Change, at time.Time, open string) (Message, []byte) {
	m := Message{Game: change.Game, Epoch: change.Epoch, From: change.From, To: change.To, At: at}
	views := change.Views()
	b := make([]byte, 0, 256+240*len(views))
	b = append(b, open...)
	b = append(append(b, `"tenant":"`...), change.Game.Tenant...)
	b = append(append(b, `","game":"`...), change.Game.Game...)
	b = append(append(b, `","epoch":"`...), change.Epoch...)
	b = strconv.AppendInt(append(b, `","from":`...), change.From, 10)
	b = strconv.AppendInt(append(b, `,"to":`...), change.To, 10)
	b = strconv.AppendInt(append(b, `,"at":`...), at.UnixMilli(), 10)
	bare := len(b)
	b = append(b, `,"lines":[`...)
	start := len(b)
	ends := make([]int, len(views))
	for i := range views {
		if i > 0 {
			b = append(b, ',')
		}
		if b = views[i].AppendJSON(b); len(b)-start >= InlineBytes {
			m.Bare = true
			return m, append(b[:bare], '}')
		}
		ends[i] = len(b)
	}
	m.Lines = make([]Line, len(views))
	for i := range views {
		m.Lines[i] = Line{Evt: views[i].Evt, Ver: views[i].Ver, JSON: b[start:ends[i]:ends[i]]}
		start = ends[i] + 1
	}
	return m, append(b, "]}"...)
}

// decode reads what was published on the channel of a game: a message, or a count where that is not nil. Anything a
// publisher of ours cannot have sent is an error: another game's, a range that runs backwards, lines out of order.
func decode(game feed.GameKey, data []byte) (Message, *Count, error) {
	if len(data) > maxMessageBytes {
		return Message{}, nil, fmt.Errorf("message of %d bytes, at most %d are read", len(data), maxMessageBytes)
	}
	if bytes.ContainsAny(data, "\r\n") { // its lines go into event streams as they are
		return Message{}, nil, errors.New("message with line breaks")
	}
	var in wire
	if err := json.Unmarshal(data, &in); err != nil {
		return Message{}, nil, fmt.Errorf("decode message: %w", err)
	}
	if in.Tenant != game.Tenant || in.Game != game.Game {
		return Message{}, nil, fmt.Errorf("message of another game: %.120q", string(in.Tenant)+"/"+string(in.Game))
	}
	if in.Process != "" {
		if in.N < 0 {
			return Message{}, nil, fmt.Errorf("%d watchers", in.N)
		}
		return Message{}, &Count{Game: game, Process: in.Process, Watchers: in.N}, nil
	}
	if _, err := feed.ParseCursor(feed.Cursor{Epoch: in.Epoch, Ver: in.To}.String()); err != nil {
		return Message{}, nil, fmt.Errorf("decode message: %w", err)
	}
	if in.From < 0 || in.From > in.To {
		return Message{}, nil, fmt.Errorf("message from %d to %d", in.From, in.To)
	}
	message := Message{Game: game, Epoch: in.Epoch, From: in.From, To: in.To, Bare: in.Lines == nil}
	if in.At > 0 {
		message.At = time.UnixMilli(in.At)
	}
	message.Lines = make([]Line, len(in.Lines))
	above := in.From
	for i, raw := range in.Lines {
		var head struct {
			Evt feed.ID `json:"evt"`
			Ver int64   `json:"ver"`
		}
		if err := json.Unmarshal(raw, &head); err != nil {
			return Message{}, nil, fmt.Errorf("decode line %d of a message: %w", i, err)
		}
		if head.Ver <= above || head.Ver > in.To {
			return Message{}, nil, fmt.Errorf("line of version %d after %d in a message up to %d", head.Ver, above, in.To)
		}
		above = head.Ver
		message.Lines[i] = Line{Evt: head.Evt, Ver: head.Ver, JSON: raw}
	}
	return message, nil, nil
}
