package web

import (
	"cmp"
	"maps"
	"slices"

	"github.com/codemojex/feedrenderer/feed"
)

// ReplicaHealth is one name in the group, over all streams.
type ReplicaHealth struct {
	Name      string        `json:"name"`
	Alive     bool          `json:"alive"`
	Streams   int           `json:"streams"`
	Pending   int64         `json:"pending"`
	Idle      float64       `json:"idle_seconds"` // since it last asked for anything
	StoreAway *feed.Instant `json:"store_away_since,omitempty"`
}

// Report is what a renderer says of itself every few seconds.
type Report struct {
	Name      string
	Started   int64                  // ms since 1970; with the name it tells one run from the next
	StoreAway *feed.Instant          // its breaker is open since: it cannot write lines and reads nothing
	Bounds    []float64              // upper bounds of the buckets of Work.Commit, in seconds; one more is beyond the last
	Work      map[feed.TenantID]Work // since it started
}

// Work is what a renderer did for a tenant.
type Work struct {
	Settled int64   // events
	Commit  []int64 // events by how long they took from the stream to the table, by bucket
}

// Of is the part of a tenant, the whole where that is "", with its replicas.
func (h GroupHealth) Of(tenant feed.TenantID) GroupHealth {
	if tenant != "" {
		from, _ := slices.BinarySearchFunc(h.Streams, tenant, func(st StreamHealth, id feed.TenantID) int { return cmp.Compare(st.Tenant, id) })
		to := from
		for to < len(h.Streams) && h.Streams[to].Tenant == tenant {
			to++
		}
		h.Streams = h.Streams[from:to:to]
	}
	h.Degraded = slices.ContainsFunc(h.Streams, func(st StreamHealth) bool { return st.Degraded })
	h.Replicas = replicas(h.Streams, h.Reports)
	return h
}

// replicas gathers the names of streams, the alive ones first, then those with the most pending.
func replicas(streams []StreamHealth, reports []Report) []ReplicaHealth {
	byName := map[string]*ReplicaHealth{}
	for _, st := range streams {
		for _, c := range st.Consumers {
			r, ok := byName[c.Name]
			if !ok {
				r = &ReplicaHealth{Name: c.Name, Alive: c.Alive, Idle: c.Idle}
				byName[c.Name] = r
			}
			r.Streams++
			r.Pending += c.Pending
			r.Idle = min(r.Idle, c.Idle)
		}
	}
	for _, report := range reports {
		if r, ok := byName[report.Name]; ok {
			r.StoreAway = report.StoreAway
		}
	}
	out := make([]ReplicaHealth, 0, len(byName))
	for _, r := range slices.SortedFunc(maps.Values(byName), func(a, b *ReplicaHealth) int {
		return cmp.Or(compareBool(b.Alive, a.Alive), cmp.Compare(b.Pending, a.Pending), cmp.Compare(a.Name, b.Name))
	}) {
		out = append(out, *r)
	}
	return out
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// totals are the streams of a tenant in a few figures.
type totals struct {
	Streams     int     `json:"streams"`
	Degraded    int     `json:"degraded"`
	Faults      int     `json:"faults"`
	Pending     int64   `json:"pending"`
	Lag         int64   `json:"lag"` // as far as it is known
	LagUnknown  int     `json:"lag_unknown"`
	Lost        int64   `json:"lost"`
	DeadLetters int64   `json:"dead_letters"`
	Oldest      float64 `json:"oldest_pending_seconds"`
	OldestGame  string  `json:"oldest_pending_game,omitempty"`
	Unread      float64 `json:"oldest_unread_seconds"`
	Alive       int     `json:"alive"`
	Dead        int     `json:"dead"`
}

func totalsOf(h GroupHealth) totals {
	t := totals{Streams: len(h.Streams)}
	for _, st := range h.Streams {
		if st.Degraded {
			t.Degraded++
		}
		if st.Fault != "" {
			t.Faults++
		}
		t.Pending += st.Pending
		t.DeadLetters += st.DeadLetters
		if st.Lag != nil {
			t.Lag += *st.Lag
		} else {
			t.LagUnknown++
		}
		if st.Lost != nil {
			t.Lost += *st.Lost
		}
		if st.OldestPending > t.Oldest {
			t.Oldest, t.OldestGame = st.OldestPending, string(st.Game)
		}
		t.Unread = max(t.Unread, st.OldestUnread)
	}
	for _, r := range h.Replicas {
		if r.Alive {
			t.Alive++
		} else {
			t.Dead++
		}
	}
	return t
}

// What one frame shows of a tenant at most; the totals count all of it.
const (
	streamsShown  = 100
	replicasShown = 100
)

// groupView is what operators of a tenant are shown at one moment, the streams in trouble first.
type groupView struct {
	Name     string          `json:"name"`
	Eviction string          `json:"eviction,omitempty"` // the policy by which streams may be lost
	Totals   totals          `json:"totals"`
	Replicas []ReplicaHealth `json:"replicas"`
	Streams  []streamRow     `json:"streams"`
	More     int             `json:"more"` // streams that are not shown
}

// streamRow is a stream with its names counted.
type streamRow struct {
	StreamHealth
	Consumers *struct{} `json:"consumers,omitempty"` // never: it hides the field of this name
	Alive     int       `json:"alive"`
	Dead      int       `json:"dead"`
}

func viewOf(h GroupHealth) groupView {
	h.Streams = slices.DeleteFunc(slices.Clone(h.Streams), func(st StreamHealth) bool {
		return st.Game == "" && weight(st) == 0 // a retry stream at rest
	})
	v := groupView{Name: h.Group, Eviction: h.Eviction, Totals: totalsOf(h), Replicas: slices.Clone(h.Replicas[:min(len(h.Replicas), replicasShown)]), Streams: []streamRow{}}
	for i := range v.Replicas {
		if v.Replicas[i].Alive {
			v.Replicas[i].Idle = 0 // of one that lives it is no news
		}
	}
	list := h.Streams
	slices.SortStableFunc(list, func(a, b StreamHealth) int { return weight(b) - weight(a) })
	v.More = max(0, len(list)-streamsShown)
	for _, st := range list[:len(list)-v.More] {
		row := streamRow{StreamHealth: st}
		for _, c := range st.Consumers {
			if c.Alive {
				row.Alive++
			} else {
				row.Dead++
			}
		}
		v.Streams = append(v.Streams, row)
	}
	return v
}

// weight is how much a stream needs to be looked at.
func weight(st StreamHealth) int {
	switch {
	case st.Degraded:
		return 5
	case st.Fault != "":
		return 4
	case st.DeadLetters > 0:
		return 3
	case st.Pending > 0:
		return 2
	case st.Lag == nil || *st.Lag > 0:
		return 1
	}
	return 0
}
