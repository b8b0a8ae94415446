package feed

import "time"

// Instant is a time as every answer writes it: RFC 3339 in UTC with milliseconds.
type Instant time.Time

const instantLayout = "2006-01-02T15:04:05.000Z"

// Time gives it back as a time.Time.
func (i Instant) Time() time.Time { return time.Time(i) }

func (i Instant) String() string { return time.Time(i).UTC().Format(instantLayout) }

// MarshalText writes RFC 3339, UTC, milliseconds.
func (i Instant) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText reads any RFC 3339 time.
func (i *Instant) UnmarshalText(text []byte) error {
	t, err := time.Parse(time.RFC3339, string(text))
	if err == nil {
		*i = Instant(t.UTC())
	}
	return err
}
