package main

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/codemojex/feedrenderer/web"
)

// groupMetrics shows to Prometheus how the group stands with all streams, whether a renderer runs or not. Labels are
// bounded: tenants, and of their games those that are degraded, the worst of them.
type groupMetrics struct {
	group         *group
	degradedAfter time.Duration
	lost          lostCounts

	descs                                                         []*prometheus.Desc
	up, evicts, replicas                                          *prometheus.Desc
	streams, degraded, faults, pending, age, unread, lag, unknown *prometheus.Desc
	losses, letters, names                                        *prometheus.Desc
	worstPending, worstAge, worstUnread                           *prometheus.Desc
}

const (
	// scrapePatience bounds what a scrape waits for a server: what takes longer is shown by the next one.
	scrapePatience = time.Second
	lookGood       = time.Second      // a look is shown to all scrapes within so long
	lookStale      = 30 * time.Second // and for so long where a newer one takes its time

	tenantLabels = 1000 // tenants with a label of their own, in order of name: keys may be of tenants that nobody knows
	gameLabels   = 50   // degraded games that are shown, those that have waited longest
)

func newGroupMetrics(group *group, degradedAfter time.Duration) *groupMetrics {
	m := &groupMetrics{group: group, degradedAfter: degradedAfter, lost: lostCounts{seen: map[string]int64{}, counts: map[string]int64{}}}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		d := prometheus.NewDesc("feedrenderer_group_"+name, help, labels, nil)
		m.descs = append(m.descs, d)
		return d
	}
	m.up = desc("up", "1 if the server of the streams could be asked.")
	m.evicts = desc("server_evicts", "1 if the server of the streams may evict them.")
	m.replicas = desc("replicas", "Names in the group that a running renderer holds (alive) and that none does (dead).", "state")
	m.streams = desc("streams", "Streams, that of the retried dead letters included.", "tenant")
	m.degraded = desc("degraded_streams", "Streams of which an event has waited too long to be settled (pending) or to be read (unread).", "tenant", "waits")
	m.faults = desc("fault_streams", "Streams that cannot be read.", "tenant")
	m.pending = desc("pending_entries", "Events that were read and not settled.", "tenant")
	m.age = desc("oldest_pending_age_seconds", "Age of the oldest of those, by the clock of the server of the streams.", "tenant")
	m.unread = desc("oldest_unread_age_seconds", "Age of the oldest event that nobody has read yet, likewise.", "tenant")
	m.lag = desc("lag_entries", "Events that nobody has read yet, in the streams of which that is known; no sample where it is known of none.", "tenant")
	m.unknown = desc("lag_unknown_streams", "Streams of which it is not known how many events nobody has read yet.", "tenant")
	m.losses = desc("lost_entries_total", "Events found trimmed away before anybody had read them.", "tenant")
	m.letters = desc("dead_letters", "Dead letters kept.", "tenant")
	m.names = desc("consumers", "Names in the group on the tenant's streams, alive and dead.", "tenant", "state")
	m.worstPending = desc("degraded_pending_entries", "Of a degraded game: events that were read and not settled.", "tenant", "game")
	m.worstAge = desc("degraded_oldest_pending_age_seconds", "Of a degraded game: age of the oldest of those.", "tenant", "game")
	m.worstUnread = desc("degraded_oldest_unread_age_seconds", "Of a degraded game: age of the oldest event that nobody has read yet.", "tenant", "game")
	return m
}

// Describe implements prometheus.Collector.
func (m *groupMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range m.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *groupMetrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
	defer cancel()
	health, err := m.group.recent(ctx, lookGood)
	if err != nil && ctx.Err() != nil { // the look goes on
		health, err = m.group.recent(ctx, lookStale)
	}
	gauge(ch, m.up, yes(err == nil))
	if err != nil {
		return
	}
	m.show(ch, health)
}

