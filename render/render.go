package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/codemojex/feedrenderer/feed"
)

const (
	maxKindBytes   = 64       // of the name of a kind, which every answer with a line of it repeats
	maxShownBytes  = 64 << 10 // of what a line shows: a snapshot holds hundreds of lines, and each watcher receives it
	maxHeaderBytes = 1024     // of a register of the header, which stands in each list of games and in each frame about one
)

// Render makes the line of an event. It does no I/O and depends on nothing but the event and the kinds.
//
// skip says that there is nothing to write: the kind has no line and sets nothing. An error says why the event is a dead letter:
// no retry mends it while the kinds are the same. An event of a kind that nobody described becomes a public line of version 0
// that shows the kind's name alone.
func (k *Kinds) Render(event feed.Event) (line feed.Line, skip bool, err error) {
	name := event.Kind
	if name == "" {
		name = feed.KindUnnamed
	}
	if problem := nameFault(name); problem != "" {
		return feed.Line{}, false, fmt.Errorf("kind %s", problem)
	}
	kind, ok := k.byName[name]
	if !ok {
		kind = undescribed(name)
	}
	line = feed.Line{Game: event.Game, Event: event.ID, Evt: event.ID, KindVersion: kind.version}
	switch kind.does {
	case opens, reveals:
		line.Base, err = kind.open(event.Fields)
		line.Reveals = kind.does == reveals
	case corrects, retracts:
		line.Evt, line.Amendment, err = kind.amend(event)
	}
	if err == nil {
		line.Sets, err = kind.headers(event.Fields)
	}
	if n := shownBytes(line); err == nil && n > maxShownBytes {
		err = fmt.Errorf("shown fields have %d bytes, want at most %d", n, maxShownBytes)
	}
	if err != nil {
		return feed.Line{}, false, err
	}
	if line.Base == nil && line.Amendment == nil && len(line.Sets) == 0 {
		return feed.Line{}, true, nil
	}
	line.Raw = event.Fields.Raw()
	return line, false, nil
}

// shownBytes is how much of the event watchers may be sent.
func shownBytes(line feed.Line) int {
	n := 0
	if line.Base != nil {
		n = textBytes(line.Base.Fields)
	}
	if patch := line.Amendment; patch != nil {
		n = len(patch.Reason) + len(patch.Text) + textBytes(patch.Fields)
	}
	return n
}

func textBytes(texts map[string]string) int {
	n := 0
	for name, text := range texts {
		n += len(name) + len(text)
	}
	return n
}

func undescribed(name string) *kind {
	return &kind{does: opens, base: feed.Base{
		Kind: name, Text: name, Icon: "question", Tone: feed.TonePlain, Visibility: feed.Public,
	}}
}

func (k *kind) open(fields feed.Fields) (*feed.Base, error) {
	base := k.base
	base.Fields = make(map[string]string, len(base.Show))
	for _, name := range base.Show {
		value, ok, err := textOf(fields, name)
		if err != nil {
			return nil, err
		}
		if ok {
			base.Fields[name] = value
		}
	}
	if k.does == reveals && !commitmentHolds(base.Fields) {
		base.Text += " (the commitment does not match)"
		base.Tone = feed.ToneBad
	}
	return &base, nil
}

// amend reads the line that a correction or retraction names, and its patch.
func (k *kind) amend(event feed.Event) (target feed.ID, patch *feed.Amendment, err error) {
	name, ok := event.Fields.Lookup("target")
	if !ok {
		return 0, nil, errors.New("field target is missing")
	}
	if target, err = feed.ParseID(name); err != nil {
		return 0, nil, fmt.Errorf("field target: %w", err)
	}
	if target >= event.ID {
		return 0, nil, fmt.Errorf("field target: %s is not below the event's own id %s", target, event.ID)
	}
	patch = &feed.Amendment{By: event.ID, Retracts: k.does == retracts}
	if patch.Reason, _, err = textOf(event.Fields, "reason"); err != nil || patch.Retracts {
		return target, patch, err
	}
	if patch.Text, _, err = textOf(event.Fields, "text"); err != nil {
		return 0, nil, err
	}
	if list, ok := event.Fields.Lookup("fields"); ok {
		if patch.Fields, err = namesAndTexts(list); err != nil {
			return 0, nil, fmt.Errorf("field fields: %w", err)
		}
	}
	return target, patch, nil
}

