package feed

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strings"
)

// Field is one name and value of an entry. Values are arbitrary bytes.
type Field struct{ Name, Value string }

// Fields is an event's payload in the order of the wire, each name once.
type Fields []Field

// Lookup returns the value of a field. Lists are short, so it walks.
func (f Fields) Lookup(name string) (string, bool) {
	for i := range f {
		if f[i].Name == name {
			return f[i].Value, true
		}
	}
	return "", false
}

// All iterates over names and values in order.
func (f Fields) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, field := range f {
			if !yield(field.Name, field.Value) {
				return
			}
		}
	}
}

// Kind is what the event says it is: field kind, else field event, else [KindUnnamed].
func (f Fields) Kind() string {
	for _, name := range [...]string{"kind", "event"} {
		if kind, ok := f.Lookup(name); ok {
			return kind
		}
	}
	return KindUnnamed
}

// Event is one decoded entry.
type Event struct {
	Game   GameKey
	ID     ID     // of namespace EVT; determines the entry id
	Kind   string // that of Fields
	Fields Fields // everything but the record's id, the first of a repeated name
}

// KindUnnamed is the kind of an event that names none: an empty payload is legal on the wire.
const KindUnnamed = "event"

// Raw packs the fields as bytes, whatever is in them: a count, then each name and value behind its length (uvarints).
// It is kept beside the line for operators and for rendering anew; [ParseRaw] reads it.
func (f Fields) Raw() []byte {
	size := binary.MaxVarintLen32
	for _, field := range f {
		size += len(field.Name) + len(field.Value) + 2*binary.MaxVarintLen32
	}
	out := binary.AppendUvarint(make([]byte, 0, size), uint64(len(f)))
	for _, field := range f {
		for _, s := range [...]string{field.Name, field.Value} {
			out = append(binary.AppendUvarint(out, uint64(len(s))), s...)
		}
	}
	return out
}

var errRaw = errors.New("raw payload is cut short or overlong")

// ParseRaw reads what [Fields.Raw] packed.
func ParseRaw(raw []byte) (Fields, error) {
	count, rest, ok := uvarint(raw)
	if !ok || count > uint64(len(raw)) {
		return nil, errRaw
	}
	fields := make(Fields, count)
	for i := range fields {
		for _, s := range [...]*string{&fields[i].Name, &fields[i].Value} {
			var n uint64
			if n, rest, ok = uvarint(rest); !ok || n > uint64(len(rest)) {
				return nil, errRaw
			}
			*s, rest = string(rest[:n]), rest[n:]
		}
	}
	if len(rest) != 0 {
		return nil, errRaw
	}
	return fields, nil
}

func uvarint(b []byte) (uint64, []byte, bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 {
		return 0, nil, false
	}
	return n, b[size:], true
}

// UndecodableError says why an entry is no event. Such an entry is a dead letter: no retry mends it.
type UndecodableError struct {
	Stream, Entry string
	Reason        error
}

func (e *UndecodableError) Error() string {
	return fmt.Sprintf("entry %s of %s: %v", e.Entry, e.Stream, e.Reason)
}

func (e *UndecodableError) Unwrap() error { return e.Reason }

// Decode reads an entry of a game's stream, or of a tenant's retry stream, from its flat list of fields in wire order.
//
// The first of a repeated field wins. A first-named field id must be the EVT id that the entry id stands for; an entry
// without one was written by somebody who knows nothing of ids, and its EVT id is derived from the entry id. Entries of
// the retry stream carry a dead letter back: dead.stream, dead.entry and dead.attempts, then the original fields, each
// name behind "f:"; on any other stream these names mean nothing. Errors are [*UndecodableError].
func Decode(stream, entryID string, fields iter.Seq2[string, string]) (Event, error) {
	game, err := ParseStream(stream)
	if tenant, ok := ParseRetryStream(stream); ok {
		game, entryID, fields, err = unwrapRetried(tenant, fields)
	}
	event := Event{Game: game}
	if err == nil {
		event.ID, err = IDOfEntry(entryID)
	}
	if err == nil {
		event.Fields, err = payload(fields, event.ID)
	}
	if err != nil {
		return Event{}, &UndecodableError{Stream: stream, Entry: entryID, Reason: err}
	}
	event.Kind = event.Fields.Kind()
	return event, nil
}

// manyFields is the length from which a repeated name is found by a map rather than by walking.
const manyFields = 32

// payload takes the record's id away, the first field of that name, and keeps the first of every other name. A second
// field id is the payload's own.
func payload(fields iter.Seq2[string, string], id ID) (Fields, error) {
	out := make(Fields, 0, 8)
	var seen map[string]bool
	hasRecordID := false
	for name, value := range fields {
		if name == "id" && !hasRecordID {
			hasRecordID = true
			written, err := ParseID(value)
			if err != nil {
				return nil, fmt.Errorf("field id: %w", err)
			}
			if written != id {
				return nil, fmt.Errorf("field id %s does not match the entry id, which stands for %s", written, id)
			}
			continue
		}
		if seen == nil && len(out) == manyFields {
			seen = make(map[string]bool, 2*manyFields)
			for _, f := range out {
				seen[f.Name] = true
			}
		}
		if seen == nil {
			if _, ok := out.Lookup(name); ok {
				continue
			}
		} else if seen[name] {
			continue
		} else {
			seen[name] = true
		}
		out = append(out, Field{name, value})
	}
	return out, nil
}

// unwrapRetried gives back the stream, the entry id and the fields that a dead letter had.
func unwrapRetried(tenant TenantID, wrapped iter.Seq2[string, string]) (GameKey, string, iter.Seq2[string, string], error) {
	envelope := make(map[string]string, 3)
	original := make(Fields, 0, 8)
	for name, value := range wrapped {
		if name, ok := strings.CutPrefix(name, "f:"); ok {
			original = append(original, Field{name, value})
		} else if _, ok := envelope[name]; !ok {
			envelope[name] = value
		}
	}
	entry, ok := envelope["dead.entry"]
	if !ok {
		return GameKey{}, "", nil, errors.New("field dead.entry is missing")
	}
	game, err := ParseStream(envelope["dead.stream"])
	if err != nil {
		return GameKey{}, entry, nil, fmt.Errorf("field dead.stream: %w", err)
	}
	if game.Tenant != tenant {
		return GameKey{}, entry, nil, fmt.Errorf("field dead.stream: %s is not a game of tenant %s", game, tenant)
	}
	return game, entry, original.All(), nil
}
