package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
)

// groupModel has three streams, of a tenant whoever it is, and a letter for whatever id is asked for but "none". The
// game "down" is one that nobody can ask about.
type groupModel struct{}

func (*groupModel) Streams(_ context.Context, tenant feed.TenantID) (GroupHealth, error) {
	lag := int64(3)
	stream := func(game feed.GameID) StreamHealth {
		return StreamHealth{
			Tenant: tenant, Game: game, Stream: feed.GameKey{Tenant: tenant, Game: game}.Stream(), Lag: &lag, Pending: 952, OldestPending: 1814400,
			Degraded: true, Reasons: []string{"952 pending"}, Consumers: []ConsumerHealth{{Name: "ghost", Pending: 952, Idle: 1814400}},
		}
	}
	out := GroupHealth{Group: "feedrenderer", At: feed.Instant(time.Now()), Streams: []StreamHealth{stream(""), stream("g1"), stream("g2")}}
	return out.Of(tenant), nil
}

func (*groupModel) List(_ context.Context, game feed.GameKey, ask LettersQuery) ([]DeadLetter, string, error) {
	if err := groupError(game, cmp.Or(ask.ID, ask.After)); err != nil {
		return nil, "", err
	}
	fields := []RawField{{"big", strings.Repeat("é", 1<<10), 2 << 10}}
	for i := range 150 {
		fields = append(fields, RawField{strconv.Itoa(i), "v", 1})
	}
	return []DeadLetter{{
		ID: "1-1", Game: game.Game, Evt: evt(1).String(), Entry: "1-0", Kind: "scored", Reason: "no good", Attempts: 4, Consumer: "a",
		Past: []Death{{Attempts: 2, Reason: "no good either"}}, Fields: fields,
	}}, "1-1", nil
}

func (*groupModel) Retry(_ context.Context, game feed.GameKey, id string) error {
	return groupError(game, id)
}

func (*groupModel) Drop(_ context.Context, game feed.GameKey, id string) error {
	return groupError(game, id)
}

func groupError(game feed.GameKey, id string) error {
	switch {
	case game.Game == "down":
		return errors.New("connection refused")
	case id == "none":
		return ErrNoLetter
	}
	return nil
}

func TestOperatorsSeeStreamsAndDeadLetters(t *testing.T) {
	t.Parallel()
	c := newCustoms(t, nil)
	_, key := c.key("acme", "operate")
	answer := func(method, path string, status int, into any) {
		t.Helper()
		got, body := c.ask(method, "/v1/tenants/acme/streams"+path, key, "")
		if got.StatusCode != status || got.Header.Get("Cache-Control") != "no-store" && body != "" {
			t.Errorf("%s %s: %d, want %d: %s", method, path, got.StatusCode, status, body)
		}
		if into != nil {
			if err := json.Unmarshal([]byte(body), into); err != nil {
				t.Errorf("%s: %v", body, err)
			}
		}
	}

	t.Run("StreamsByPage", func(t *testing.T) {
		var all, first, rest GroupHealth
		answer(http.MethodGet, "", 200, &all)
		answer(http.MethodGet, "?limit=2", 200, &first)
		answer(http.MethodGet, "?after=g1", 200, &rest)
		if len(all.Streams) != 3 || all.More || len(first.Streams) != 2 || !first.More || len(rest.Streams) != 1 || rest.Streams[0].Game != "g2" || !rest.Degraded {
			t.Errorf("all %+v\nfirst %+v\nrest %+v", all, first, rest)
		}
	})

	t.Run("OfALetterOnlyTheBeginningOfWhatIsLong", func(t *testing.T) {
		var page struct {
			Letters []DeadLetter `json:"dead_letters"`
			Next    string
		}
		answer(http.MethodGet, "/g1/dead-letters", 200, &page)
		l := page.Letters[0]
		if page.Next != "1-1" || len(l.Fields) != 100 || !l.More || len(l.Fields[0].Value) != 1<<10 || l.Fields[0].Bytes != 2<<10 {
			t.Errorf("%d fields, the first of %d bytes: %+v", len(l.Fields), len(l.Fields[0].Value), l)
		}
	})

	t.Run("AllOfALetterThatIsAskedForAlone", func(t *testing.T) {
		var l DeadLetter
		answer(http.MethodGet, "/g1/dead-letters/1-1", 200, &l)
		if len(l.Fields) != 151 || l.More || len(l.Fields[0].Value) != 2<<10 {
			t.Errorf("%d fields, the first of %d bytes: %v", len(l.Fields), len(l.Fields[0].Value), l.More)
		}
	})

	t.Run("WhatIsNotThereIsNotFoundAndWhatIsDownIsUnavailable", func(t *testing.T) {
		answer(http.MethodPost, "/g1/dead-letters/1-1/retry", 202, nil)
		answer(http.MethodPost, "/g1/dead-letters/none/retry", 404, nil)
		answer(http.MethodGet, "/g1/dead-letters/none", 404, nil)
		answer(http.MethodGet, "/down/dead-letters/1-1", 503, nil)
		answer(http.MethodDelete, "/g1/dead-letters/none", 404, nil)
		answer(http.MethodGet, "/g1/dead-letters?after=none", 400, nil)
		answer(http.MethodGet, "/g1/dead-letters?older_than=soon", 400, nil)
		answer(http.MethodGet, "/down/dead-letters", 503, nil)
		answer(http.MethodDelete, "/down/dead-letters/1-1", 503, nil)
	})
}
