package web

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// faults logs what may happen again and again: of each message one a while, for the whole process, with how often it was
// left out before.
type faults struct {
	log *slog.Logger

	mu   sync.Mutex // guards seen
	seen map[string]fault
}

type fault struct {
	said    time.Time
	leftOut int // since then
}

// faultPause is how long a message is not said again.
const faultPause = 30 * time.Second

func newFaults(log *slog.Logger) *faults { return &faults{log: log, seen: map[string]fault{}} }

func (f *faults) warn(message string, attrs ...any) { f.say(slog.LevelWarn, message, attrs...) }

// say takes constant messages only.
func (f *faults) say(level slog.Level, message string, attrs ...any) {
	f.mu.Lock()
	now := time.Now()
	last, known := f.seen[message]
	again := !known || now.Sub(last.said) >= faultPause
	if again {
		f.seen[message] = fault{said: now}
	} else {
		last.leftOut++
		f.seen[message] = last
	}
	f.mu.Unlock()
	if !again {
		return
	}
	if last.leftOut > 0 {
		attrs = append(attrs, "repeated", last.leftOut)
	}
	f.log.Log(context.Background(), level, message, attrs...)
}
