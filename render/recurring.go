package render

import (
	"log/slog"
	"sync"
	"time"
)

// recurring logs a fault that comes and goes: at most once a minute, with how often it was left out, and its end only where
// its beginning was told.
type recurring struct {
	log       *slog.Logger
	bad, good string // what is said of it and of its end

	mu      sync.Mutex // guards what follows
	said    time.Time
	leftOut int
	told    bool // that it has begun, and not that it is over
}

// recurringPause is how long a fault is not told again.
const recurringPause = time.Minute

// failed notes a failure.
func (r *recurring) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if !r.said.IsZero() && now.Sub(r.said) < recurringPause {
		r.leftOut++
		return
	}
	attrs := []any{"err", err}
	if r.leftOut > 0 {
		attrs = append(attrs, "repeated", r.leftOut)
	}
	r.said, r.leftOut, r.told = now, 0, true
	r.log.Warn(r.bad, attrs...)
}

// over notes that all is well.
func (r *recurring) over() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told {
		r.told = false
		r.log.Info(r.good)
	}
}
