package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
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

// DeadLetters keeps what the renderers gave up on. ErrNoLetter is wrapped for letters that are not there.
type DeadLetters interface {
	// List returns the letters that are asked for, oldest first, and the id to go on after, "" at the end.
	List(ctx context.Context, game feed.GameKey, ask LettersQuery) (letters []DeadLetter, next string, err error)
	// Retry has a letter rendered once more. It settles, or returns with its history.
	Retry(ctx context.Context, game feed.GameKey, id string) error
	Drop(ctx context.Context, game feed.GameKey, id string) error
}

// ErrNoLetter says that a dead letter is not there: dropped, retried, trimmed away or never written.
var ErrNoLetter = errors.New("no such dead letter")

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

// LettersQuery asks for letters by what they are. A zero field asks nothing.
type LettersQuery struct {
	ID        string // this one alone
	After     string // the id of a letter
	Limit     int
	Kind      string        // of the event
	Reason    string        // a part of it
	OlderThan time.Duration // since it became a dead letter
}

// DeadLetter is an event that was given up on.
type DeadLetter struct {
	ID        string       `json:"id"`
	Game      feed.GameID  `json:"game"`
	Evt       string       `json:"evt,omitempty"` // where the entry has one
	Entry     string       `json:"entry"`
	Kind      string       `json:"kind"`
	Reason    string       `json:"reason"`
	Attempts  int64        `json:"attempts"` // those before its retries included
	At        feed.Instant `json:"at"`
	Delivered feed.Instant `json:"delivered_at"` // last
	Consumer  string       `json:"consumer"`     // that gave it up
	Past      []Death      `json:"past"`         // before each retry, oldest first
	Fields    []RawField   `json:"fields"`
	More      bool         `json:"more_fields"` // fields are left out here
}

// Death is what a dead letter was before it was retried.
type Death struct {
	At       feed.Instant `json:"at"`
	Attempts int64        `json:"attempts"`
	Reason   string       `json:"reason"`
}

// RawField is a field as it was appended. What is not valid UTF-8 has U+FFFD in it.
type RawField struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Bytes int    `json:"bytes"` // of the whole value, which may be longer than what stands here
}

// A list shows no more of a letter than this; the command line shows all of it.
const (
	lettersAtMost = 100
	fieldsShown   = 100
	bytesShown    = 1 << 10
)

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

// letters reads which dead letters are asked for by what they are.
func (p *params) letters() LettersQuery {
	return LettersQuery{Kind: p.text("kind"), Reason: p.text("reason"), OlderThan: p.duration("older_than", 100*365*24*time.Hour)}
}

// deadLetters lists what was given up on of a game.
func (s *Server) deadLetters(c echo.Context) error {
	p := queryOf(c)
	ask := p.letters()
	ask.After, ask.Limit = p.text("after"), min(p.limit(), lettersAtMost)
	if p.err != nil {
		return p.err
	}
	key, err := s.key(c)
	if err != nil {
		return err
	}
	if s.config.DeadLetters == nil {
		return errNoSuch
	}
	list, next, err := s.config.DeadLetters.List(c.Request().Context(), key, ask)
	if errors.Is(err, ErrNoLetter) {
		return badParam("after", ask.After, "the id of a dead letter")
	}
	if err != nil {
		return s.noStreams(err)
	}
	for i := range list {
		list[i].shorten()
	}
	return secretJSON(c, http.StatusOK, struct {
		Letters []DeadLetter `json:"dead_letters"`
		Next    string       `json:"next,omitempty"`
	}{list, next})
}

func (l *DeadLetter) shorten() {
	if l.More = len(l.Fields) > fieldsShown; l.More {
		l.Fields = l.Fields[:fieldsShown]
	}
	for i := range l.Fields {
		f := &l.Fields[i]
		f.Name, f.Value = cut(f.Name), cut(f.Value)
	}
}

// cut gives the beginning of a text, of whole characters.
func cut(text string) string {
	if len(text) <= bytesShown {
		return text
	}
	return strings.ToValidUTF8(text[:bytesShown], "")
}

// retryLetter has a dead letter rendered once more.
func (s *Server) retryLetter(c echo.Context) error {
	return s.letter(c, http.StatusAccepted, func(ctx context.Context, key feed.GameKey, id string) error {
		return s.config.DeadLetters.Retry(ctx, key, id)
	})
}

// dropLetter forgets a dead letter for good.
func (s *Server) dropLetter(c echo.Context) error {
	return s.letter(c, http.StatusNoContent, func(ctx context.Context, key feed.GameKey, id string) error {
		return s.config.DeadLetters.Drop(ctx, key, id)
	})
}

func (s *Server) letter(c echo.Context, status int, do func(context.Context, feed.GameKey, string) error) error {
	key, err := s.key(c)
	if err != nil {
		return err
	}
	if s.config.DeadLetters == nil {
		return errNoSuch
	}
	err = do(c.Request().Context(), key, c.Param("id"))
	switch {
	case errors.Is(err, ErrNoLetter):
		return errNoSuch
	case err != nil:
		return s.noStreams(err)
	}
	return c.NoContent(status)
}

// noStreams answers that the server of the streams cannot be asked.
func (s *Server) noStreams(err error) error {
	s.faults.warn("streams not reached", "err", err)
	return &refusal{http.StatusServiceUnavailable, "the streams are not available now", time.Second}
}