// headers fills in the registers whose fields the event has.
func (k *kind) headers(fields feed.Fields) (map[feed.Register]string, error) {
	if len(k.sets) == 0 {
		return nil, nil
	}
	sets := make(map[feed.Register]string, len(k.sets))
	for _, register := range k.sets {
		value, ok := register.fill(fields)
		if ok {
			value, ok = register.accept(value)
		}
		if !ok {
			continue
		}
		for _, name := range register.fields {
			if _, _, err := textOf(fields, name); err != nil {
				return nil, err
			}
		}
		sets[register.name] = value
	}
	return sets, nil
}

// fill puts the fields into the pattern, if the event has all of them.
func (r register) fill(fields feed.Fields) (string, bool) {
	for _, name := range r.fields {
		if _, ok := fields.Lookup(name); !ok {
			return "", false
		}
	}
	return fieldPattern.ReplaceAllStringFunc(r.pattern, func(braced string) string {
		value, _ := fields.Lookup(braced[1 : len(braced)-1])
		return value
	}), true
}

// accept gives a value the form in which the register holds it, or refuses it. A mode that is none of the known ones is the
// unknown one, which hides scores; a status or an end of game that makes no sense, and a pool or a title that is too long to be
// one, leave the header as it was.
func (r register) accept(value string) (string, bool) {
	switch r.name {
	case feed.RegisterStatus:
		return value, slices.Contains(statuses, feed.Status(value))
	case feed.RegisterMode:
		return string(feed.ParseMode(value)), len(r.fields) > 0 || slices.Contains(modes, feed.Mode(value))
	case feed.RegisterEndsAt:
		ms, err := strconv.ParseInt(value, 10, 64)
		return strconv.FormatInt(ms, 10), err == nil && ms >= feed.Epoch.UnixMilli() && ms <= lastInstant
	}
	return value, len(value) <= maxHeaderBytes
}

// lastInstant is the last one that an id can express, in 2093, in unix milliseconds.
var lastInstant = feed.ID(math.MaxInt64).Time().UnixMilli()

// namesAndTexts reads one JSON object of name -> text, and nothing else.
func namesAndTexts(list string) (map[string]string, error) {
	if !utf8.ValidString(list) {
		return nil, errors.New(notUTF8)
	}
	decoder := json.NewDecoder(strings.NewReader(list))
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New("not a JSON object of name -> text")
	}
	texts := make(map[string]string)
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, fmt.Errorf("not a JSON object: %w", err)
		}
		name, _ := key.(string) // the decoder admits no other key
		value, err := decoder.Token()
		if err != nil {
			return nil, fmt.Errorf("not a JSON object: %w", err)
		}
		text, ok := value.(string)
		if !ok {
			return nil, fmt.Errorf("%q is not a text", name)
		}
		if _, ok := texts[name]; ok {
			return nil, fmt.Errorf("%q stands twice", name)
		}
		if problem := textFault(name + text); problem != "" {
			return nil, fmt.Errorf("%q %s", name, problem)
		}
		texts[name] = text
	}
	if _, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something stands after the JSON object")
	}
	return texts, nil
}

// textOf looks up a field that may be shown, and so must be text that the database can hold.
func textOf(fields feed.Fields, name string) (value string, ok bool, err error) {
	value, ok = fields.Lookup(name)
	if problem := textFault(value); problem != "" {
		return "", false, fmt.Errorf("field %s %s", name, problem)
	}
	return value, ok, nil
}

const notUTF8 = "is not valid UTF-8"

// textFault says what keeps a value from being shown, or nothing.
func textFault(s string) string {
	switch {
	case strings.IndexByte(s, 0) >= 0:
		return "has a NUL byte"
	case !utf8.ValidString(s):
		return notUTF8
	}
	return ""
}

func nameFault(kind string) string {
	switch {
	case kind == "":
		return "is empty"
	case len(kind) > maxKindBytes:
		return fmt.Sprintf("has %d bytes, want at most %d", len(kind), maxKindBytes)
	}
	return textFault(kind)
}
