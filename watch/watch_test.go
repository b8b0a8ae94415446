package watch

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/codemojex/feedrenderer/feed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestState plays random frames of a game, with loss, repetition, overtaking and a new epoch, to a state that asks
// whenever it says so: in the end it holds what the game holds.
func TestState(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lines := map[feed.ID]feed.View{}
		at := feed.Cursor{Epoch: "e1"}
		since := func(ver int64) []feed.View {
			var out []feed.View
			for _, line := range lines {
				if line.Ver > ver {
					out = append(out, line)
				}
			}
			slices.SortFunc(out, func(a, b feed.View) int { return int(a.Ver - b.Ver) })
			return out
		}
		all := func() []feed.View {
			out := since(0)
			slices.SortFunc(out, func(a, b feed.View) int { return int(b.Evt - a.Evt) })
			return out
		}
		header := func() *feed.Game { return &feed.Game{Game: "g1", Cursor: at} }
		snap := func() Frame {
			return Frame{T: "snap", Game: "g1", Epoch: at.Epoch, To: at.Ver, Lines: all(), Header: header()}
		}
		state := State{Game: "g1"}
		answer := func() {
			if state.Cursor.Epoch != at.Epoch {
				state.Apply(Frame{T: "reset", Game: "g1", Reason: "epoch"})
				state.Apply(snap())
				return
			}
			state.Apply(Frame{T: "delta", Game: "g1", Epoch: at.Epoch, From: state.Cursor.Ver, To: at.Ver, Lines: since(state.Cursor.Ver)})
		}
		state.Apply(Frame{T: "lines", Game: "g1", Epoch: "e1", To: 5}) // nothing live comes before the snapshot
		state.Apply(snap())
		var flight []Frame
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0, 1, 2:
				from := at.Ver
				for range rapid.IntRange(0, 3).Draw(t, "lines") {
					at.Ver++
					evt := feed.ID(rapid.IntRange(1, 20).Draw(t, "evt"))
					lines[evt] = feed.View{Evt: evt, Ver: at.Ver}
				}
				flight = append(flight, Frame{T: "lines", Game: "g1", Epoch: at.Epoch, From: from, To: at.Ver, Lines: since(from)})
			case 3, 4:
				if len(flight) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(flight)-1).Draw(t, "frame")
				if state.Apply(flight[i]) {
					answer()
				}
				if rapid.Bool().Draw(t, "once") {
					flight = slices.Delete(flight, i, i+1)
				}
			case 5:
				state.Apply(Frame{T: "game", Game: "g1", Header: header()})
			case 6:
				if rapid.IntRange(0, 4).Draw(t, "renew") == 0 {
					at = feed.Cursor{Epoch: at.Epoch + "x", Ver: int64(len(lines))}
					for i, line := range all() {
						line.Ver = int64(i + 1)
						lines[line.Evt] = line
					}
				}
			}
		}
		answer()
		if state.Cursor != at {
			t.Fatalf("stands at %v, want %v", state.Cursor, at)
		}
		if !slices.EqualFunc(state.Lines, all(), func(a, b feed.View) bool { return a.Evt == b.Evt && a.Ver == b.Ver }) {
			t.Fatalf("holds %v, want %v", state.Lines, all())
		}
	})
}

func TestStateKeepsNoMoreThanItIsToldTo(t *testing.T) {
	t.Parallel()
	state := State{Game: "g1", Keep: 2}
	line := func(n int64) feed.View { return feed.View{Evt: feed.ID(n), Ver: n} }
	state.Apply(Frame{T: "snap", Epoch: "e", To: 3, Lines: []feed.View{line(3), line(2), line(1)}})
	if len(state.Lines) != 2 || !state.Older {
		t.Errorf("holds %v, older %v", state.Lines, state.Older)
	}
	state.Apply(Frame{T: "lines", Epoch: "e", From: 3, To: 4, Lines: []feed.View{{Evt: 1, Ver: 4}}}) // below what is held
	if len(state.Lines) != 2 || state.Cursor.Ver != 4 {
		t.Errorf("holds %v at %v", state.Lines, state.Cursor)
	}
}

// stage is a server that plays a script to each connection.
func stage(t *testing.T, play func(n int64, conn *websocket.Conn)) string {
	t.Helper()
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		play(n.Add(1), conn)
		_ = conn.CloseNow()
	}))
	t.Cleanup(server.Close)
	return "ws" + strings.TrimPrefix(server.URL, "http")
}

func say(conn *websocket.Conn, frame string) {
	_ = conn.Write(context.Background(), websocket.MessageText, []byte(frame))
}

