package consumer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/valkey-io/valkey-go"
)

// rawEntry is an entry as a reply has it. trimmed: the pending list names it, its body is gone.
type rawEntry struct {
	id      string
	fields  Fields
	trimmed bool
}

// rawStream is what a read returned of one stream.
type rawStream struct {
	key     string
	entries []rawEntry
}

// parseRead takes the reply of XREADGROUP apart: a map, an array of pairs, or nil where nothing was new.
func parseRead(res valkey.ValkeyResult) ([]rawStream, error) {
	m, err := res.ToMessage()
	if err != nil {
		if valkey.IsValkeyNil(err) {
			return nil, nil
		}
		return nil, err
	}
	if m.IsMap() {
		streams, err := m.AsMap()
		if err != nil {
			return nil, err
		}
		out := make([]rawStream, 0, len(streams))
		for key, v := range streams {
			entries, err := entriesOf(v)
			if err != nil {
				return nil, err
			}
			out = append(out, rawStream{key, entries})
		}
		return out, nil
	}
	pairs, err := m.ToArray()
	if err != nil {
		return nil, err
	}
	out := make([]rawStream, 0, len(pairs))
	for _, p := range pairs {
		pair, err := p.ToArray()
		if err != nil {
			return nil, err
		}
		if len(pair) != 2 {
			return nil, fmt.Errorf("read: %d parts of a stream, want 2", len(pair))
		}
		key, err := pair[0].ToString()
		if err != nil {
			return nil, err
		}
		entries, err := entriesOf(pair[1])
		if err != nil {
			return nil, err
		}
		out = append(out, rawStream{key, entries})
	}
	return out, nil
}

// parseEntries takes the reply of XRANGE or XCLAIM apart.
func parseEntries(res valkey.ValkeyResult) ([]rawEntry, error) {
	m, err := res.ToMessage()
	if err != nil {
		if valkey.IsValkeyNil(err) {
			return nil, nil
		}
		return nil, err
	}
	return entriesOf(m)
}

// entriesOf reads a list of entries. The fields of all of them share one array.
func entriesOf(m valkey.ValkeyMessage) ([]rawEntry, error) {
	if m.IsNil() {
		return nil, nil
	}
	list, err := m.ToArray()
	if err != nil {
		return nil, err
	}
	out := make([]rawEntry, 0, len(list))
	var fields Fields
	for i := range list {
		if list[i].IsNil() { // XCLAIM of old servers answers so for an entry that was trimmed
			continue
		}
		parts, err := list[i].ToArray()
		if err != nil {
			return nil, err
		}
		if len(parts) != 2 {
			return nil, fmt.Errorf("%d parts of an entry, want 2", len(parts))
		}
		id, err := parts[0].ToString()
		if err != nil {
			return nil, err
		}
		if parts[1].IsNil() {
			out = append(out, rawEntry{id: id, trimmed: true})
			continue
		}
		var own Fields
		if own, fields, err = fieldsOf(parts[1], fields, len(list)-i); err != nil {
			return nil, fmt.Errorf("entry %s: %w", id, err)
		}
		out = append(out, rawEntry{id: id, fields: own})
	}
	return out, nil
}

// fieldsOf reads a field list into the shared array and returns both the list and what is left to share. A list comes
// as an array or, from some servers and proxies, as a map, whose order is lost. rest is how many entries are still to
// come: room is made for all of them at the first.
func fieldsOf(m valkey.ValkeyMessage, shared Fields, rest int) (own, left Fields, err error) {
	if m.IsMap() {
		values, err := m.AsStrMap()
		if err != nil {
			return nil, shared, err
		}
		for name, value := range values {
			own = append(own, Field{name, value})
		}
		slices.SortFunc(own, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
		return own, shared, nil
	}
	flat, err := m.ToArray()
	if err != nil {
		return nil, shared, err
	}
	n := len(flat) / 2
	if cap(shared)-len(shared) < n {
		shared = make(Fields, 0, max(n, min(n*rest, 1<<16)))
	}
	from := len(shared)
	for i := 0; i+1 < len(flat); i += 2 {
		name, err := flat[i].ToString()
		if err != nil {
			return nil, shared, err
		}
		value, err := flat[i+1].ToString()
		if err != nil {
			return nil, shared, err
		}
		shared = append(shared, Field{name, value})
	}
	return shared[from:len(shared):len(shared)], shared, nil
}
