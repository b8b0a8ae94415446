package render

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"github.com/codemojex/feedrenderer/consumer"
	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

// Source gives entries that were rendered before, a page at a time.
type Source interface {
	// Next gives at most n entries behind those it gave last, and how to go on behind them: the text that the source was
	// made with to resume. No entries and another text is a page that held nothing to do; no text is the end.
	Next(ctx context.Context, n int) (page []consumer.Message, at string, err error)
	// Share is about how much of all there is to give was given, from 0 to 1.
	Share() float64
}

// ReplayConfig is what a replay needs.
type ReplayConfig struct {
	WorkerConfig
	Source Source

	// Rate bounds the entries a second, so that live work goes on beside it. 2000
	Rate int
	// Patience is how long a store may be away before the replay gives up. 1 min
	Patience time.Duration
	// OnReject is told of each entry that cannot become a line, from Run's goroutine; nil: nobody.
	OnReject func(entry consumer.Message, reason string)
	// OnProgress is told after each page, likewise.
	OnProgress func(Progress)
}

// Progress is how far a replay has come.
type Progress struct {
	Read     int     // entries
	Written  int     // of those, that changed their line
	Same     int     // that said nothing new
	Lineless int     // whose kind has no line
	Rejected int     // that cannot become a line. They are told of and go nowhere: the live reader has put them aside
	At       string  // all up to here is done; "" before the first page
	Share    float64 // of all, about
}

// Replay takes entries that were rendered before through the same step as live ones: decode, render, apply, ring. The
// newer wins, so a replay may run beside live work, be interrupted and be repeated: what is there already stays as it is.
type Replay struct {
	cfg    ReplayConfig
	handle consumer.Handler
	tally  *tally
	so     Progress
}

// maxPage is how many entries are in work at a time, at most; a tenth of a second's where that is less.
const maxPage = 500

// NewReplay returns a replay of a source.
func NewReplay(cfg ReplayConfig) *Replay {
	if cfg.Rate == 0 {
		cfg.Rate = 2000
	}
	if cfg.Patience == 0 {
		cfg.Patience = time.Minute
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.OnReject == nil {
		cfg.OnReject = func(consumer.Message, string) {}
	}
	if cfg.OnProgress == nil {
		cfg.OnProgress = func(Progress) {}
	}
	counted := &tally{Timeline: cfg.Timeline}
	cfg.Timeline = counted
	return &Replay{cfg: cfg, handle: NewWorker(cfg.WorkerConfig).Step, tally: counted}
}

// Run replays until the source has no more, or the context ends. Whatever ends it, Progress.At says where to resume.
func (r *Replay) Run(ctx context.Context) (Progress, error) {
	n := max(1, min(maxPage, r.cfg.Rate/10))
	pace := rate.NewLimiter(rate.Limit(r.cfg.Rate), n)
	for {
		page, at, err := r.cfg.Source.Next(ctx, n)
		if err != nil || at == "" {
			return r.so, err
		}
		if err := pace.WaitN(ctx, len(page)); err != nil {
			return r.so, err
		}
		if err := r.settle(ctx, page); err != nil {
			return r.so, err
		}
		r.so.At, r.so.Share = at, r.cfg.Source.Share()
		r.cfg.OnProgress(r.so)
	}
}

// settle takes a page through the step until each entry of it has its fate, and counts them.
func (r *Replay) settle(ctx context.Context, page []consumer.Message) error {
	clear(r.tally.lines)
	rejected := 0
	begun := time.Now()
	for left, first := page, true; ; first = false {
		var trouble error
		left, trouble = r.try(ctx, left, &rejected)
		if len(left) == 0 {
			break
		}
		if time.Since(begun) > r.cfg.Patience {
			return trouble
		}
		if first && ctx.Err() == nil {
			r.cfg.Logger.Warn("the lines cannot be written now, and are tried again", "lines", len(left), "err", trouble)
		}
		if err := pause(ctx, min(r.cfg.Patience/10, time.Second)); err != nil {
			return err
		}
	}
	lines, written := r.tally.count()
	r.so.Read += len(page)
	r.so.Written += written
	r.so.Same += lines - written
	r.so.Lineless += len(page) - rejected - lines
	r.so.Rejected += rejected
	return nil
}

// try takes entries through the step once and gives those that have no fate yet, and why.
func (r *Replay) try(ctx context.Context, batch []consumer.Message, rejected *int) (left []consumer.Message, trouble error) {
	for i, verdict := range r.handle.Handle(ctx, batch) {
		switch verdict.Kind() {
		case consumer.KindAck:
		case consumer.KindReject:
			*rejected++
			r.cfg.OnReject(batch[i], verdict.Reason())
		default:
			left, trouble = append(left, batch[i]), verdict.Err()
		}
	}
	return left, trouble
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// tally is a timeline that remembers the events that were written to it and not refused, and whether their lines changed.
type tally struct {
	Timeline
	lines map[lineEvent]bool // whether the event's line changed
}

type lineEvent struct {
	game  feed.GameKey
	event feed.ID
}

// Apply may be called for the same lines again, after an error: what an earlier call changed counts as changed.
func (t *tally) Apply(ctx context.Context, lines []feed.Line) (timeline.Applied, error) {
	applied, err := t.Timeline.Apply(ctx, lines)
	changed := make(map[lineEvent]bool) // by line
	for _, change := range applied.Changes {
		for _, line := range change.Lines {
			changed[lineEvent{change.Game, line.Evt}] = true
		}
	}
	refused := make(map[int]bool)
	for _, rejection := range applied.Rejected {
		refused[rejection.Index] = true
	}
	if t.lines == nil {
		t.lines = make(map[lineEvent]bool)
	}
	for i := range lines {
		key := lineEvent{lines[i].Game, lines[i].Event}
		if refused[i] {
			delete(t.lines, key)
		} else {
			t.lines[key] = t.lines[key] || changed[lineEvent{lines[i].Game, lines[i].Evt}]
		}
	}
	return applied, err
}

func (t *tally) count() (lines, changed int) {
	for _, yes := range t.lines {
		if yes {
			changed++
		}
	}
	return len(t.lines), changed
}
