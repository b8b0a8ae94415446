package web

import (
	"log/slog"
	"sync"
	"time"
)

// faults logs what keeps failing while a store is away: of each message one a while, for the whole process. How often it
// happened is told by the metrics.
type faults struct {
	log *slog.Logger

	mu   sync.Mutex // guards last
	last map[string]time.Time
}

// faultPause is how long a message is not said again.
const faultPause = 30 * time.Second

func newFaults(log *slog.Logger) *faults { return &faults{log: log, last: map[string]time.Time{}} }

// warn takes constant messages only.
func (f *faults) warn(message string, attrs ...any) {
	f.mu.Lock()
	now := time.Now()
	said, ok := f.last[message]
	again := !ok || now.Sub(said) >= faultPause
	if again {
		f.last[message] = now
	}
	f.mu.Unlock()
	if again {
		f.log.Warn(message, attrs...)
	}
}
