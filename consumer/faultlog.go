package consumer

import (
	"log/slog"
	"sync"
	"time"
)

// faultEvery is how often a fault that goes on is logged again.
const faultEvery = time.Minute

// faultLog logs a fault once, counts its repetitions, and says it again each minute while it lasts.
type faultLog struct {
	log *slog.Logger

	mu   sync.Mutex
	seen map[string]*fault
}

type fault struct {
	at       time.Time
	repeated int
}

// warn logs err unless the same fault of the same stream was logged within the minute, and says whether it did. stream may
// be "".
func (f *faultLog) warn(msg, stream string, err error, attrs ...any) bool {
	f.mu.Lock()
	if f.seen == nil {
		f.seen = map[string]*fault{}
	}
	key := msg + "\x00" + stream
	now := time.Now()
	last := f.seen[key]
	if last != nil && now.Sub(last.at) < faultEvery {
		last.repeated++
		f.mu.Unlock()
		return false
	}
	if last != nil && last.repeated > 0 {
		attrs = append(attrs, "repeated", last.repeated)
	}
	f.seen[key] = &fault{at: now}
	f.mu.Unlock()
	if stream != "" {
		attrs = append([]any{"stream", stream}, attrs...)
	}
	f.log.Warn(msg, append(attrs, "err", err)...)
	return true
}

// over forgets a fault, so that its next occurrence is news again, and says whether it was known.
func (f *faultLog) over(msg, stream string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := msg + "\x00" + stream
	_, known := f.seen[key]
	delete(f.seen, key)
	return known
}
