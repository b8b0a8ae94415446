package consumer

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Collector shows to Prometheus what the consumer did and how it stands. It asks no server.
func (c *Consumer) Collector() prometheus.Collector {
	m := &collector{c: c}
	desc := describe(&m.descs, c.cfg.Group)
	m.entries = desc("entries_total", "Entries by what became of them.", "event")
	m.batches = desc("batches_total", "Batches handed to the handler.", "lane")
	m.openings = desc("breaker_openings_total", "Times the handler's store was found down.")
	m.remade = desc("groups_remade_total", "Groups made again after they or their streams were destroyed.")
	m.failures = desc("command_failures_total", "Commands that failed.")
	m.streams = desc("streams", "Streams that are read.")
	m.unreadable = desc("unreadable_streams", "Of those, streams that cannot be read: their keys hold something else.")
	m.inFlight = desc("in_flight_entries", "Entries queued or in handlers.")
	m.bytes = desc("in_flight_bytes", "Bytes of those.")
	m.delayed = desc("delayed_entries", "Entries waiting for their retry.")
	m.ratio = desc("batch_ratio", "Batches of new entries for one of reclaimed ones while both wait.")
	m.breaker = desc("breaker_open", "1 while the handler's store is down and reading is paused.")
	return m
}

// HealthCollector shows the group's health on each stream to Prometheus, as far as the server can tell: what is unknown
// has no sample. Each scrape asks the server, and each stream is a label: it is for groups of some dozens of streams, on
// one of their consumers.
func (c *Consumer) HealthCollector() prometheus.Collector {
	m := &healthCollector{c: c}
	desc := describe(&m.descs, c.cfg.Group)
	m.up = desc("group_up", "1 if the server answered this scrape.")
	m.lag = desc("stream_lag_entries", "Entries not delivered to anybody yet.", "stream")
	m.lost = desc("stream_lost_entries", "Entries trimmed away before they were read.", "stream")
	m.pending = desc("stream_pending_entries", "Entries delivered and not settled.", "stream")
	m.age = desc("stream_oldest_pending_age_seconds", "Age of the oldest pending entry.", "stream")
	m.idle = desc("stream_oldest_pending_idle_seconds", "Time since the oldest pending entry was last delivered.", "stream")
	m.unread = desc("stream_oldest_unread_age_seconds", "Age of the oldest entry not delivered to anybody yet.", "stream")
	m.letters = desc("stream_dead_letters", "Dead letters kept.", "stream")
	m.names = desc("stream_consumers", "Names in the group that a running consumer holds (alive) and that none does (dead).", "stream", "state")
	return m
}

type collector struct {
	descs
	c *Consumer

	entries, batches, openings, remade, failures                  *prometheus.Desc
	streams, unreadable, inFlight, bytes, delayed, ratio, breaker *prometheus.Desc
}

// Collect implements prometheus.Collector.
func (m *collector) Collect(ch chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
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
	count(m.remade, s.GroupsRemade)
	count(m.failures, s.Failures)
	gauge(ch, m.streams, s.Streams)
	gauge(ch, m.unreadable, m.c.unreadable())
	gauge(ch, m.inFlight, s.InFlight)
	gauge(ch, m.bytes, s.Bytes)
	gauge(ch, m.delayed, s.Delayed)
	gauge(ch, m.ratio, s.Ratio)
	gauge(ch, m.breaker, flag(s.Breaker))
}

// unreadable counts the streams that cannot be read.
func (c *Consumer) unreadable() int {
	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	if s == nil {
		return 0
	}
	_, faults := s.keys()
	return len(faults)
}

type healthCollector struct {
	descs
	c *Consumer

	up, lag, lost, pending, age, idle, unread, letters, names *prometheus.Desc
}

// scrapeTimeout bounds what a scrape may take while the server does not answer.
const scrapeTimeout = 3 * time.Second

// Collect implements prometheus.Collector.
func (m *healthCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	h, err := m.c.Health(ctx)
	gauge(ch, m.up, flag(err == nil))
	if err != nil {
		return
	}
	for _, st := range h.Streams {
		if st.LagKnown {
			gauge(ch, m.lag, st.Lag, st.Stream)
		}
		if st.LostKnown {
			gauge(ch, m.lost, st.Lost, st.Stream)
		}
		gauge(ch, m.pending, st.Pending, st.Stream)
		gauge(ch, m.age, st.OldestAge.Seconds(), st.Stream)
		gauge(ch, m.idle, st.OldestIdle.Seconds(), st.Stream)
		gauge(ch, m.unread, st.Unread.Seconds(), st.Stream)
		gauge(ch, m.letters, st.DeadLetters, st.Stream)
		dead := len(st.Dead())
		gauge(ch, m.names, len(st.Consumers)-dead, st.Stream, "alive")
		gauge(ch, m.names, dead, st.Stream, "dead")
	}
}

// descs are what a collector describes.
type descs []*prometheus.Desc

// Describe implements prometheus.Collector.
func (d descs) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range d {
		ch <- desc
	}
}

// describe makes descriptions for a group and notes them.
func describe(all *descs, group string) func(name, help string, labels ...string) *prometheus.Desc {
	return func(name, help string, labels ...string) *prometheus.Desc {
		desc := prometheus.NewDesc("consumer_"+name, help, labels, prometheus.Labels{"group": group})
		*all = append(*all, desc)
		return desc
	}
}

func gauge[N int | int64 | float64](ch chan<- prometheus.Metric, desc *prometheus.Desc, v N, labels ...string) {
	ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(v), labels...)
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
