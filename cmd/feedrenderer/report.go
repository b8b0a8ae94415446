package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/consumer"
	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/web"
)

// reporter has a renderer tell what nobody else knows, on the server of the streams: web processes show it to operators.
// A report that cannot be written is left out: the next one says it all.
type reporter struct {
	client   valkey.Client
	group    string
	started  time.Time
	stats    func() consumer.Stats
	rendered *prometheus.Registry // the worker's metrics
	log      *slog.Logger
}

const (
	reportEvery = 5 * time.Second
	reportKept  = 20 * time.Second // a renderer that says nothing for so long is forgotten
)

// reportKey is where the renderer of a name reports.
func reportKey(group, name string) string { return "feedrenderer:{" + group + "}:report:" + name }

func newReporter(client valkey.Client, group string, r *renderer, log *slog.Logger) (*reporter, error) {
	rendered := prometheus.NewRegistry()
	if err := rendered.Register(r.worker); err != nil {
		return nil, err
	}
	return &reporter{client, group, time.Now(), r.consumer.Stats, rendered, log}, nil
}

// run reports until the context ends.
func (r *reporter) run(ctx context.Context) error {
	every := time.NewTicker(reportEvery)
	defer every.Stop()
	for {
		if err := r.report(ctx); err != nil && ctx.Err() == nil {
			r.log.Debug("not reported", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
	}
}

func (r *reporter) report(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reportEvery)
	defer cancel()
	report, err := r.read()
	if err != nil || report.Name == "" { // it has no name yet
		return err
	}
	text, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("encode a report: %w", err)
	}
	return r.client.Do(ctx, r.client.B().Set().Key(reportKey(r.group, report.Name)).Value(string(text)).Px(reportKept).Build()).Error()
}

// read makes a report of the renderer's own figures.
func (r *reporter) read() (web.Report, error) {
	stats := r.stats()
	out := web.Report{Name: stats.Name, Started: r.started.UnixMilli(), Work: map[feed.TenantID]web.Work{}}
	if stats.Breaker {
		since := feed.Instant(stats.BreakerSince)
		out.StoreAway = &since
	}
	families, err := r.rendered.Gather()
	if err != nil {
		return out, fmt.Errorf("gather the renderer's figures: %w", err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			tenant := feed.TenantID(label(metric, "tenant"))
			work := out.Work[tenant]
			switch family.GetName() {
			case "feedrenderer_render_entries_total":
				work.Settled += int64(metric.GetCounter().GetValue())
			case "feedrenderer_render_commit_seconds":
				work.Commit, out.Bounds = buckets(metric.GetHistogram())
			default:
				continue
			}
			out.Work[tenant] = work
		}
	}
	return out, nil
}

func label(metric *dto.Metric, name string) string {
	for _, pair := range metric.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}

// buckets are the counts of a histogram, each bucket's own, and their upper bounds; the last count is beyond those.
func buckets(h *dto.Histogram) (counts []int64, bounds []float64) {
	before := uint64(0)
	for _, b := range h.GetBucket() {
		counts, bounds = append(counts, int64(b.GetCumulativeCount()-before)), append(bounds, b.GetUpperBound()) // #nosec G115 -- counts of entries
		before = b.GetCumulativeCount()
	}
	return append(counts, int64(h.GetSampleCount()-before)), bounds // #nosec G115 -- likewise
}

// reports reads what renderers say of themselves. One that says nothing, or nothing that can be read, is left out.
func (g *group) reports(ctx context.Context, names []string) ([]web.Report, error) {
	if len(names) == 0 {
		return nil, nil
	}
	asks := make([]valkey.Completed, len(names))
	for i, name := range names {
		asks[i] = g.client.B().Get().Key(reportKey(g.name, name)).Build()
	}
	var out []web.Report
	var errs []error
	for i, answer := range g.client.DoMulti(ctx, asks...) {
		text, err := answer.ToString()
		if err != nil {
			if !valkey.IsValkeyNil(err) {
				errs = append(errs, fmt.Errorf("report of %s: %w", names[i], err))
			}
			continue
		}
		var report web.Report
		if json.Unmarshal([]byte(text), &report) == nil && report.Name == names[i] {
			out = append(out, report)
		}
	}
	return out, errors.Join(errs...)
}

// alive are the names that running renderers hold.
func alive(streams []web.StreamHealth) (out []string) {
	seen := map[string]bool{}
	for _, st := range streams {
		for _, c := range st.Consumers {
			if c.Alive && !seen[c.Name] {
				seen[c.Name] = true
				out = append(out, c.Name)
			}
		}
	}
	return out
}
