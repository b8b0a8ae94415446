package web

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

// meter holds the metrics of a server. Labels are bounded: tenants that exist, routes of the list, codes of the table.
type meter struct {
	requests *prometheus.HistogramVec
	delivery *prometheus.HistogramVec
	watchers *prometheus.GaugeVec
	hubs     prometheus.Gauge
	sent     *prometheus.CounterVec
	lags     *prometheus.CounterVec
	closes   *prometheus.CounterVec
	messages *prometheus.CounterVec
	queries  *prometheus.CounterVec
}

func newMeter(registry prometheus.Registerer) (*meter, error) {
	const ns, sub = "feedrenderer", "web"
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help}, labels)
	}
	m := &meter{
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: ns, Subsystem: sub, Name: "request_seconds", Help: "How long requests took, but for streams.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 7),
		}, []string{"method", "route", "status"}),
		delivery: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: ns, Subsystem: sub, Name: "delivery_seconds",
			Help:    "From the doorbell after a commit, by the renderer's clock, to the write to a watcher, once for each watcher and write.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"tenant"}),
		watchers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: ns, Subsystem: sub, Name: "connections", Help: "Open sockets and event streams.",
		}, []string{"tenant", "transport"}),
		hubs: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: ns, Subsystem: sub, Name: "hubs", Help: "Games watched in this process.",
		}),
		sent:     counter("lines_total", "Changed lines handed to watchers.", "tenant"),
		lags:     counter("lags_total", "Queues of watchers that overflowed and were replaced by one delta.", "tenant"),
		closes:   counter("closes_total", "Sockets closed by the server.", "code"),
		messages: counter("doorbell_total", "Doorbell messages, and versions that a sweep found, by what came of them.", "outcome"),
		queries:  counter("hub_queries_total", "Queries of hubs.", "query", "outcome"),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.requests, m.delivery, m.watchers, m.hubs, m.sent, m.lags, m.closes, m.messages, m.queries} {
		errs = append(errs, registry.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

func (m *meter) rang(outcome string) { m.messages.WithLabelValues(outcome).Inc() }

func (m *meter) lines(tenant feed.TenantID, n int) {
	m.sent.WithLabelValues(string(tenant)).Add(float64(n))
}

// delivered observes how long what was just written has been on its way. Where clocks differ it may seem to come from the
// future: then it took no time.
func (m *meter) delivered(tenant feed.TenantID, frames []frame) {
	for i := range frames {
		if rung := frames[i].rung; !rung.IsZero() {
			m.delivery.WithLabelValues(string(tenant)).Observe(max(time.Since(rung).Seconds(), 0))
		}
	}
}

func (m *meter) closed(why closing) {
	m.closes.WithLabelValues(strconv.Itoa(int(why.code))).Inc()
}

func (m *meter) query(name string, err error) {
	outcome := "ok"
	switch {
	case errors.Is(err, timeline.ErrNotFound):
		outcome = "not_found"
	case errors.Is(err, timeline.ErrEpoch):
		outcome = "epoch"
	case err != nil:
		outcome = "error"
	}
	m.queries.WithLabelValues(name, outcome).Inc()
}
