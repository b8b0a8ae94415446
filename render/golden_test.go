package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codemojex/feedrenderer/feed"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden is one file of testdata/golden: an event, what it writes, and what watchers read.
type golden struct {
	Event [][2]string      `json:"event"` // names and values
	Line  *feed.Line       `json:"line"`  // null: nothing is written
	Error string           `json:"error,omitempty"`
	Views map[string]*view `json:"views,omitempty"` // by mode, and whether the game is released; null: the line is hidden
}

type view struct {
	feed.View
	Points *float64 `json:"points,omitempty"` // for the board
}

// An amendment is folded over this line.
var amended = event("scored", "player", "ann", "pct", "87", "eff", "522", "guess", "GES0SUoNEEXNia")

var scenes = map[string]feed.Event{
	"opened":               event("opened", "room", "ROM0SUoNEEXNia", "mode", "blind", "prize", "500", "ends_ms", "1796040987937"),
	"opened_titled":        event("opened", "room", "Den", "mode", "chess960", "title", "Friday night", "ends_ms", "soon"),
	"joined":               event("joined", "player", "ann", "balance", "900", "chat_id", "77"),
	"gathered":             event("gathered", "paid", "300", "threshold", "500"),
	"guessed":              event("guessed", "player", "ann", "guess", "🍎🍊🍋🍇🍓🍒"),
	"scored":               event("scored", "player", "ann", "pct", "87", "eff", "522", "guess", "🍎🍊🍋🍇🍓🍒"),
	"scored_pct_only":      event("scored", "player", "ann", "pct", "87"),
	"scored_bare":          event("scored"),
	"locked":               event("locked", "player", "ann", "positions", "1,4"),
	"golden_win":           event("golden_win", "player", "ann", "diamonds", "250"),
	"revealed":             event("revealed", "commitment", hashOf(strings.Split("🍎 🍊 🍋 🍇 🍓 🍒", " "), "n1"), "secret", "🍎 🍊 🍋 🍇 🍓 🍒", "nonce", "n1"),
	"revealed_mismatch":    event("revealed", "commitment", hashOf(strings.Split("🍎 🍊 🍋 🍇 🍓 🍒", " "), "n1"), "secret", "🍒 🍊 🍋 🍇 🍓 🍎", "nonce", "n1"),
	"settled":              event("settled", "winner", "ann", "pot", "500", "balance", "1400"),
	"voided":               event("voided", "reason", "not enough players"),
	"notice":               event("notice", "text", "<b>Five minutes left</b>"),
	"corrected":            event("corrected", "target", (eventID - 1).String(), "fields", `{"pct":"90","eff":"540","guess":"🍎"}`, "reason", "recount"),
	"corrected_text":       event("corrected", "target", (eventID - 1).String(), "text", "ann scored well", "fields", `{"player":"bea"}`),
	"corrected_bad_fields": event("corrected", "target", (eventID - 1).String(), "fields", `{"pct":90}`),
	"retracted":            event("retracted", "target", (eventID - 1).String(), "reason", "cheated"),
	"retracted_forward":    event("retracted", "target", (eventID + 1).String()),
	"unknown":              event("power_up", "player", "ann", "secret", "🍎"),
	"unnamed":              event(""),
}

// go test ./render -run Golden -update writes the files anew.
func TestGolden(t *testing.T) {
	t.Parallel()
	kinds := load(t, nil)
	for name, e := range scenes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := json.MarshalIndent(play(t, kinds, e), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, '\n')
			path := filepath.Join("testdata", "golden", name+".json")
			if *update {
				if err := os.WriteFile(path, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}

	t.Run("EveryKindHasAFileAndEveryFileAScene", func(t *testing.T) {
		t.Parallel()
		for kind := range kinds.byName {
			if _, ok := scenes[kind]; !ok {
				t.Errorf("kind %s has no scene", kind)
			}
		}
		files, err := filepath.Glob("testdata/golden/*.json")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if _, ok := scenes[strings.TrimSuffix(filepath.Base(file), ".json")]; !ok {
				t.Errorf("%s is of no scene", file)
			}
		}
	})
}

func play(t *testing.T, kinds *Kinds, e feed.Event) golden {
	t.Helper()
	out := golden{}
	for _, field := range e.Fields {
		out.Event = append(out.Event, [2]string{field.Name, field.Value})
	}
	line, skip, err := kinds.Render(e)
	if err != nil {
		out.Error = err.Error()
	}
	if err != nil || skip {
		return out
	}
	line.Raw = nil // as in Event
	out.Line = &line
	base := line.Base
	if line.Amendment != nil {
		original, _, err := kinds.Render(amended)
		if err != nil {
			t.Fatal(err)
		}
		base = original.Base
	}
	out.Views = make(map[string]*view)
	for _, mode := range append([]feed.Mode{feed.ModeUnknown}, modes...) {
		for _, released := range []bool{false, true} {
			if mode.Releases() && !released {
				continue // there is no such game for longer than a moment
			}
			state := map[bool]string{false: "unreleased", true: "released"}[released]
			if mode == feed.ModeUnknown {
				state = "mode unknown, " + state
			} else {
				state = string(mode) + ", " + state
			}
			out.Views[state] = nil
			if base.Hidden(released) {
				continue
			}
			seen := view{View: feed.Fold(line.Evt, mode, base, line.Amendment)}
			if points, ok := feed.Points(mode, base, line.Amendment); ok {
				seen.Points = &points
			}
			out.Views[state] = &seen
		}
	}
	return out
}

// hashOf is the commitment as the games make it.
func hashOf(codes []string, nonce string) string {
	sum := sha256.Sum256([]byte(strings.Join(codes, "\x1e") + "\x1e" + nonce))
	return hex.EncodeToString(sum[:])
}
