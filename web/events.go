package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

// Appender appends a batch of events, all or none, in order, and the same one once; see feed.Producer.AppendOnce.
type Appender func(ctx context.Context, game feed.GameKey, once feed.Once, batch []feed.Fields) (ids []feed.ID, again bool, err error)

const (
	maxEventsBody = 4 << 20 // bytes
	maxEvents     = 500     // of one request
	maxFields     = 200     // of one event
	onceKept      = 24 * time.Hour
)

// events appends what a producer sends: one event, an object of fields, or an array of them. It answers their ids, in
// order. With an Idempotency-Key the same request may be sent again, for a day, and appends once.
func (s *Server) events(c echo.Context) error {
	key, err := s.key(c)
	if err != nil {
		return err
	}
	if s.config.Append == nil {
		return errNoSuch
	}
	once := feed.Once{Key: c.Request().Header.Get("Idempotency-Key"), Keep: onceKept}
	if len(once.Key) > maxText || !visible(once.Key) {
		return badParam("Idempotency-Key", once.Key, fmt.Sprintf("up to %d visible ASCII characters", maxText))
	}
	body, err := readBody(c, maxEventsBody)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	_, may, err := s.limits.of(ctx, key.Tenant)
	if err != nil {
		return err
	}
	batch, err := parseEvents(body, min(maxEvents, may.Events), may.EventBytes)
	if err != nil {
		return err
	}
	if err := s.admitGame(ctx, key, may.Games); err != nil {
		return err
	}
	if err := s.limits.append(ctx, key.Tenant, len(batch)); err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	once.Fingerprint = hex.EncodeToString(sum[:])
	ids, again, err := s.config.Append(ctx, key, once, batch)
	switch {
	case errors.Is(err, feed.ErrOtherBatch):
		return &refusal{status: http.StatusUnprocessableEntity, detail: "Idempotency-Key: it was used with another body"}
	case errors.Is(err, feed.ErrNoMore):
		s.faults.warn("events not appended", "tenant", key.Tenant, "game", key.Game, "err", err)
		return &refusal{status: http.StatusConflict, detail: "the game's stream takes no more events: an operator must see to it"}
	case err != nil:
		s.faults.warn("events not appended", "tenant", key.Tenant, "game", key.Game, "err", err)
		return &refusal{http.StatusServiceUnavailable, "the events may not have been appended; with an Idempotency-Key it is safe to send them again", time.Second}
	}
	s.config.OnUnseen(key)
	if again {
		c.Response().Header().Set("Idempotency-Replayed", "true")
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.JSON(http.StatusCreated, struct {
		IDs []feed.ID `json:"ids"`
	}{ids})
}

// admitGame lets a tenant fill no more games than it may. What stands in the stream alone does not count yet.
func (s *Server) admitGame(ctx context.Context, key feed.GameKey, most int) error {
	_, err := s.config.Timeline.Head(ctx, key)
	if !errors.Is(err, timeline.ErrNotFound) {
		return err
	}
	n, err := s.config.Access.CountGames(ctx, key.Tenant, most)
	if err == nil && n >= most {
		err = tooMany("the tenant's limit of games is reached", time.Minute)
	}
	return err
}

func visible(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// parseEvents reads one event or several. Malformed JSON is a 400, JSON that is no event a 422, too much of it a 413.
func parseEvents(body []byte, most, mostBytes int) ([]feed.Fields, error) {
	if !json.Valid(body) {
		return nil, badRequest("body: want one event, a JSON object of fields, or an array of events")
	}
	raw := []json.RawMessage{body}
	if trimmed := bytes.TrimSpace(body); trimmed[0] == '[' {
		if err := json.Unmarshal(trimmed, &raw); err != nil {
			return nil, badRequest("body: want one event, a JSON object of fields, or an array of events")
		}
	}
	switch {
	case len(raw) == 0:
		return nil, unprocessable("body: want at least one event")
	case len(raw) > most:
		return nil, &refusal{status: http.StatusRequestEntityTooLarge, detail: fmt.Sprintf("body: %d events, want at most %d", len(raw), most)}
	}
	batch := make([]feed.Fields, len(raw))
	for i := range raw {
		var err error
		if batch[i], err = parseEvent(raw[i], mostBytes); err != nil {
			var no *refusal
			if errors.As(err, &no) {
				no.detail = fmt.Sprintf("event %d: %s", i+1, no.detail)
			}
			return nil, err
		}
	}
	return batch, nil
}

// parseEvent reads fields in the order they stand in, which the stream keeps. Numbers and booleans are kept as written.
func parseEvent(raw json.RawMessage, mostBytes int) (feed.Fields, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return nil, unprocessable("want a JSON object of fields")
	}
	var fields feed.Fields
	size := 0
	for decoder.More() {
		name, _ := decoder.Token() // valid JSON: the name of a field
		field := feed.Field{Name: name.(string)}
		value, _ := decoder.Token()
		switch v := value.(type) {
		case string:
			field.Value = v
		case json.Number, bool:
			field.Value = fmt.Sprint(v)
		default:
			return nil, unprocessable(fmt.Sprintf("field %q: want a string, a number or a boolean", shorten(field.Name)))
		}
		if _, twice := fields.Lookup(field.Name); twice || field.Name == "" || field.Name == "id" {
			return nil, unprocessable(fmt.Sprintf("field %q: want each name once, not empty, and not id, which is minted here", shorten(field.Name)))
		}
		if strings.ContainsRune(field.Name+field.Value, 0) || !utf8.ValidString(field.Value) {
			return nil, unprocessable(fmt.Sprintf("field %q: want text without NUL", shorten(field.Name)))
		}
		fields = append(fields, field)
		if size += len(field.Name) + len(field.Value); size > mostBytes || len(fields) > maxFields {
			return nil, &refusal{status: http.StatusRequestEntityTooLarge, detail: fmt.Sprintf("want at most %d fields of %d bytes together", maxFields, mostBytes)}
		}
	}
	if kind, ok := fields.Lookup("kind"); !ok || kind == "" {
		return nil, unprocessable("field kind: missing")
	}
	return fields, nil
}

func unprocessable(detail string) error {
	return &refusal{status: http.StatusUnprocessableEntity, detail: detail}
}
