package consumer

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// collector shows Stats and Health as metrics. Each scrape asks the server.
type collector struct {
	c *Consumer

	entries, batches, openings, failures                            *prometheus.Desc
	inFlight, bytes, delayed, ratio, breaker                        *prometheus.Desc
	up, lag, lost, pending, age, idle, unread, letters, names, dead *prometheus.Desc
}

// scrapeTimeout bounds what a scrape may take while the server does not answer.
const scrapeTimeout = 3 * time.Second

// Collector shows the consumer to Prometheus: what it did, how it stands, and the group's health on each stream, as far
// as the server can tell: what is unknown has no sample.
func (c *Consumer) Collector() prometheus.Collector {
	labels := prometheus.Labels{"group": c.cfg.Group}
	desc := func(name, help string, variable ...string) *prometheus.Desc {
		return prometheus.NewDesc("consumer_"+name, help, variable, labels)
	}
	return &collector{
		c:        c,
		entries:  desc("entries_total", "Entries by what became of them.", "event"),
		batches:  desc("batches_total", "Batches handed to the handler.", "lane"),
		openings: desc("breaker_openings_total", "Times the handler's store was found down."),
		failures: desc("command_failures_total", "Commands that failed."),
		inFlight: desc("in_flight_entries", "Entries queued or in handlers."),
		bytes:    desc("in_flight_bytes", "Bytes of those."),
		delayed:  desc("delayed_entries", "Entries waiting for their retry."),
		ratio:    desc("ratio", "Batches of new entries for one of reclaimed ones while both wait."),
		breaker:  desc("breaker_open", "1 while the handler's store is down and reading is paused."),
		up:       desc("up", "1 if the server answered this scrape."),
		lag:      desc("stream_lag_entries", "Entries not delivered to anybody yet.", "stream"),
		lost:     desc("stream_lost_entries", "Entries trimmed away before they were read.", "stream"),
		pending:  desc("stream_pending_entries", "Entries delivered and not settled.", "stream"),
		age:      desc("stream_oldest_pending_seconds", "Age of the oldest pending entry.", "stream"),
		idle:     desc("stream_oldest_pending_idle_seconds", "Time since the oldest pending entry was last delivered.", "stream"),
		unread:   desc("stream_oldest_unread_seconds", "Age of the oldest entry not delivered to anybody yet.", "stream"),
		letters:  desc("stream_dead_letters", "Dead letters kept.", "stream"),
		names:    desc("stream_consumers", "Consumer names in the group.", "stream"),
		dead:     desc("stream_dead_consumers", "Names in the group that no running consumer holds.", "stream"),
	}
}

func (m *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		m.entries, m.batches, m.openings, m.failures, m.inFlight, m.bytes, m.delayed, m.ratio, m.breaker,
		m.up, m.lag, m.lost, m.pending, m.age, m.idle, m.unread, m.letters, m.names, m.dead,
	} {
		ch <- d
	}
}

func (m *collector) Collect(ch chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	s := m.c.Stats()
	for _, e := range []struct {
		event string
		n     int64
	}{
		{"read", s.Read},
		{"backlog", s.Backlog},
		{"reclaimed", s.Reclaimed},
		{"retried", s.Retried},
		{"acked", s.Acked},
		{"acked_elsewhere", s.AckedElsewhere},
		{"retry", s.Retries},
		{"reject", s.Rejected},
		{"dead_lettered", s.DeadLettered},
		{"handed_back", s.HandedBack},
		{"trimmed", s.Trimmed},
		{"lease_lost", s.LeasesLost},
		{"panic", s.Panics},
	} {
		count(m.entries, e.n, e.event)
	}
	count(m.batches, s.Batches, "new")
	count(m.batches, s.ReclaimedBatches, "reclaimed")
	count(m.openings, s.BreakerOpenings)
	count(m.failures, s.Failures)
	gauge(m.inFlight, float64(s.InFlight))
	gauge(m.bytes, float64(s.Bytes))
	gauge(m.delayed, float64(s.Delayed))
	gauge(m.ratio, float64(s.Ratio))
	gauge(m.breaker, flag(s.Breaker))

	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	h, err := m.c.Health(ctx)
	gauge(m.up, flag(err == nil))
	if err != nil {
		return
	}
	for _, st := range h.Streams {
		if st.LagKnown {
			gauge(m.lag, float64(st.Lag), st.Stream)
		}
		if st.LostKnown {
			gauge(m.lost, float64(st.Lost), st.Stream)
		}
		gauge(m.pending, float64(st.Pending), st.Stream)
		gauge(m.age, st.OldestAge.Seconds(), st.Stream)
		gauge(m.idle, st.OldestIdle.Seconds(), st.Stream)
		gauge(m.letters, float64(st.DeadLetters), st.Stream)
		gauge(m.unread, st.Unread.Seconds(), st.Stream)
		gauge(m.names, float64(len(st.Consumers)), st.Stream)
		gauge(m.dead, float64(len(st.Dead())), st.Stream)
	}
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
