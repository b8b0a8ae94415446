package render

import "github.com/prometheus/client_golang/prometheus"

type upkeepMetrics struct {
	expired, dropped, trimmed *prometheus.CounterVec // by tenant
	held, passed              *prometheus.CounterVec // by tenant and group
	failures                  prometheus.Counter
}

func newUpkeepMetrics() upkeepMetrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: "upkeep", Name: name, Help: help}, labels)
	}
	return upkeepMetrics{
		expired: counter("expired_games_total", "Times the lines of an ended game were ended.", "tenant"),
		dropped: counter("dropped_lines_total", "Rows of such lines deleted.", "tenant"),
		trimmed: counter("trimmed_entries_total", "Settled entries removed from streams.", "tenant"),
		held:    counter("held_streams_total", "Times a stream kept entries beyond their days since a group had not settled them.", "tenant", "group"),
		passed:  counter("passed_over_streams_total", "Times a stream was trimmed past what a group never settled that has been silent for the grace period.", "tenant", "group"),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: "upkeep", Name: "failures_total", Help: "Passes in which something failed.",
		}),
	}
}

func (m *upkeepMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.expired, m.dropped, m.trimmed, m.held, m.passed, m.failures}
}

// Describe implements prometheus.Collector.
func (u *Upkeep) Describe(descriptions chan<- *prometheus.Desc) {
	for _, collector := range u.metrics.all() {
		collector.Describe(descriptions)
	}
}

// Collect implements prometheus.Collector.
func (u *Upkeep) Collect(metrics chan<- prometheus.Metric) {
	for _, collector := range u.metrics.all() {
		collector.Collect(metrics)
	}
}
