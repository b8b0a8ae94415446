package consumer

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// Start says where a group begins that does not exist yet.
type Start uint8

// There is no default: a group that silently skipped what was there, or silently replayed it, is found out too late.
const (
	StartHead Start = iota + 1 // at the stream's first entry
	StartNew                   // after the stream's last entry
)

// Config is all there is to say about a consumer. Options.InitAddress, Group, Start and Handler must be given; a zero
// value elsewhere means the default that stands beside it.
type Config struct {
	// Options says how to reach the server. The consumer makes its own connections from it, with client-side caching
	// and silent command retries off, and buffers sized for its use where Options says nothing.
	Options valkey.ClientOption
	Group   string
	// Name of this consumer in the group. Empty: the host's name and the lowest free slot number, "host-0". It is held
	// by a lease on the server, so two live consumers never share one.
	Name    string
	Start   Start
	Streams []string // to read from the start on; Join adds more
	Handler Handler

	Workers          int           // handlers at a time; a stream belongs to one of them for good. 1
	BatchSize        int           // most entries a handler is given, and a read asks for of one stream. 500
	MaxInFlight      int           // entries queued or in handlers, over all workers, and one for each of several shares. 4 x BatchSize x Workers
	MaxInFlightBytes int           // likewise, in bytes of names and values. 64 MiB
	Block            time.Duration // longest one blocking read; what a Join or Stop may have to wait for. 500 ms

	// Share says which streams count as one where streams compete for a worker: see "Shares". Its answer for a stream must
	// never change. Nil: what the stream's name has in braces, its hash tag in a cluster; a name without is alone.
	Share func(stream string) string

	// MinIdle is how long an entry must have been silent before another consumer takes it over. Leases are renewed each
	// third of it, so it bounds how late a dead consumer's work resumes, not how long a handler may take. All
	// consumers of a group should agree on it. 30 s
	MinIdle time.Duration
	Beat    time.Duration // between reclaim passes, jittered; never above MinIdle/3. MinIdle/3
	Ratio   int           // handler batches of new entries for one of reclaimed entries while both wait. 4

	// MaxAttempts is the deliveries after which an entry that still fails becomes a dead letter. Deliveries to a consumer
	// that died with the entry in its queue count too, but none becomes a dead letter that was not run alone first. 5
	MaxAttempts int64
	Backoff     time.Duration // before the first retry; doubled each attempt, jittered, capped at MinIdle. 1 s

	// DeadLetter names the dead-letter stream of a stream, in the same hash slot. The stream's name with ":dead",
	// its own hash tag kept ("{orders}:dead" where it has none).
	DeadLetter    func(stream string) string
	DeadLetterCap int64 // entries a dead-letter stream keeps, about. 10 000
	// RetryStream names the stream that a retried dead letter is put on, in the same hash slot; it is read by this
	// group as well, joined with the first of its streams. Nil: the stream it came from, under a new entry id.
	RetryStream func(stream string) string

	// NameLease is the key that holds a consumer's name. "consumer:{<group>}:<name>"
	NameLease     func(name string) string
	NameTTL       time.Duration // how long the name of a killed consumer stays taken. 10 s
	ConsumerGrace time.Duration // how long a silent consumer that owns nothing stays listed in the group. 10 min

	DegradedAfter time.Duration // age of the oldest pending entry at which the group is degraded. 2 min
	StopTimeout   time.Duration // for a stop by Run's context; handlers are cancelled then. 10 s
	Logger        *slog.Logger  // nil: no logs
}

