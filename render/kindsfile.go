package render

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/codemojex/feedrenderer/feed"
)

// kindsFile is one file of kinds while it is read. Reading goes on after a fault, so that all are found at once.
type kindsFile struct {
	name   string
	lines  map[string]int // where each key stands; keys are made by keyOf
	faults []fault
}

const kindTable = "kind" // the one table of a kinds file: [kind.NAME]

// What the keys of a kind may say.
var (
	effects      = []effect{opens, corrects, retracts, reveals, none}
	tones        = []feed.Tone{feed.TonePlain, feed.ToneGood, feed.ToneBad, feed.ToneLoud}
	visibilities = []feed.Visibility{feed.Public, feed.Score}
	modes        = []feed.Mode{feed.ModeClassic, feed.ModeGolden, feed.ModeBlind}
	statuses     = []feed.Status{feed.StatusGathering, feed.StatusOpen, feed.StatusRevealing, feed.StatusSettled, feed.StatusVoided}

	// icons are the names of the page's set.
	icons = []string{
		"dart", "door", "flag", "trophy", "gem", "key", "megaphone", "pencil", "eraser",
		"users", "guess", "crown", "ban", "clock", "coins", "question", "lock",
	}

	keysOfEvery  = []string{"version", "line", "sets"}
	keysOfOpener = []string{"text", "icon", "tone", "actor", "show", "show_only", "visibility", "score"}
)

const maxVersion = 1<<31 - 1 // an integer of the database

// parse reads the kinds that are sound and notes what is wrong with the file.
func (f *kindsFile) parse(text []byte) map[string]*kind {
	var document map[string]any
	if err := toml.Unmarshal(text, &document); err != nil {
		where := fault{file: f.name, problem: err.Error()}
		if at := new(toml.DecodeError); errors.As(err, &at) {
			where.line, _ = at.Position()
		}
		f.faults = append(f.faults, where)
		return nil
	}
	f.lines = linesOf(text)
	root := table{file: f, values: document}
	root.allow("", []string{kindTable})
	entries := root.table(kindTable)
	kinds := make(map[string]*kind, len(entries.values))
	for _, name := range entries.keys() {
		before := len(f.faults)
		if problem := nameFault(name); problem != "" {
			entries.fault(name, "the name of a kind %s", problem)
		}
		kind := parseKind(name, entries.table(name))
		if len(f.faults) == before {
			kinds[name] = kind
		}
	}
	return kinds
}

func parseKind(name string, t table) *kind {
	k := &kind{
		version: t.version(),
		does:    oneOf(t, "line", opens, effects),
		base: feed.Base{
			Kind:       name,
			Text:       t.text("text", name),
			Icon:       oneOf(t, "icon", "", icons),
			Tone:       oneOf(t, "tone", feed.TonePlain, tones),
			Actor:      t.text("actor", ""),
			Show:       t.list("show"),
			Visibility: oneOf(t, "visibility", feed.Public, visibilities),
		},
		sets: t.registers(),
	}
	if k.does == opens || k.does == reveals {
		t.allow("", keysOfEvery, keysOfOpener)
	} else {
		t.allow(fmt.Sprintf(" has no meaning where line = %q", k.does), keysOfEvery)
	}
	k.base.Only, k.base.Score = t.showOnly(k.base.Show), t.score(k.base.Show)
	if t.has("text") {
		for _, field := range fieldsOf(k.base.Text) {
			t.wantShown("text", field, k.base.Show)
		}
	}
	if t.has("actor") {
		t.wantShown("actor", k.base.Actor, k.base.Show)
	}
	return k
}

func (t table) version() int {
	const first = 1
	v, ok := valueOf[int64](t, "version", "a whole number")
	if !ok {
		return first
	}
	if v < first || v > maxVersion {
		t.fault("version", "version is %d, want %d to %d (0 is that of kinds which stand in no file)", v, first, maxVersion)
		return first
	}
	return int(v)
}

func (t table) showOnly(show []string) map[feed.Mode][]string {
	only := t.table("show_only")
	if only.values == nil {
		return nil
	}
	fields := make(map[feed.Mode][]string)
	for _, name := range only.keys() {
		if mode := feed.Mode(name); !slices.Contains(modes, mode) {
			only.fault(name, "show_only names the mode %q, want %s", name, either(modes))
		} else {
			fields[mode] = only.list(name)
			for _, field := range fields[mode] {
				only.wantShown(name, field, show)
			}
		}
	}
	return fields
}

// scorePattern is "field" or "field * number".
var scorePattern = regexp.MustCompile(`^\s*([0-9A-Za-z_.-]+)\s*(?:\*\s*(-?\d{1,9}(?:\.\d{1,9})?)\s*)?$`)

func (t table) score(show []string) (terms []feed.ScoreTerm) {
	for i, expression := range t.list("score") {
		parts := scorePattern.FindStringSubmatch(expression)
		if parts == nil {
			t.fault(element("score", i), `score has %q, want "field" or "field * number"`, expression)
			continue
		}
		t.wantShown(element("score", i), parts[1], show)
		term := feed.ScoreTerm{Field: parts[1], Factor: 1}
		if parts[2] != "" {
			term.Factor, _ = strconv.ParseFloat(parts[2], 64) // cannot fail: the pattern admits plain decimals alone
		}
		terms = append(terms, term)
	}
	return terms
}

func (t table) registers() (sets []register) {
	patterns := t.table("sets")
	for _, name := range patterns.keys() {
		if !slices.Contains(feed.Registers[:], feed.Register(name)) {
			patterns.fault(name, "sets names the register %q, want %s", name, either(feed.Registers[:]))
			continue
		}
		r := register{name: feed.Register(name), pattern: patterns.text(name, "")}
		r.fields = fieldsOf(r.pattern)
		if _, ok := r.accept(r.pattern); !ok && len(r.fields) == 0 {
			patterns.fault(name, "sets %s to %.80q, want %s", name, r.pattern, r.wants())
		}
		sets = append(sets, r)
	}
	return sets
}

// wants says what the register holds.
func (r register) wants() string {
	switch r.name {
	case feed.RegisterStatus:
		return either(statuses) + ", or a {field}"
	case feed.RegisterMode:
		return either(modes) + ", or a {field}"
	case feed.RegisterEndsAt:
		return "unix milliseconds, or a {field}"
	}
	return fmt.Sprintf("at most %d bytes", maxHeaderBytes)
}

func (t table) wantShown(key, field string, show []string) {
	if !slices.Contains(show, field) {
		name, _, _ := strings.Cut(key, elementMark)
		t.fault(key, "%s names the field %q, which is not in show", name, field)
	}
}

// fieldPattern finds what feed.Fold fills in.
var fieldPattern = regexp.MustCompile(`\{([0-9A-Za-z_.-]+)\}`)

// fieldsOf lists the fields that a pattern names, each once.
func fieldsOf(pattern string) []string {
	names := make(map[string]bool)
	for _, match := range fieldPattern.FindAllStringSubmatch(pattern, -1) {
		names[match[1]] = true
	}
	return slices.Sorted(maps.Keys(names))
}