func (m *groupMetrics) show(ch chan<- prometheus.Metric, health web.GroupHealth) {
	gauge(ch, m.evicts, yes(health.Eviction != ""))
	all, tenants := newStanding(), map[string]*standing{}
	var worst []web.StreamHealth
	for _, st := range health.Streams {
		tenant := string(st.Tenant)
		if tenants[tenant] == nil && len(tenants) >= tenantLabels {
			tenant = "(others)"
		}
		if tenants[tenant] == nil {
			tenants[tenant] = newStanding()
		}
		for _, s := range []*standing{all, tenants[tenant]} {
			s.add(st, m.degradedAfter.Seconds())
		}
		m.lost.note(tenant, st)
		if st.Degraded {
			worst = append(worst, st)
		}
	}
	for state, n := range all.consumers() {
		gauge(ch, m.replicas, float64(n), state)
	}
	for tenant, s := range tenants {
		gauge(ch, m.streams, float64(s.streams), tenant)
		gauge(ch, m.degraded, float64(s.waitPending), tenant, "pending")
		gauge(ch, m.degraded, float64(s.waitUnread), tenant, "unread")
		gauge(ch, m.faults, float64(s.faults), tenant)
		gauge(ch, m.pending, float64(s.pending), tenant)
		gauge(ch, m.age, s.age, tenant)
		gauge(ch, m.unread, s.unread, tenant)
		if s.lagKnown {
			gauge(ch, m.lag, float64(s.lag), tenant)
		}
		gauge(ch, m.unknown, float64(s.lagUnknown), tenant)
		gauge(ch, m.letters, float64(s.letters), tenant)
		ch <- prometheus.MustNewConstMetric(m.losses, prometheus.CounterValue, float64(m.lost.of(tenant)), tenant)
		for state, n := range s.consumers() {
			gauge(ch, m.names, float64(n), tenant, state)
		}
	}
	slices.SortStableFunc(worst, func(a, b web.StreamHealth) int {
		return cmp.Compare(max(b.OldestPending, b.OldestUnread), max(a.OldestPending, a.OldestUnread))
	})
	for _, st := range worst[:min(len(worst), gameLabels)] {
		tenant, game := string(st.Tenant), cmp.Or(string(st.Game), "(retries)")
		gauge(ch, m.worstPending, float64(st.Pending), tenant, game)
		gauge(ch, m.worstAge, st.OldestPending, tenant, game)
		gauge(ch, m.worstUnread, st.OldestUnread, tenant, game)
	}
}

// standing is how the group stands with some streams.
type standing struct {
	streams, faults, waitPending, waitUnread, lagUnknown int
	pending, lag, letters                                int64
	lagKnown                                             bool            // of a stream at least
	age, unread                                          float64         // seconds, the largest
	alive                                                map[string]bool // by name
}

func newStanding() *standing { return &standing{alive: map[string]bool{}} }

// add takes a stream in, of which no event should wait for so many seconds.
func (s *standing) add(st web.StreamHealth, degradedAfter float64) {
	s.streams++
	if st.Fault != "" {
		s.faults++
	}
	if st.OldestPending >= degradedAfter {
		s.waitPending++
	}
	if st.OldestUnread >= degradedAfter {
		s.waitUnread++
	}
	if st.Lag == nil {
		s.lagUnknown++
	} else {
		s.lagKnown, s.lag = true, s.lag+*st.Lag
	}
	s.pending += st.Pending
	s.letters += st.DeadLetters
	s.age, s.unread = max(s.age, st.OldestPending), max(s.unread, st.OldestUnread)
	for _, c := range st.Consumers {
		s.alive[c.Name] = c.Alive
	}
}

// consumers counts the names by whether they are held.
func (s *standing) consumers() map[string]int {
	out := map[string]int{"alive": 0, "dead": 0}
	for _, alive := range s.alive {
		if alive {
			out["alive"]++
		} else {
			out["dead"]++
		}
	}
	return out
}

// lostCounts makes counters of how many events streams have lost: what a stream says may begin anew, or go with it.
type lostCounts struct {
	mu     sync.Mutex       // guards what follows
	seen   map[string]int64 // by stream, of those that lost any
	counts map[string]int64 // by the label of a tenant
}

func (l *lostCounts) note(tenant string, st web.StreamHealth) {
	if st.Lost == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if more := *st.Lost - l.seen[st.Stream]; more != 0 {
		l.seen[st.Stream] = *st.Lost
		l.counts[tenant] += max(0, more)
	}
}

func (l *lostCounts) of(tenant string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[tenant]
}

func gauge(ch chan<- prometheus.Metric, desc *prometheus.Desc, value float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func yes(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
