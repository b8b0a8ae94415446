package tenants

import "cmp"

// Limits bound what a tenant may use, in each web process, and how long what is its is kept. A zero field is its default.
// They are read anew every few seconds, and by renderers whenever they clear up, so a change needs no restart.
type Limits struct {
	Sockets    int `json:"sockets"`     // sockets and event streams open at a time, 20 000
	Joins      int `json:"joins"`       // subscriptions a second, 2000
	Requests   int `json:"requests"`    // requests a second, 2000
	Events     int `json:"events"`      // events appended over HTTP a second, 2000; no batch is larger
	Games      int `json:"games"`       // games that appending over HTTP may fill, 100 000
	EventBytes int `json:"event_bytes"` // names and values of one appended event, 64 KiB

	RetentionDays int `json:"retention_days"` // days for which lines are kept after their game's end; 0, the default, for ever
	StreamDays    int `json:"stream_days"`    // days for which settled entries are kept in the streams of games, likewise
}

// MaxDays is the most of RetentionDays and StreamDays.
const MaxDays = 36_500

// Filled is the limits with the defaults in place of zeros.
func (l Limits) Filled() Limits {
	return Limits{
		Sockets:    cmp.Or(l.Sockets, 20_000),
		Joins:      cmp.Or(l.Joins, 2000),
		Requests:   cmp.Or(l.Requests, 2000),
		Events:     cmp.Or(l.Events, 2000),
		Games:      cmp.Or(l.Games, 100_000),
		EventBytes: cmp.Or(l.EventBytes, 64<<10),

		RetentionDays: l.RetentionDays,
		StreamDays:    l.StreamDays,
	}
}
