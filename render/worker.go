package render

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/codemojex/feedrenderer/consumer"
	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

// Timeline keeps lines.
type Timeline interface {
	// Apply writes lines in any order, repeats allowed, and says what changed in each of their games. A line that can
	// never be written is rejected and costs no other line anything. After an error some may have been written.
	Apply(ctx context.Context, lines []feed.Line) (timeline.Applied, error)
}

// Doorbell tells the web processes what was committed.
type Doorbell interface {
	Publish(ctx context.Context, changes []feed.Change) error
}

// WorkerConfig is what a worker needs.
type WorkerConfig struct {
	Kinds    *Kinds
	Timeline Timeline
	Doorbell Doorbell
	Logger   *slog.Logger // nil: no logs

	// ApplyTimeout bounds the write of one batch: past it the store counts as down, be it frozen or out of reach. 30 s
	ApplyTimeout time.Duration
	// RingTimeout bounds the ringing for one batch. 2 s
	RingTimeout time.Duration
}

// Worker takes batches of entries to committed lines. Its Step is a [consumer.Handler]; it is a prometheus.Collector too.
type Worker struct {
	cfg     WorkerConfig
	metrics workerMetrics
	mute    recurring
}

// NewWorker returns a worker.
func NewWorker(cfg WorkerConfig) *Worker {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.ApplyTimeout == 0 {
		cfg.ApplyTimeout = 30 * time.Second
	}
	if cfg.RingTimeout == 0 {
		cfg.RingTimeout = 2 * time.Second
	}
	return &Worker{
		cfg: cfg, metrics: newWorkerMetrics(),
		mute: recurring{log: cfg.Logger, bad: "the doorbell does not ring: watchers see lines a second late", good: "the doorbell rings again"},
	}
}

// Step takes one batch from entry to rung change and says what to acknowledge: last of all, so a crash anywhere in
// between repeats work and loses no line. The repetition changes nothing and rings all the same, which heals watchers
// whose renderer died between commit and ring.
func (w *Worker) Step(ctx context.Context, batch []consumer.Message) []consumer.Verdict {
	j := w.render(batch)
	if len(j.lines) > 0 {
		applied, verdict := w.apply(ctx, j.lines)
		w.ring(ctx, applied.Changes)
		w.settle(j, applied.Rejected, verdict)
	}
	return j.verdicts
}

// job is a batch in work: a verdict for each message, and the lines of those that have one.
type job struct {
	batch    []consumer.Message
	verdicts []consumer.Verdict // by message
	lines    []feed.Line
	of       []int // the message of each line
}

// render makes the lines of a batch. Messages without one get their verdict here.
func (w *Worker) render(batch []consumer.Message) *job {
	j := &job{
		batch:    batch,
		verdicts: make([]consumer.Verdict, len(batch)),
		lines:    make([]feed.Line, 0, len(batch)),
		of:       make([]int, 0, len(batch)),
	}
	for i, message := range batch {
		event, err := feed.Decode(message.Stream, message.EntryID, pairs(message.Fields))
		if err != nil {
			j.verdicts[i] = consumer.Reject(err.Error())
			w.metrics.count(tenantOf(message.Stream), undecodable)
			continue
		}
		line, skip, err := w.cfg.Kinds.Render(event)
		switch {
		case err != nil:
			j.verdicts[i] = consumer.Reject(err.Error())
			w.metrics.count(event.Game.Tenant, unshowable)
		case skip:
			j.verdicts[i] = consumer.Ack()
			w.metrics.count(event.Game.Tenant, lineless)
		default:
			j.lines, j.of = append(j.lines, line), append(j.of, i)
		}
	}
	return j
}

// apply writes the lines and says what to do with the entries of all that were not rejected. An error that nobody is
// known to be the cause of counts against each of them: the one that is ends among the dead letters, after a try alone.
func (w *Worker) apply(ctx context.Context, lines []feed.Line) (timeline.Applied, consumer.Verdict) {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.ApplyTimeout)
	defer cancel()
	begun := time.Now()
	applied, err := w.cfg.Timeline.Apply(ctx, lines)
	switch {
	case err == nil:
		w.metrics.apply.Observe(time.Since(begun).Seconds())
		return applied, consumer.Ack()
	case timeline.Unavailable(err) || ctx.Err() != nil: // down, frozen, or we are being stopped
		return applied, consumer.Unavailable(err)
	}
	return applied, consumer.Retry(0, err)
}

// ring tells watchers what was committed. A failure is counted, logged and changes no verdict: the lines are
// committed, and every hub finds what it missed in its sweep, a second later. A retry would count against entries that
// have nothing wrong with them, until they were dead letters beside their own lines; and "unavailable" would stop the
// rendering of a store that is up. Where the server of the doorbell is gone, so is that of the streams: the
// acknowledgement fails as well, and the redelivery rings.
func (w *Worker) ring(ctx context.Context, changes []feed.Change) {
	if len(changes) == 0 {
		return
	}
	// What is committed is told, even while we are being stopped.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.RingTimeout)
	defer cancel()
	if err := w.cfg.Doorbell.Publish(ctx, changes); err != nil {
		w.metrics.unrung.Inc()
		w.mute.failed(err)
		return
	}
	w.mute.over()
}

// settle says what becomes of the entries whose lines went to the timeline: the verdict, but for those rejected.
func (w *Worker) settle(j *job, rejected []timeline.Rejection, verdict consumer.Verdict) {
	for _, i := range j.of {
		j.verdicts[i] = verdict
	}
	for _, rejection := range rejected {
		j.verdicts[j.of[rejection.Index]] = consumer.Reject(rejection.Reason)
	}
	now := time.Now()
	for n, i := range j.of {
		switch tenant := j.lines[n].Game.Tenant; j.verdicts[i].Kind() {
		case consumer.KindAck:
			w.metrics.count(tenant, written)
			w.metrics.committed(tenant, j.batch[i].EntryID, now)
		case consumer.KindReject:
			w.metrics.count(tenant, unwritable)
		}
	}
}

func pairs(fields consumer.Fields) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, field := range fields {
			if !yield(field.Name, field.Value) {
				return
			}
		}
	}
}

// tenantOf says whose stream it is that no event could be read from; "" where nobody can tell.
func tenantOf(stream string) feed.TenantID {
	if tenant, ok := feed.ParseRetryStream(stream); ok {
		return tenant
	}
	game, err := feed.ParseStream(stream)
	if err != nil {
		return ""
	}
	return game.Tenant
}