// heard is what the client sent.
func heard(conn *websocket.Conn) string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, data, err := conn.Read(ctx)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func TestClient(t *testing.T) {
	t.Parallel()

	t.Run("ItResumesByCursorAndEndsWhereItIsToldNotToComeBack", func(t *testing.T) {
		t.Parallel()
		asked := make(chan string, 10)
		url := stage(t, func(n int64, conn *websocket.Conn) {
			asked <- heard(conn)
			switch n {
			case 1:
				asked <- heard(conn)
				say(conn, `{"t":"snap","g":"g1","epoch":"e","to":7,"lines":[],"older":false}`)
				say(conn, `{"t":"lines","g":"g1","epoch":"e","from":9,"to":10,"lines":[]}`) // a gap
				asked <- heard(conn)
			case 2:
				_ = heard(conn)
				say(conn, `not a frame`)
				say(conn, `{"t":"bye","after_ms":0,"spread_ms":1}`)
				_ = heard(conn)
			default:
				_ = conn.Close(4500, "never")
			}
		})
		client := New(Config{URLs: []string{url}, Token: "t", Games: []Game{{ID: "g1", Limit: 5}}, Backoff: time.Millisecond})
		err := client.Run(t.Context())
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Code != 4500 {
			t.Errorf("ended with %v", err)
		}
		for _, want := range []string{
			`{"t":"auth","token":"t"}`, `{"t":"sub","g":"g1","limit":5}`, `{"t":"sub","g":"g1","since":"e:7","limit":5}`, `{"t":"auth","token":"t"}`,
		} {
			if got := <-asked; got != want {
				t.Errorf("asked %s, want %s", got, want)
			}
		}
	})

	t.Run("ATickShowsWhatWasLostAndARefusalIsAskedAgain", func(t *testing.T) {
		t.Parallel()
		asked := make(chan string, 10)
		url := stage(t, func(_ int64, conn *websocket.Conn) {
			_ = heard(conn)
			say(conn, `{"t":"err","code":"not_found","msg":"no such game","g":"g1"}`)
			say(conn, `{"t":"tick","now":"2026-01-01T00:00:00.000Z","games":[]}`)
			asked <- heard(conn)
			say(conn, `{"t":"snap","g":"g1","epoch":"e","to":7,"lines":[],"older":false}`)
			say(conn, `{"t":"tick","now":"2026-01-01T00:00:00.000Z","games":[{"g":"g1","to":9,"watchers":3}]}`)
			say(conn, `{"t":"tick","now":"2026-01-01T00:00:00.000Z","games":[{"g":"g1","to":9,"watchers":3}]}`)
			asked <- heard(conn)
			_ = conn.Close(4999, "")
		})
		err := New(Config{URLs: []string{url}, Games: []Game{{ID: "g1"}}}).Run(t.Context())
		var refused *RefusedError
		if !errors.As(err, &refused) {
			t.Errorf("ended with %v", err)
		}
		for _, want := range []string{`{"t":"sub","g":"g1"}`, `{"t":"sub","g":"g1","since":"e:7"}`} {
			if got := <-asked; got != want {
				t.Errorf("asked %s, want %s", got, want)
			}
		}
	})

	t.Run("ItTriesTheNextAddressAndStopsWithItsContext", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		url := stage(t, func(_ int64, conn *websocket.Conn) {
			_ = heard(conn)
			cancel()
			_ = heard(conn)
		})
		client := New(Config{URLs: []string{"ws://127.0.0.1:1/", url}, Games: []Game{{ID: "g1"}}, Backoff: time.Millisecond})
		if err := client.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
}

// FuzzFrame: whatever a server sends is applied or passed over, never a panic.
func FuzzFrame(f *testing.F) {
	for _, seed := range []string{
		`{"t":"snap","g":"g1","epoch":"e","to":7,"lines":[{"evt":"EVT00000000001","ver":3}],"older":true,"game":{"game":"g1","cursor":"e:7"}}`,
		`{"t":"lines","g":"g1","epoch":"e","from":7,"to":8,"lines":[{"evt":"EVT00000000002","ver":8}]}`,
		`{"t":"tick","now":"","games":[{"g":"g1","to":9}]}`, `{"t":"game"}`, `{"t":"err"}`, `null`, `[]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := ParseFrame(data)
		if err != nil {
			return
		}
		state := State{Game: "g1", Keep: 3}
		state.Apply(Frame{T: "snap", Epoch: "e", To: 7, Lines: []feed.View{{Evt: 5, Ver: 5}}})
		state.Apply(frame)
		if len(state.Lines) > 3 {
			t.Errorf("holds %d lines", len(state.Lines))
		}
	})
}
