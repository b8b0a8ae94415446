package web

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
)

func TestEvents(t *testing.T) {
	t.Parallel()
	c := newCustoms(t, nil)
	_, key := c.key("acme", tenants.Produce)
	const path = "/v1/tenants/acme/games/g1/events"

	t.Run("AreAppendedInTheirOrderAndSoAreTheirFields", func(t *testing.T) {
		answer, body := c.ask(http.MethodPost, path, key, `[{"kind":"scored","z":"1","a":87.50,"b":true,"é":"<b>"},{"kind":"notice"}]`)
		if answer.StatusCode != http.StatusCreated || strings.Count(body, `"EVT`) != 2 {
			t.Fatalf("got %d %s", answer.StatusCode, body)
		}
		equal(t, c.appended, []feed.Fields{
			{{Name: "kind", Value: "scored"}, {Name: "z", Value: "1"}, {Name: "a", Value: "87.50"}, {Name: "b", Value: "true"}, {Name: "é", Value: "<b>"}},
			{{Name: "kind", Value: "notice"}},
		})
	})

	t.Run("ThatAreNoneAreRefusedWithTheReason", func(t *testing.T) {
		for _, bad := range []struct {
			body   string
			status int
			reason string
		}{
			{``, 400, "JSON object"},
			{`{`, 400, "JSON object"},
			{`{"kind":"a"} {"kind":"b"}`, 400, "JSON object"},
			{`"kind"`, 422, "event 1: want a JSON object"},
			{`[]`, 422, "at least one"},
			{`[{"kind":"a"},7]`, 422, "event 2: want a JSON object"},
			{`{}`, 422, "kind: missing"},
			{`{"kind":""}`, 422, "kind: missing"},
			{`{"kind":"a","x":null}`, 422, `field \"x\": want a string`},
			{`{"kind":"a","x":{}}`, 422, `field \"x\": want a string`},
			{`{"kind":"a","x":["b"]}`, 422, `field \"x\": want a string`},
			{`{"kind":"a","kind":"b"}`, 422, "once"},
			{`{"kind":"a","id":"EVT00000000000"}`, 422, "minted"},
			{`{"kind":"a","":"b"}`, 422, "empty"},
			{`{"kind":"a","x":"\u0000"}`, 422, "NUL"},
			{`[` + strings.Repeat(`{"kind":"a"},`, maxEvents) + `{"kind":"a"}]`, 413, "want at most 500"},
			{`{"kind":"a","x":"` + strings.Repeat("x", 64<<10) + `"}`, 413, "fields of 65536 bytes"},
			{`{"kind":"a"` + func() string {
				var fields strings.Builder
				for i := range maxFields {
					fields.WriteString(`,"` + text(i) + `":1`)
				}
				return fields.String()
			}() + `}`, 413, "at most 200 fields"},
			{strings.Repeat(" ", maxEventsBody+1), 413, "bytes"},
		} {
			answer, body := c.ask(http.MethodPost, path, key, bad.body)
			if answer.StatusCode != bad.status || !strings.Contains(body, bad.reason) || answer.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%.60s: %d %s, want %d %s", bad.body, answer.StatusCode, body, bad.status, bad.reason)
			}
		}
		for _, name := range []string{"a b", strings.Repeat("k", maxText+1), "ä"} {
			if answer, body := c.ask(http.MethodPost, path, key, `{"kind":"a"}`, "Idempotency-Key", name); answer.StatusCode != http.StatusBadRequest {
				t.Errorf("Idempotency-Key %.20q: %d %s", name, answer.StatusCode, body)
			}
		}
	})
}

func TestAStreamThatTakesNoMoreIsNotToBeTriedAgain(t *testing.T) {
	t.Parallel()
	c := newCustoms(t, func(config *Config) {
		config.Append = func(context.Context, feed.GameKey, feed.Once, []feed.Fields) ([]feed.ID, bool, error) {
			return nil, false, feed.ErrNoMore
		}
	})
	_, key := c.key("acme", tenants.Produce)
	answer, body := c.ask(http.MethodPost, "/v1/tenants/acme/games/g1/events", key, `{"kind":"notice"}`)
	if answer.StatusCode != http.StatusConflict || answer.Header.Get("Retry-After") != "" {
		t.Errorf("got %d %s, Retry-After %q", answer.StatusCode, body, answer.Header.Get("Retry-After"))
	}
}

func FuzzParseEvents(f *testing.F) {
	for _, seed := range []string{`{"kind":"a"}`, `[{"kind":"a","x":1e400},{"kind":"b","y":false}]`, `[[`, ` [{}] `, `{"kind":"a","\ud800":"\udfff"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		batch, err := parseEvents(body, 10, 1000)
		for _, fields := range batch {
			if _, ok := fields.Lookup("kind"); err == nil && !ok {
				t.Errorf("%q: an event without a kind", body)
			}
		}
	})
}
