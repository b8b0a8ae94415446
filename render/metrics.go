package render

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/codemojex/feedrenderer/feed"
)

const namespace, subsystem = "feedrenderer", "render"

// fate is what became of an entry, as the metrics tell it.
type fate string

const (
	written     fate = "written"     // a line was written, or was there already
	lineless    fate = "lineless"    // acknowledged: its kind has no line
	undecodable fate = "undecodable" // dead letter: no event
	unshowable  fate = "unshowable"  // dead letter: an event that cannot be rendered
	unwritable  fate = "unwritable"  // dead letter: a line that the database refuses
)

type workerMetrics struct {
	entries *prometheus.CounterVec   // by tenant and fate
	commit  *prometheus.HistogramVec // by tenant
	apply   prometheus.Histogram
	unrung  prometheus.Counter
}

func newWorkerMetrics() workerMetrics {
	return workerMetrics{
		entries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "entries_total",
			Help: "Entries with their fate: written, lineless, undecodable, unshowable, unwritable.",
		}, []string{"tenant", "fate"}),
		commit: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "commit_seconds",
			Help:    "From the time in the entry's id to the commit of its line. An entry handled twice counts twice.",
			Buckets: []float64{.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"tenant"}),
		apply: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "apply_seconds",
			Help:    "The write of one batch of lines.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		unrung: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "doorbell_failures_total",
			Help: "Batches whose changes could not be told, or not all: watchers see them at the next sweep.",
		}),
	}
}

func (m *workerMetrics) count(tenant feed.TenantID, fate fate) {
	m.entries.WithLabelValues(string(tenant), string(fate)).Inc()
}

// committed observes how old an entry is. Ids may run ahead of the clock: such an entry took no time.
func (m *workerMetrics) committed(tenant feed.TenantID, entryID string, now time.Time) {
	id, err := feed.IDOfEntry(entryID)
	if err != nil {
		return // of the retry stream, before 2024 by the server's clock
	}
	m.commit.WithLabelValues(string(tenant)).Observe(max(now.Sub(id.Time()).Seconds(), 0))
}

// Describe implements prometheus.Collector.
func (w *Worker) Describe(descriptions chan<- *prometheus.Desc) {
	for _, collector := range w.metrics.all() {
		collector.Describe(descriptions)
	}
}

// Collect implements prometheus.Collector.
func (w *Worker) Collect(metrics chan<- prometheus.Metric) {
	for _, collector := range w.metrics.all() {
		collector.Collect(metrics)
	}
}

func (m *workerMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.entries, m.commit, m.apply, m.unrung}
}

// keyCounts are the keys that one pass found of no use.
type keyCounts struct {
	malformed int // no names of ours
	unknown   int // of tenants that nobody knows
}

type discoveryMetrics struct {
	keys     *prometheus.GaugeVec // by state
	duration prometheus.Gauge
	failures prometheus.Counter
}

func newDiscoveryMetrics() discoveryMetrics {
	return discoveryMetrics{
		keys: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "discovery_keys",
			Help: "Keys of streams at the last pass: joined, left (final and idle), malformed, unknown_tenant, wrong_type.",
		}, []string{"state"}),
		duration: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "discovery_pass_seconds",
			Help: "Length of the last whole pass over the keys.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "discovery_failures_total",
			Help: "Passes that were given up.",
		}),
	}
}

// passed puts down what a whole pass has seen.
func (m *discoveryMetrics) passed(d *Discovery, took time.Duration) {
	joined, left := 0, 0
	for _, s := range d.found {
		if s.joined {
			joined++
		} else {
			left++
		}
	}
	for state, n := range map[string]int{
		"joined": joined, "left": left, "malformed": d.seen.malformed, "unknown_tenant": d.seen.unknown, "wrong_type": len(d.strange),
	} {
		m.keys.WithLabelValues(state).Set(float64(n))
	}
	m.duration.Set(took.Seconds())
}

// Describe implements prometheus.Collector.
func (d *Discovery) Describe(descriptions chan<- *prometheus.Desc) {
	d.metrics.keys.Describe(descriptions)
	d.metrics.duration.Describe(descriptions)
	d.metrics.failures.Describe(descriptions)
}

// Collect implements prometheus.Collector.
func (d *Discovery) Collect(metrics chan<- prometheus.Metric) {
	d.metrics.keys.Collect(metrics)
	d.metrics.duration.Collect(metrics)
	d.metrics.failures.Collect(metrics)
}
