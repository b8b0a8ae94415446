package web

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/codemojex/feedrenderer/feed"
)

// Group shows how the renderers' group stands with the streams.
type Group interface {
	// Streams lists the streams of a tenant, of all tenants where that is "", in order of tenant and game; a tenant's retry
	// stream, of no game, comes before those. What it gives may be shared and is not changed.
	Streams(ctx context.Context, tenant feed.TenantID) (GroupHealth, error)
}

// GroupHealth is how the group stands at one moment. Ages are in seconds, by the server's clock.
type GroupHealth struct {
	Group    string          `json:"group"`
	At       feed.Instant    `json:"at"`
	Degraded bool            `json:"degraded"`           // one of the streams is, here or on another page
	Eviction string          `json:"eviction,omitempty"` // the server's maxmemory-policy if it may evict streams
	Replicas []ReplicaHealth `json:"replicas"`           // the names in the group, the alive ones first
	Streams  []StreamHealth  `json:"streams"`
	More     bool            `json:"more"`
	Reports  []Report        `json:"-"` // of the renderers that are alive: they speak of other tenants, too
}

// StreamHealth is how the group stands with one stream.
type StreamHealth struct {
	Tenant        feed.TenantID    `json:"tenant"`
	Game          feed.GameID      `json:"game,omitempty"` // "": the tenant's retry stream
	Stream        string           `json:"stream"`
	Degraded      bool             `json:"degraded"`
	Fault         string           `json:"fault,omitempty"` // why it cannot be read
	Reasons       []string         `json:"reasons"`         // what is wrong, for people; none where nothing is
	Length        int64            `json:"length"`
	Lag           *int64           `json:"lag,omitempty"`  // nil: unknown
	Lost          *int64           `json:"lost,omitempty"` // nil: unknown
	Pending       int64            `json:"pending"`
	OldestPending float64          `json:"oldest_pending_seconds"`
	OldestIdle    float64          `json:"oldest_idle_seconds"`
	OldestTries   int64            `json:"oldest_deliveries"` // of the oldest pending one: above 1 it is tried again
	OldestUnread  float64          `json:"oldest_unread_seconds"`
	DeadLetters   int64            `json:"dead_letters"`
	Consumers     []ConsumerHealth `json:"consumers"`
}

// ConsumerHealth is one name in the group.
type ConsumerHealth struct {
	Name    string  `json:"name"`
	Alive   bool    `json:"alive"`
	Pending int64   `json:"pending"`
	Idle    float64 `json:"idle_seconds"`
}

// streams answers how the group stands with the tenant's streams, a page of them.
func (s *Server) streams(c echo.Context) error {
	p := queryOf(c)
	limit, after := p.limit(), p.text("after")
	if p.err != nil {
		return p.err
	}
	tenant, err := s.tenant(c)
	if err != nil {
		return err
	}
	if s.config.Group == nil {
		return errNoSuch
	}
	health, err := s.config.Group.Streams(c.Request().Context(), tenant)
	if err != nil {
		return s.noStreams(err)
	}
	if after != "" {
		from, found := slices.BinarySearchFunc(health.Streams, feed.GameID(after), func(st StreamHealth, game feed.GameID) int { return cmp.Compare(st.Game, game) })
		if found {
			from++
		}
		health.Streams = health.Streams[from:]
	}
	if health.More = len(health.Streams) > limit; health.More {
		health.Streams = health.Streams[:limit]
	}
	return secretJSON(c, http.StatusOK, health)
}

// noStreams answers that the server of the streams cannot be asked.
func (s *Server) noStreams(err error) error {
	s.faults.warn("streams not reached", "err", err)
	return &refusal{http.StatusServiceUnavailable, "the streams are not available now", time.Second}
}
