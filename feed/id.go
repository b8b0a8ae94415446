package feed

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Epoch is the instant of snowflake 0.
var Epoch = time.UnixMilli(epochMS).UTC()

const (
	epochMS      = 1704067200000 // 2024-01-01T00:00:00Z
	tailBits     = 22            // node (10 bits) and sequence (12 bits)
	tailMask     = 1<<tailBits - 1
	brandedBytes = 14
	digits       = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	maxSnowflake = 1<<63 - 1
)

// Namespaces of branded ids met on the wire.
const (
	NamespaceEvent  = "EVT"
	NamespaceGame   = "GAM"
	NamespaceRoom   = "ROM"
	NamespacePlayer = "PLR"
	NamespaceGuess  = "GES"
	NamespaceJob    = "JOB"
)

// ErrMalformedID is returned for text that is no branded id at all; the error that wraps it says why.
var ErrMalformedID = errors.New("malformed branded id")

// NamespaceError is returned for a well-formed branded id of another namespace than the one expected.
type NamespaceError struct {
	ID        string // the id as it came
	Got, Want string // three letters each
}

func (e *NamespaceError) Error() string {
	return fmt.Sprintf("branded id %s is of namespace %s, not %s", e.ID, e.Got, e.Want)
}

// Branded is an id of any namespace: 14 ASCII bytes, three letters A-Z and eleven base62 digits.
type Branded struct {
	Namespace string
	Snowflake int64 // 0 .. 2^63-1
}

// ParseBranded reads a branded id to the letter: nothing is trimmed or case-folded. The error wraps [ErrMalformedID].
func ParseBranded(s string) (Branded, error) {
	if len(s) != brandedBytes {
		return Branded{}, fmt.Errorf("%w: %d bytes, want %d", ErrMalformedID, len(s), brandedBytes)
	}
	for i := range 3 {
		if s[i] < 'A' || s[i] > 'Z' {
			return Branded{}, fmt.Errorf("%w %q: byte %d is not A-Z", ErrMalformedID, s, i+1)
		}
	}
	var n uint64
	for i := 3; i < brandedBytes; i++ {
		d := digit(s[i])
		if d < 0 {
			return Branded{}, fmt.Errorf("%w %q: byte %d is not 0-9, A-Z or a-z", ErrMalformedID, s, i+1)
		}
		if n > (maxSnowflake-uint64(d))/62 {
			return Branded{}, fmt.Errorf("%w %q: above 2^63-1", ErrMalformedID, s)
		}
		n = n*62 + uint64(d)
	}
	return Branded{Namespace: s[:3], Snowflake: int64(n)}, nil // #nosec G115 -- bounded by maxSnowflake above
}

func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'A' && c <= 'Z':
		return int(c-'A') + 10
	case c >= 'a' && c <= 'z':
		return int(c-'a') + 36
	}
	return -1
}

// String is the 14-byte text. Byte order of the text is the order of the snowflakes within one namespace.
func (b Branded) String() string {
	var out [brandedBytes]byte
	copy(out[:], b.Namespace)
	n := b.Snowflake
	for i := brandedBytes - 1; i >= 3; i-- {
		out[i] = digits[n%62]
		n /= 62
	}
	return string(out[:])
}

// ID is an EVT id as its snowflake: the key of a line, its place in the timeline, and the text EVT... at the edge.
// 0 is a legal id; as a field that may be absent it is used through a pointer or beside a flag.
type ID int64

// ParseID reads the text of an EVT id. Errors: one that wraps [ErrMalformedID], or a [*NamespaceError].
func ParseID(s string) (ID, error) {
	b, err := ParseBranded(s)
	if err != nil {
		return 0, err
	}
	if b.Namespace != NamespaceEvent {
		return 0, &NamespaceError{ID: s, Got: b.Namespace, Want: NamespaceEvent}
	}
	return ID(b.Snowflake), nil
}

// IDOfEntry derives the EVT id that a stream's entry id stands for: the two determine each other exactly. It fails
// for entries before 2024-01-01 or with a sequence above 4194303, which no EVT id can express.
func IDOfEntry(entryID string) (ID, error) {
	msText, seqText, ok := strings.Cut(entryID, "-")
	ms, err1 := decimal(msText)
	seq, err2 := decimal(seqText)
	if !ok || err1 != nil || err2 != nil {
		return 0, fmt.Errorf("entry id %q is not <ms>-<seq>", entryID)
	}
	if ms < epochMS || (ms-epochMS)>>(63-tailBits) != 0 || seq > tailMask {
		return 0, fmt.Errorf("entry id %s has no EVT id: ms %d .. %d and seq 0 .. %d do", entryID, int64(epochMS), int64(epochMS+1<<(63-tailBits)-1), tailMask)
	}
	return ID((ms-epochMS)<<tailBits | seq), nil
}

// decimal reads a number that is not negative, written as servers write it: without a sign, without leading zeros.
func decimal(s string) (int64, error) {
	if len(s) > 1 && s[0] == '0' {
		return 0, strconv.ErrSyntax
	}
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err // #nosec G115 -- of 63 bits
}

// EntryID is the id of the stream entry that carries this event: <unix ms>-<low 22 bits>.
func (id ID) EntryID() string {
	return strconv.FormatInt(int64(id)>>tailBits+epochMS, 10) + "-" + strconv.FormatInt(int64(id)&tailMask, 10)
}

// Time is the instant in the id, to the millisecond. The mint is a logical clock: it may lie ahead of now.
func (id ID) Time() time.Time { return time.UnixMilli(int64(id)>>tailBits + epochMS).UTC() }

// IDAt is the lowest id of the millisecond of t, clamped to the range of ids.
func IDAt(t time.Time) ID {
	ms := t.UnixMilli() - epochMS
	if ms < 0 {
		return 0
	}
	if ms>>(63-tailBits) != 0 {
		return maxSnowflake
	}
	return ID(ms << tailBits)
}

func (id ID) String() string {
	return Branded{Namespace: NamespaceEvent, Snowflake: int64(id)}.String()
}

// MarshalText gives the EVT text, so JSON carries ids as strings.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads the EVT text, as [ParseID] does.
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	if err == nil {
		*id = parsed
	}
	return err
}
