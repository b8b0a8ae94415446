package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/watch"
)

// sighting is when a watcher had a line in its hands, decoded.
type sighting struct {
	evt feed.ID
	at  time.Time
}

// watcher is a Go client of the served socket.
type watcher struct {
	conn *watch.Conn
	seen chan sighting
	end  chan error
}

// newWatcher follows games over one socket and returns when all of them are live.
func newWatcher(ctx context.Context, listen string, games ...feed.GameKey) (*watcher, error) {
	if err := untilAnswers(ctx, "http://"+listen+"/readyz"); err != nil {
		return nil, err
	}
	conn, err := watch.Dial(ctx, "ws://"+listen+"/v1/tenants/"+string(games[0].Tenant)+"/live")
	if err != nil {
		return nil, err
	}
	w := &watcher{conn: conn, seen: make(chan sighting, 1<<16), end: make(chan error, 1)}
	for _, game := range games {
		if err := w.join(ctx, game.Game); err != nil {
			return nil, errors.Join(err, conn.CloseNow())
		}
	}
	go w.follow(ctx)
	return w, nil
}

// join subscribes until the game is there: it appears once its first line is written.
func (w *watcher) join(ctx context.Context, game feed.GameID) error {
	for {
		if err := w.conn.Subscribe(ctx, game, feed.Cursor{}, 1); err != nil {
			return err
		}
		for {
			frame, err := w.conn.Read(ctx)
			if err != nil {
				return err
			}
			if frame.Game != game {
				continue
			}
			if frame.T == "snap" && len(frame.Lines) > 0 {
				return nil
			}
			break
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%s is not there: %w", game, err)
		}
	}
}

func (w *watcher) follow(ctx context.Context) {
	for {
		frame, err := w.conn.Read(ctx)
		if err != nil {
			w.end <- err
			close(w.seen)
			return
		}
		now := time.Now()
		for _, line := range frame.Lines {
			w.seen <- sighting{line.Evt, now}
		}
	}
}

// until waits for one line.
func (w *watcher) until(ctx context.Context, evt feed.ID) (time.Time, error) {
	for {
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("line %s was not seen: %w", evt, context.Cause(ctx))
		case s, ok := <-w.seen:
			if !ok {
				return time.Time{}, <-w.end
			}
			if s.evt == evt {
				return s.at, nil
			}
		}
	}
}

func (w *watcher) close() error {
	err := w.conn.CloseNow()
	for range w.seen { // follow ends
	}
	return err
}
