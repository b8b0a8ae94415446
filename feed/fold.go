package feed

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// State of a line as a watcher sees it.
type State string

// States of a line.
const (
	Live      State = "live"
	Corrected State = "corrected"
	Retracted State = "retracted"
)

// View is a line as a watcher sees it, in the shape in which every answer and frame carries it. Of a retracted line
// only Evt, Ver, At, State, Reason and AmendedAt are given out.
type View struct {
	Evt       ID                `json:"evt"`
	Ver       int64             `json:"ver"` // of the game, when the line last changed
	Kind      string            `json:"kind"`
	At        Instant           `json:"at"`
	Actor     string            `json:"actor,omitempty"`
	Text      string            `json:"text"`
	Fields    map[string]string `json:"fields"`
	Icon      string            `json:"icon"`
	Tone      Tone              `json:"tone"`
	Score     bool              `json:"score,omitempty"` // hidden until its game was released
	State     State             `json:"state"`
	Reason    string            `json:"reason,omitempty"`
	AmendedAt *Instant          `json:"amended_at,omitempty"`
}

// Fold says what a line reads in a game of the given mode: the base with its pattern filled in and the amendment, if
// any, laid over it. Patched fields that the base's kind does not show, or not in this mode, are dropped: a correction
// cannot smuggle one out. Whether the line may be seen at all is not asked here: see [Base.Hidden].
//
// Ver is left 0: it belongs to the stored line, not to its registers.
func Fold(evt ID, mode Mode, base *Base, amendment *Amendment) View {
	view := View{Evt: evt, At: Instant(evt.Time()), State: Live}
	if amendment != nil {
		at := Instant(amendment.By.Time())
		view.State, view.Reason, view.AmendedAt = Corrected, amendment.Reason, &at
		if amendment.Retracts {
			view.State, view.Fields = Retracted, map[string]string{}
			return view
		}
	}
	view.Kind, view.Icon, view.Tone, view.Score = base.Kind, base.Icon, base.Tone, base.Visibility != Public
	view.Fields = shown(mode, base, amendment)
	view.Actor = view.Fields[base.Actor]
	if amendment != nil && amendment.Text != "" {
		view.Text = amendment.Text
	} else {
		view.Text = fill(base.Text, base.Show, view.Fields)
	}
	return view
}

// Hidden reports whether the line must not be shown in a game with that release state.
func (b *Base) Hidden(released bool) bool { return b.Visibility != Public && !released }

// Points is the score that the line counts for on the board, if it counts for any.
func Points(mode Mode, base *Base, amendment *Amendment) (float64, bool) {
	if len(base.Score) == 0 || amendment != nil && amendment.Retracts {
		return 0, false
	}
	fields := shown(mode, base, amendment)
	for _, term := range base.Score {
		if n, ok := parsePoints(fields[term.Field]); ok {
			return n * term.Factor, true
		}
	}
	return 0, false
}

// maxPointsDigits bounds what is read as points: a plain decimal number that a double holds exactly enough.
const maxPointsDigits = 15

// parsePoints reads -?digits[.digits] of at most 15 characters, so that Go and SQL agree on what is a number.
func parsePoints(s string) (float64, bool) {
	if len(s) == 0 || len(s) > maxPointsDigits || strings.Trim(s, "-.0123456789") != "" || strings.HasSuffix(s, ".") {
		return 0, false
	}
	if first := strings.TrimPrefix(s, "-"); first == "" || first[0] == '.' {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil && !math.IsInf(n, 0)
}

func shown(mode Mode, base *Base, amendment *Amendment) map[string]string {
	out := make(map[string]string, len(base.Show))
	for _, name := range base.Show {
		if base.elsewhere(name, mode) {
			continue
		}
		if amendment != nil {
			if value, ok := amendment.Fields[name]; ok {
				out[name] = value
				continue
			}
		}
		if value, ok := base.Fields[name]; ok {
			out[name] = value
		}
	}
	return out
}

// elsewhere reports whether a field is shown in other modes only.
func (b *Base) elsewhere(name string, mode Mode) bool {
	listed := false
	for m, names := range b.Only {
		if slices.Contains(names, name) {
			if m == mode {
				return false
			}
			listed = true
		}
	}
	return listed
}

// fill puts the fields into a pattern: {name} of a field in show is its value, "-" where that is missing. Braces around
// anything else stand for themselves.
func fill(pattern string, show []string, fields map[string]string) string {
	var out strings.Builder
	for {
		open := strings.IndexByte(pattern, '{')
		if open < 0 {
			out.WriteString(pattern)
			return out.String()
		}
		size := strings.IndexByte(pattern[open:], '}')
		if size < 0 || !slices.Contains(show, pattern[open+1:open+size]) {
			out.WriteString(pattern[:open+1])
			pattern = pattern[open+1:]
			continue
		}
		out.WriteString(pattern[:open])
		if value, ok := fields[pattern[open+1:open+size]]; ok {
			out.WriteString(value)
		} else {
			out.WriteByte('-')
		}
		pattern = pattern[open+size+1:]
	}
}
