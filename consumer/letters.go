package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// The fields of a dead letter, written by the script in deadletter.go before the entry's own, each of which is
// prefixed "f:". An entry of more than packAbove fields has them all in one value instead, "dead.packed".
const (
	fieldStream    = "dead.stream"
	fieldEntry     = "dead.entry"
	fieldGroup     = "dead.group"
	fieldConsumer  = "dead.consumer"
	fieldAttempts  = "dead.attempts"
	fieldReason    = "dead.reason"
	fieldDelivered = "dead.delivered"
	fieldAt        = "dead.at"
	fieldPast      = "dead.past" // for each time it was retried; see Past
	fieldPacked    = "dead.packed"
	fieldPrefix    = "f:"
)

// ErrNoLetter says that a dead letter is not there: dropped, retried or trimmed away.
var ErrNoLetter = errors.New("consumer: no such dead letter")

// DeadLetter is an entry that was given up on.
type DeadLetter struct {
	ID        string // of the letter, in the dead-letter stream
	Stream    string // the entry's own
	EntryID   string
	Group     string
	Consumer  string    // who gave it up
	Attempts  int64     // deliveries, those before its retries included
	Reason    string    // this time's
	Delivered time.Time // last delivery, by the server's clock
	At        time.Time // when it became a dead letter, by the server's clock
	Past      []Past    // what it was before each retry, oldest first; at most the last pastKept
	Fields    Fields    // as the entry had them
}

// Past is what a dead letter was before it was retried.
type Past struct {
	At       time.Time
	Attempts int64 // up to then
	Reason   string
}

// pastKept is how many retries a dead letter remembers.
const pastKept = 20

// DeadLetters reads and empties dead-letter streams. It needs no running consumer.
type DeadLetters struct {
	client valkey.Client
	dead   func(stream string) string
	retry  func(stream string) string
}

// NewDeadLetters looks after the dead letters that consumers with this config leave behind, of which DeadLetter and
// RetryStream matter here. The client stays the caller's.
func NewDeadLetters(client valkey.Client, cfg Config) *DeadLetters {
	cfg = cfg.withDefaults()
	return &DeadLetters{client: client, dead: cfg.DeadLetter, retry: cfg.RetryStream}
}

// List returns up to n dead letters of a stream, oldest first, those after the letter with id after; "" begins. An id
// that no letter can have is ErrNoLetter, here and below.
func (d *DeadLetters) List(ctx context.Context, stream, after string, n int) ([]DeadLetter, error) {
	if n < 1 {
		return nil, nil
	}
	from := "-"
	if after != "" {
		if !isID(after) {
			return nil, ErrNoLetter
		}
		from = "(" + after
	}
	entries, err := d.entries(ctx, stream, from, "+", int64(n))
	if err != nil {
		return nil, err
	}
	letters := make([]DeadLetter, len(entries))
	for i, e := range entries {
		letters[i] = letter(e)
	}
	return letters, nil
}

// Letter returns one dead letter.
func (d *DeadLetters) Letter(ctx context.Context, stream, id string) (DeadLetter, error) {
	if !isID(id) {
		return DeadLetter{}, ErrNoLetter
	}
	entries, err := d.entries(ctx, stream, id, id, 1)
	if err == nil && len(entries) == 0 {
		err = ErrNoLetter
	}
	if err != nil {
		return DeadLetter{}, err
	}
	return letter(entries[0]), nil
}

// Count is how many dead letters a stream has.
func (d *DeadLetters) Count(ctx context.Context, stream string) (int64, error) {
	n, err := d.client.Do(ctx, d.client.B().Xlen().Key(d.dead(stream)).Build()).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("count dead letters of %s: %w", stream, err)
	}
	return n, nil
}

