package consumer

import "context"

// Message is one stream entry as a handler sees it.
type Message struct {
	Stream  string
	EntryID string // the server's id, "<ms>-<seq>"
	Group   string
	// RecordID is the value of the first field named "id", "" where there is none.
	RecordID string
	// Fields is the entry as it came: ordered, repeated names kept, the record's id included.
	Fields Fields
	// Attempts is the server's delivery count: 1 on the first delivery. It counts deliveries, not failures.
	Attempts int64

	held *entry // nil in a Message that no running consumer made
}

// Field is one name and value of an entry; both may hold arbitrary bytes.
type Field struct{ Name, Value string }

// Fields is an entry's flat field list, in the order it was written.
type Fields []Field

// Get returns the value of the first field with that name.
func (f Fields) Get(name string) (string, bool) {
	for i := range f {
		if f[i].Name == name {
			return f[i].Value, true
		}
	}
	return "", false
}

// Payload is every field but the record's id, which is the first field named "id": a second one is payload.
func (f Fields) Payload() Fields {
	for i := range f {
		if f[i].Name != "id" {
			continue
		}
		if i == 0 {
			return f[1:]
		}
		out := make(Fields, 0, len(f)-1)
		return append(append(out, f[:i]...), f[i+1:]...)
	}
	return f
}

// Context derives a context that ends with cause ErrLeaseLost when another consumer has taken the entry over.
// The cancel function must be called when the entry is done with. Each does both for its function.
func (m Message) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	if m.held == nil {
		return context.WithCancel(ctx)
	}
	return m.held.watch(ctx)
}

// StillMine asks the server whether the entry is pending under this consumer's name.
// A Message that no running consumer made is nobody's.
func (m Message) StillMine(ctx context.Context) (bool, error) {
	if m.held == nil {
		return false, nil
	}
	return m.held.stillMine(ctx)
}
