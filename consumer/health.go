package consumer

import "time"

// Health is the state of the group on the server and of this consumer in it, at one moment.
type Health struct {
	Group    string
	Name     string // of this consumer, "" while it holds none
	At       time.Time
	Degraded bool
	Reasons  []string // why it is degraded, or what an operator should know
	Eviction string   // the server's maxmemory-policy if it may evict streams, else ""
	Streams  []StreamHealth
}

// StreamHealth is the state of the group on one stream.
type StreamHealth struct {
	Stream      string
	Fault       string // why the stream cannot be read, "" if it can
	Length      int64
	Lag         int64 // entries not yet delivered to anybody
	LagKnown    bool  // false where the server cannot tell, and for good once entries were lost to trimming
	Lost        int64 // entries trimmed away before anybody had read them
	LostKnown   bool  // false where counting them would cost too much
	Pending     int64
	OldestAge   time.Duration // of the oldest pending entry, by its id and the server's clock; 0 if nothing is pending
	OldestIdle  time.Duration // since that entry's last delivery or lease renewal
	DeadLetters int64
	Consumers   []ConsumerHealth
}

// ConsumerHealth is one name in the group.
type ConsumerHealth struct {
	Name    string
	Pending int64
	Idle    time.Duration // since it last asked the server for anything
}
