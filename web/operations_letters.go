package web

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/codemojex/feedrenderer/feed"
)

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

// oneLetter shows all of a dead letter.
func (s *Server) oneLetter(c echo.Context) error {
	key, err := s.key(c)
	if err != nil {
		return err
	}
	if s.config.DeadLetters == nil {
		return errNoSuch
	}
	list, _, err := s.config.DeadLetters.List(c.Request().Context(), key, LettersQuery{ID: c.Param("id"), Limit: 1})
	switch {
	case errors.Is(err, ErrNoLetter):
		return errNoSuch
	case err != nil:
		return s.noStreams(err)
	case len(list) != 1:
		return errNoSuch
	}
	return secretJSON(c, http.StatusOK, list[0])
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

// lettersAtOnce is how many dead letters one request retries or drops at most.
const lettersAtOnce = 1000

// retryLetters has dead letters rendered once more, those that are asked for by what they are.
func (s *Server) retryLetters(c echo.Context) error {
	return s.eachLetter(c, func(ctx context.Context, key feed.GameKey, id string) error {
		return s.config.DeadLetters.Retry(ctx, key, id)
	})
}

// dropLetters forgets dead letters for good, likewise.
func (s *Server) dropLetters(c echo.Context) error {
	return s.eachLetter(c, func(ctx context.Context, key feed.GameKey, id string) error {
		return s.config.DeadLetters.Drop(ctx, key, id)
	})
}

// eachLetter does something to the letters that are asked for. All are found before the first is touched: one that
// returns is not met again.
func (s *Server) eachLetter(c echo.Context, do func(context.Context, feed.GameKey, string) error) error {
	p := queryOf(c)
	ask, all := p.letters(), p.text("all")
	if p.err != nil {
		return p.err
	}
	if some := ask != (LettersQuery{}); some == (all == "true") {
		return badRequest("which letters? want kind, reason or older_than, or else all=true")
	}
	key, err := s.key(c)
	if err != nil {
		return err
	}
	if s.config.DeadLetters == nil {
		return errNoSuch
	}
	ctx := c.Request().Context()
	ids, more, err := s.findLetters(ctx, key, ask)
	if err != nil {
		return s.noStreams(err)
	}
	done := 0
	for _, id := range ids {
		switch err := do(ctx, key, id); {
		case err == nil:
			done++
		case !errors.Is(err, ErrNoLetter): // one that is gone meanwhile is no failure
			return s.noStreams(err)
		}
	}
	return secretJSON(c, http.StatusOK, struct {
		Done int  `json:"done"`
		More bool `json:"more"`
	}{done, more})
}

// findLetters gives the ids of letters, and whether there may be more of them.
func (s *Server) findLetters(ctx context.Context, key feed.GameKey, ask LettersQuery) (ids []string, more bool, err error) {
	for len(ids) < lettersAtOnce {
		ask.Limit = min(lettersAtMost, lettersAtOnce-len(ids))
		list, next, err := s.config.DeadLetters.List(ctx, key, ask)
		if err != nil {
			return nil, false, err
		}
		for _, l := range list {
			ids = append(ids, l.ID)
		}
		if next == "" {
			return ids, false, nil
		}
		ask.After = next
	}
	return ids, true, nil
}
