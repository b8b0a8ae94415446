package web

import (
	"maps"
	"math"
	"time"

	"github.com/codemojex/feedrenderer/feed"
)

// Bounds of what a web process remembers: an hour of each tenant with streams, 32 bytes a sample.
const (
	historyKept    = time.Hour
	historyTenants = 1000
)

// sample is a tenant's group at one moment, and what was done since the sample before. NaN is unknown.
type sample struct {
	at       int64 // ms since 1970, by the server of the streams
	pending  float32
	oldest   float32 // seconds
	letters  float32
	settled  float32 // events a second
	p50, p99 float32 // seconds from stream to table
}

// histories remember the last hour of every tenant with streams. They are not safe for concurrent use.
type histories struct {
	every   time.Duration // between two samples
	last    time.Time     // the last sample, zero before the first
	tenants map[feed.TenantID][]sample
	runs    map[replicaRun]lastReport
}

// replicaRun is a renderer from its start to its end: a name may be another's afterwards.
type replicaRun struct {
	name    string
	started int64
}

type lastReport struct {
	work map[feed.TenantID]Work
	at   time.Time
}

func newHistories(every time.Duration) *histories {
	return &histories{every: every, tenants: map[feed.TenantID][]sample{}, runs: map[replicaRun]lastReport{}}
}

// take samples all tenants where it is time to.
func (h *histories) take(all GroupHealth) {
	now := all.At.Time()
	since := now.Sub(h.last)
	if !h.last.IsZero() && since < h.every {
		return
	}
	work := h.worked(all.Reports, now)
	for i := 0; i < len(all.Streams); {
		tenant := all.Streams[i].Tenant
		s := sample{at: now.UnixMilli(), settled: nan, p50: nan, p99: nan}
		for ; i < len(all.Streams) && all.Streams[i].Tenant == tenant; i++ {
			st := all.Streams[i]
			s.pending += float32(st.Pending)
			s.letters += float32(st.DeadLetters)
			s.oldest = max(s.oldest, float32(st.OldestPending))
		}
		if !h.last.IsZero() {
			done := work[tenant]
			s.settled = float32(float64(done.Settled) / since.Seconds())
			s.p50, s.p99 = quantile(.5, done.Commit, done.bounds), quantile(.99, done.Commit, done.bounds)
		}
		if list, ok := h.tenants[tenant]; ok || len(h.tenants) < historyTenants {
			h.tenants[tenant] = append(list, s)
		}
	}
	h.last = now
	h.forget(now.Add(-historyKept).UnixMilli())
}

// forget drops what is older than that. A tenant without streams is forgotten with its last sample.
func (h *histories) forget(before int64) {
	for tenant, list := range h.tenants {
		n := 0
		for n < len(list) && list[n].at < before {
			n++
		}
		switch {
		case n == len(list):
			delete(h.tenants, tenant)
		case n > 0:
			h.tenants[tenant] = append(list[:0], list[n:]...)
		}
	}
}

var nan = float32(math.NaN())

// bucketed is work with the bounds of its buckets.
type bucketed struct {
	Work
	bounds []float64
}

// worked is what the renderers did since the last sample. One that was not there then began since; but before the first
// sample nobody knows. A report that fails to come is remembered as long as the samples, and counts on when it does.
func (h *histories) worked(reports []Report, now time.Time) map[feed.TenantID]bucketed {
	out := map[feed.TenantID]bucketed{}
	for _, r := range reports {
		run := replicaRun{r.Name, r.Started}
		before := h.runs[run].work
		h.runs[run] = lastReport{r.Work, now}
		for tenant, work := range r.Work {
			sum := out[tenant]
			sum.bounds = r.Bounds
			sum.Settled += max(0, work.Settled-before[tenant].Settled)
			if sum.Commit == nil {
				sum.Commit = make([]int64, len(r.Bounds)+1)
			}
			for i := range min(len(sum.Commit), len(work.Commit)) {
				n := work.Commit[i]
				if was := before[tenant].Commit; i < len(was) {
					n -= was[i]
				}
				sum.Commit[i] += max(0, n)
			}
			out[tenant] = sum
		}
	}
	maps.DeleteFunc(h.runs, func(_ replicaRun, last lastReport) bool { return now.Sub(last.at) > historyKept })
	return out
}

// quantile estimates one of counts by bucket, even within each; NaN where there are none. What is beyond the last bound
// counts as that.
func quantile(q float64, counts []int64, bounds []float64) float32 {
	var total int64
	for _, n := range counts {
		total += n
	}
	if total == 0 || len(bounds) == 0 {
		return nan
	}
	rank, below := q*float64(total), int64(0)
	for i, n := range counts[:min(len(counts), len(bounds))] {
		if n > 0 && float64(below+n) >= rank {
			low := 0.
			if i > 0 {
				low = bounds[i-1]
			}
			return float32(low + (bounds[i]-low)*(rank-float64(below))/float64(n))
		}
		below += n
	}
	return float32(bounds[len(bounds)-1])
}

// sampleView is a sample as operators get it. What is unknown is left out.
type sampleView struct {
	At      feed.Instant `json:"at"`
	Pending float32      `json:"pending"`
	Oldest  float32      `json:"oldest_pending_seconds"`
	Letters float32      `json:"dead_letters"`
	Settled *float32     `json:"settled_per_second,omitempty"`
	P50     *float32     `json:"commit_p50_seconds,omitempty"`
	P99     *float32     `json:"commit_p99_seconds,omitempty"`
}

// after gives the samples of a tenant taken after a moment, in order, and the moment of the last.
func (h *histories) after(tenant feed.TenantID, ms int64) ([]sampleView, int64) {
	known := func(f float32) *float32 {
		if f != f {
			return nil
		}
		return &f
	}
	out := []sampleView{}
	for _, s := range h.tenants[tenant] {
		if s.at > ms {
			out = append(out, sampleView{feed.Instant(time.UnixMilli(s.at)), s.pending, s.oldest, s.letters, known(s.settled), known(s.p50), known(s.p99)})
			ms = s.at
		}
	}
	return out, ms
}
