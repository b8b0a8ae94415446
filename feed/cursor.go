package feed

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Cursor is how far a watcher has come in a game's changes: "<epoch>:<ver>". It says nothing of place.
type Cursor struct {
	Epoch string // letters, digits and dashes; changes when versions start anew (restore, failover, retention)
	Ver   int64  // version of the game, from 0
}

// ErrBadCursor is wrapped by the errors of [ParseCursor].
var ErrBadCursor = errors.New("bad cursor")

const maxEpochBytes = 128

// ParseCursor reads "<epoch>:<ver>". The error wraps [ErrBadCursor].
func ParseCursor(s string) (Cursor, error) {
	epoch, verText, ok := strings.Cut(s, ":")
	ver, err := strconv.ParseInt(verText, 10, 64)
	if !ok || err != nil || ver < 0 || !isEpoch(epoch) || strconv.FormatInt(ver, 10) != verText {
		return Cursor{}, fmt.Errorf("%w %.160q: want <epoch>:<version>", ErrBadCursor, s)
	}
	return Cursor{epoch, ver}, nil
}

func isEpoch(s string) bool {
	for i := range len(s) {
		if digit(s[i]) < 0 && s[i] != '-' {
			return false
		}
	}
	return s != "" && len(s) <= maxEpochBytes
}

func (c Cursor) String() string { return c.Epoch + ":" + strconv.FormatInt(c.Ver, 10) }

// MarshalText gives "<epoch>:<ver>".
func (c Cursor) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads "<epoch>:<ver>", as [ParseCursor] does.
func (c *Cursor) UnmarshalText(text []byte) error {
	parsed, err := ParseCursor(string(text))
	if err == nil {
		*c = parsed
	}
	return err
}