// Drop deletes a dead letter.
func (d *DeadLetters) Drop(ctx context.Context, stream, id string) error {
	if !isID(id) {
		return ErrNoLetter
	}
	n, err := d.client.Do(ctx, d.client.B().Xdel().Key(d.dead(stream)).Id(id).Build()).AsInt64()
	if err != nil {
		return fmt.Errorf("drop dead letter %s of %s: %w", id, stream, err)
	}
	if n == 0 {
		return ErrNoLetter
	}
	return nil
}

// Retry moves a dead letter to the stream's retry stream in one transaction and returns its entry id there. Without a
// retry stream the entry goes back onto its own stream with its fields as they were, under a new entry id. On a retry
// stream it carries where it came from: dead.stream, dead.entry and dead.attempts before its fields, each prefixed "f:",
// and behind them what it was, dead.past. Should it fail there, it is a dead letter of its own stream again, with that.
func (d *DeadLetters) Retry(ctx context.Context, stream, id string) (string, error) {
	if !isID(id) {
		return "", ErrNoLetter
	}
	const tries = 10 // a new letter between our read and our write makes the transaction void
	var entry string
	err := d.client.Dedicated(func(c valkey.DedicatedClient) error {
		for range tries {
			var err error
			if entry, err = d.move(ctx, c, stream, id); err == nil || !valkey.IsValkeyNil(err) {
				return err
			}
		}
		return errors.New("dead-letter stream is too busy")
	})
	if err != nil {
		return "", fmt.Errorf("retry dead letter %s of %s: %w", id, stream, err)
	}
	return entry, nil
}

// move is one try of Retry. Its error is the nil reply if the dead-letter stream changed meanwhile.
func (d *DeadLetters) move(ctx context.Context, c valkey.DedicatedClient, stream, id string) (string, error) {
	dead := d.dead(stream)
	if err := c.Do(ctx, c.B().Watch().Key(dead).Build()).Error(); err != nil {
		return "", err
	}
	res := c.Do(ctx, c.B().Xrange().Key(dead).Start(id).End(id).Build())
	entries, err := parseEntries(res)
	if err == nil && len(entries) == 0 {
		err = ErrNoLetter
	}
	if err != nil {
		return "", errors.Join(err, c.Do(ctx, c.B().Unwatch().Build()).Error())
	}
	l := letter(entries[0])
	to := l.Stream
	fields := l.Fields
	if d.retry != nil {
		to = d.retry(l.Stream)
		fields = l.retried()
	}
	// A transaction goes on past a command that fails: the letter must not go where the entry cannot come.
	if kind, err := c.Do(ctx, c.B().Type().Key(to).Build()).ToString(); err != nil || kind != "stream" && kind != "none" {
		if err == nil {
			err = fmt.Errorf("%s: %w", to, ErrNotStream)
		}
		return "", errors.Join(err, c.Do(ctx, c.B().Unwatch().Build()).Error())
	}
	add := c.B().Xadd().Key(to).Id("*").FieldValue()
	for _, f := range fields {
		add = add.FieldValue(f.Name, f.Value)
	}
	replies := c.DoMulti(ctx,
		c.B().Multi().Build(),
		c.B().Xdel().Key(dead).Id(id).Build(),
		add.Build(),
		c.B().Exec().Build(),
	)
	results, err := replies[3].ToArray()
	if err != nil {
		return "", err
	}
	return results[1].ToString()
}

// retried is what a letter looks like on a retry stream.
func (l DeadLetter) retried() Fields {
	out := make(Fields, 0, 3+len(l.Fields))
	out = append(out,
		Field{fieldStream, l.Stream}, Field{fieldEntry, l.EntryID},
		Field{fieldAttempts, strconv.FormatInt(l.Attempts, 10)})
	for _, f := range l.Fields {
		out = append(out, Field{fieldPrefix + f.Name, f.Value})
	}
	past := append(slices.Clone(l.Past), Past{l.At, l.Attempts, l.Reason})
	for _, p := range past[max(0, len(past)-pastKept):] {
		out = append(out, Field{fieldPast, p.text()})
	}
	return out
}

