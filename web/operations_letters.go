package web

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/codemojex/feedrenderer/feed"
)

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
