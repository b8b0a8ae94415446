package consumer_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/codemojex/feedrenderer/consumer"
)

// seen records what a handler was given.
type seen struct {
	mu  sync.Mutex
	all []consumer.Message
	at  []time.Time
}

func (s *seen) note(m consumer.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, m)
	s.at = append(s.at, time.Now())
}

func (s *seen) list() []consumer.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

func (s *seen) ids() []string {
	var out []string
	for _, m := range s.list() {
		out = append(out, m.EntryID)
	}
	return out
}

func (s *seen) len() int { return len(s.list()) }

// of lists the attempts with which an entry was seen, and when.
func (s *seen) of(id string) (attempts []int64, at []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range s.all {
		if m.EntryID == id {
			attempts = append(attempts, m.Attempts)
			at = append(at, s.at[i])
		}
	}
	return attempts, at
}

// acking notes each message and acknowledges it.
func (s *seen) acking() func(*consumer.Config) {
	return each(func(_ context.Context, m consumer.Message) consumer.Verdict {
		s.note(m)
		return consumer.Ack()
	})
}

// logs keeps log lines.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logs) lines() int { return strings.Count(l.String(), "\n") }