// withDefaults fills the zero fields in.
func (c Config) withDefaults() Config {
	orInt := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	orDur := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	orInt(&c.Workers, 1)
	orInt(&c.BatchSize, 500)
	orInt(&c.MaxInFlight, 4*c.BatchSize*c.Workers)
	orInt(&c.MaxInFlightBytes, 64<<20)
	orInt(&c.Ratio, 4)
	orDur(&c.Block, 500*time.Millisecond)
	orDur(&c.MinIdle, 30*time.Second)
	orDur(&c.Beat, c.MinIdle/3)
	orDur(&c.Backoff, min(time.Second, c.MinIdle))
	orDur(&c.NameTTL, 10*time.Second)
	orDur(&c.ConsumerGrace, 10*time.Minute)
	orDur(&c.DegradedAfter, 2*time.Minute)
	orDur(&c.StopTimeout, 10*time.Second)
	if c.MaxAttempts == 0 {
		c.MaxAttempts = 5
	}
	if c.DeadLetterCap == 0 {
		c.DeadLetterCap = 10_000
	}
	if c.Share == nil {
		c.Share = tag
	}
	if c.DeadLetter == nil {
		c.DeadLetter = func(stream string) string { return sibling(stream, ":dead") }
	}
	if c.NameLease == nil {
		group := c.Group
		c.NameLease = func(name string) string { return "consumer:{" + group + "}:" + name }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// faults names everything that is wrong with a config whose defaults are filled in, in one error.
func (c Config) faults() error {
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault(len(c.Options.InitAddress) == 0, "Options.InitAddress is empty")
	fault(c.Options.ReplicaOnly, "Options.ReplicaOnly: a group is read from the primary")
	fault(c.Group == "", "Group is empty")
	fault(c.Start != StartHead && c.Start != StartNew, "Start must be StartHead or StartNew")
	fault(c.Handler == nil, "Handler is nil")
	positive := func(name string, v int64) { fault(v < 1, "%s is %d: must be at least 1", name, v) }
	positive("Workers", int64(c.Workers))
	positive("BatchSize", int64(c.BatchSize))
	positive("MaxInFlightBytes", int64(c.MaxInFlightBytes))
	positive("Ratio", int64(c.Ratio))
	positive("MaxAttempts", c.MaxAttempts)
	positive("DeadLetterCap", c.DeadLetterCap)
	fault(c.MaxInFlight < 2*c.Workers, "MaxInFlight is %d: must be at least 2 for each of %d workers", c.MaxInFlight, c.Workers)
	for _, d := range []struct {
		name string
		v    time.Duration
	}{
		{"Block", c.Block},
		{"MinIdle", c.MinIdle},
		{"Beat", c.Beat},
		{"Backoff", c.Backoff},
		{"NameTTL", c.NameTTL},
		{"ConsumerGrace", c.ConsumerGrace},
		{"DegradedAfter", c.DegradedAfter},
		{"StopTimeout", c.StopTimeout},
	} {
		fault(d.v < time.Millisecond, "%s is %s: must be at least 1ms", d.name, d.v)
	}
	fault(c.Beat > c.MinIdle/3, "Beat %s is above a third of MinIdle %s", c.Beat, c.MinIdle)
	fault(c.Backoff > c.MinIdle, "Backoff %s is above MinIdle %s", c.Backoff, c.MinIdle)
	fault(c.Options.ConnWriteTimeout != 0 && c.Options.ConnWriteTimeout <= c.Block,
		"Options.ConnWriteTimeout %s must be above Block %s", c.Options.ConnWriteTimeout, c.Block)
	seen := map[string]bool{}
	for _, s := range c.Streams {
		fault(s == "", "Streams holds an empty name")
		fault(seen[s], "Streams holds %q twice", s)
		seen[s] = true
		if s != "" {
			fault(c.streamFault(s) != nil, "%w", c.streamFault(s))
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("consumer: config: %w", joined(errs))
	}
	return nil
}

// streamFault says what is wrong with the streams that go with a stream.
func (c Config) streamFault(stream string) error {
	for what, f := range map[string]func(string) string{"dead-letter": c.DeadLetter, "retry": c.RetryStream} {
		if f == nil {
			continue
		}
		switch other := f(stream); {
		case other == "":
			return fmt.Errorf("stream %q: the %s stream has no name", stream, what)
		case other == stream && what == "dead-letter":
			return fmt.Errorf("stream %q: it is its own %s stream", stream, what)
		case slot(other) != slot(stream):
			return fmt.Errorf("stream %q: the %s stream %q is in another hash slot", stream, what, other)
		}
	}
	return nil
}

// joined is errors.Join on one line.
func joined(errs []error) error {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return errors.New(strings.Join(texts, "; "))
}
