package render

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

var errCrash = errors.New("the process died here")

// Wherever a renderer dies between reading an entry and acknowledging it, and whether or not what it was at had happened:
// another one finds the line to be one line, rings, and leaves nothing pending.
func TestARendererThatDies(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		// the renderer's timeline, doorbell and line to the server, one of which is where it dies
		timeline func(s *scene, die func()) Timeline
		doorbell func(s *scene, die func()) Doorbell
		ack      func(l *line) (forward, cut bool)
		// whether the next one has anything left to do
		settledBefore bool
	}{
		{name: "BeforeTheCommit", timeline: func(_ *scene, die func()) Timeline {
			return applied(func(context.Context, []feed.Line) (timeline.Applied, error) {
				die()
				return timeline.Applied{}, errCrash
			})
		}},
		{name: "AfterTheCommitBeforeItsReply", timeline: func(s *scene, die func()) Timeline {
			return applied(func(ctx context.Context, lines []feed.Line) (timeline.Applied, error) {
				if _, err := s.writer.Apply(ctx, lines); err != nil {
					s.t.Error(err)
				}
				die()
				return timeline.Applied{}, errCrash
			})
		}},
		{name: "BeforeTheRing", doorbell: func(_ *scene, die func()) Doorbell {
			return rung(func(context.Context, []feed.Change) error {
				die()
				return errCrash
			})
		}},
		{name: "AfterTheRingBeforeItsReply", doorbell: func(s *scene, die func()) Doorbell {
			return rung(func(ctx context.Context, changes []feed.Change) error {
				if err := s.doorbell.Publish(ctx, changes); err != nil {
					s.t.Error(err)
				}
				die()
				return errCrash
			})
		}},
		{name: "BeforeTheAcknowledgement", ack: func(*line) (forward, cut bool) { return false, true }},
		{name: "AfterTheAcknowledgementBeforeItsReply", settledBefore: true, ack: func(l *line) (forward, cut bool) {
			l.muted.Store(true)
			return true, false
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			way := newLine(t, s.address, test.ack)
			died := make(chan struct{})
			die := sync.OnceFunc(func() {
				way.cut()
				close(died)
			})
			var store Timeline = s.writer
			var bell Doorbell = s.doorbell
			if test.timeline != nil {
				store = test.timeline(s, die)
			}
			if test.doorbell != nil {
				bell = test.doorbell(s, die)
			}
			s.append("opened", "mode", "classic")
			_, stop := s.consume(way.address(), s.worker(store, bell).Step, nil)
			if test.ack != nil {
				until(t, "the first renderer acknowledges", func() bool { return way.isDead() || way.muted.Load() && s.settled() })
				way.cut()
			} else {
				<-died
			}
			stop()
			if s.settled() != test.settledBefore {
				t.Fatalf("settled %v, want %v", !test.settledBefore, test.settledBefore)
			}

			rang := make(chan feed.Change, 100)
			s.consume(s.address, s.worker(s.writer, rung(func(ctx context.Context, changes []feed.Change) error {
				for _, change := range changes {
					rang <- change
				}
				return s.doorbell.Publish(ctx, changes)
			})).Step, nil)
			until(t, "nothing is pending", s.settled)
			if lines := s.lines(); len(lines) != 1 || lines[0].Evt != s.appended {
				t.Errorf("want one line, got %+v", lines)
			}
			if !test.settledBefore {
				if change := <-rang; change.Game != s.game || change.To == 0 {
					t.Errorf("rang for %+v", change)
				}
			}
			if n := s.deadLetters(); n != 0 {
				t.Errorf("%d dead letters", n)
			}
		})
	}
}