// text is "<unix ms> <attempts> <reason>".
func (p Past) text() string {
	return strconv.FormatInt(p.At.UnixMilli(), 10) + " " + strconv.FormatInt(p.Attempts, 10) + " " + p.Reason
}

// pasts reads what text wrote, and leaves out what it did not.
func pasts(fields Fields) (out []Past) {
	for _, f := range fields {
		if f.Name != fieldPast {
			continue
		}
		at, rest, _ := strings.Cut(f.Value, " ")
		attempts, reason, _ := strings.Cut(rest, " ")
		ms, err := strconv.ParseInt(at, 10, 64)
		n, err2 := strconv.ParseInt(attempts, 10, 64)
		if err == nil && err2 == nil {
			out = append(out, Past{time.UnixMilli(ms).UTC(), n, reason})
		}
	}
	return out
}

// Original is the message that a message of a retry stream stands for: the stream, entry id and fields it had, and the
// attempts of this delivery. It is false where the message is not a retried dead letter.
func (m Message) Original() (Message, bool) {
	stream, ok := m.Fields.Get(fieldStream)
	entry, ok2 := m.Fields.Get(fieldEntry)
	if !ok || !ok2 {
		return m, false
	}
	m.Stream, m.EntryID = stream, entry
	m.Fields = unprefixed(m.Fields)
	m.RecordID, _ = m.Fields.Get("id")
	return m, true
}

func (d *DeadLetters) entries(ctx context.Context, stream, from, to string, n int64) ([]rawEntry, error) {
	cmd := d.client.B().Xrange().Key(d.dead(stream)).Start(from).End(to).Count(n).Build()
	entries, err := parseEntries(d.client.Do(ctx, cmd))
	if err != nil {
		return nil, fmt.Errorf("dead letters of %s: %w", stream, err)
	}
	return entries, nil
}

func letter(e rawEntry) DeadLetter {
	text := func(name string) string { v, _ := e.fields.Get(name); return v }
	number := func(name string) int64 {
		n, err := strconv.ParseInt(text(name), 10, 64)
		if err != nil {
			return 0 // a letter that somebody else wrote there
		}
		return n
	}
	l := DeadLetter{
		ID: e.id, Stream: text(fieldStream), EntryID: text(fieldEntry), Group: text(fieldGroup), Consumer: text(fieldConsumer),
		Attempts: number(fieldAttempts), Reason: text(fieldReason),
		Delivered: time.UnixMilli(number(fieldDelivered)).UTC(), At: time.UnixMilli(number(fieldAt)).UTC(),
		Past: pasts(e.fields), Fields: unprefixed(e.fields),
	}
	if packed, ok := e.fields.Get(fieldPacked); ok {
		l.Fields = unpack(packed)
	}
	return l
}

func unprefixed(fields Fields) Fields {
	out := make(Fields, 0, len(fields))
	for _, f := range fields {
		if name, ok := strings.CutPrefix(f.Name, fieldPrefix); ok {
			out = append(out, Field{name, f.Value})
		}
	}
	return out
}

// unpack reads "<length>:<bytes>" strings, name and value in turn, and stops at the first that is not whole.
func unpack(s string) Fields {
	var out Fields
	for s != "" {
		var pair [2]string
		for i := range pair {
			digits, rest, ok := strings.Cut(s, ":")
			n, err := strconv.Atoi(digits)
			if !ok || err != nil || n < 0 || n > len(rest) {
				return out
			}
			pair[i], s = rest[:n], rest[n:]
		}
		out = append(out, Field{pair[0], pair[1]})
	}
	return out
}

// isID says whether a text is a whole entry id, "<ms>-<seq>".
func isID(id string) bool {
	ms, seq, ok := strings.Cut(id, "-")
	_, err := strconv.ParseUint(ms, 10, 64)
	_, err2 := strconv.ParseUint(seq, 10, 64)
	return ok && err == nil && err2 == nil
}
