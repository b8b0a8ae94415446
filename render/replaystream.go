package render

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/consumer"
	"github.com/codemojex/feedrenderer/feed"
)

// StreamSource gives the entries that the stream of a game still holds, in its order, up to the last one there is when it
// begins. It reads beside the group and settles nothing.
type StreamSource struct {
	client valkey.Client
	game   feed.GameKey

	next, end   string // bounds of XRANGE
	opened      bool
	given       int64
	total       int64 // of the stream where all of it is meant, else 0: then the time in the ids tells how far it has come
	first, last int64 // unix milliseconds
	at          int64
}

// NewStreamSource makes a source of the entries from one id to another, both included; "" is the stream's first or last.
// A bound may lack its sequence: that of a millisecond, first or last.
func NewStreamSource(client valkey.Client, game feed.GameKey, from, to string) *StreamSource {
	s := &StreamSource{client: client, game: game, next: from, end: to}
	if from == "" {
		s.next = "-"
	}
	if to == "" {
		s.end = "+"
	}
	return s
}

// Next implements [Source]. The text is the entry id of the last: to resume from it repeats one entry, which changes nothing.
func (s *StreamSource) Next(ctx context.Context, n int) ([]consumer.Message, string, error) {
	if !s.opened {
		if err := s.open(ctx); err != nil {
			return nil, "", fmt.Errorf("replay %s: %w", s.game, err)
		}
		s.opened = true
	}
	entries, err := s.client.Do(ctx, s.client.B().Xrange().Key(s.game.Stream()).Start(s.next).End(s.end).Count(int64(n)).Build()).AsXRangeSlices()
	if err != nil {
		return nil, "", fmt.Errorf("replay %s from %s: %w", s.game, s.next, err)
	}
	if len(entries) == 0 {
		return nil, "", nil
	}
	page := make([]consumer.Message, len(entries))
	for i, entry := range entries {
		page[i] = consumer.Message{Stream: s.game.Stream(), EntryID: entry.ID, Attempts: 1, Fields: make(consumer.Fields, len(entry.FieldValues))}
		for j, field := range entry.FieldValues {
			page[i].Fields[j] = consumer.Field{Name: field.Field, Value: field.Value}
		}
	}
	last := entries[len(entries)-1].ID
	s.given += int64(len(page))
	s.next, s.at = "("+last, millis(last)
	return page, last, nil
}

// open finds where to end, since a live stream grows as fast as it is read, and how far that is.
func (s *StreamSource) open(ctx context.Context) error {
	key, whole := s.game.Stream(), s.next == "-" && s.end == "+"
	answers := s.client.DoMulti(ctx,
		s.client.B().Xlen().Key(key).Build(),
		s.client.B().Xrange().Key(key).Start(s.next).End(s.end).Count(1).Build(),
		s.client.B().Xrevrange().Key(key).End(s.end).Start(s.next).Count(1).Build())
	length, err := answers[0].AsInt64()
	if err != nil {
		return err
	}
	if whole {
		s.total = length
	}
	for i, into := range []*int64{&s.first, &s.last} {
		entries, err := answers[1+i].AsXRangeSlices()
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			return nil
		}
		*into = millis(entries[0].ID)
		if i == 1 {
			s.end = entries[0].ID
		}
	}
	s.at = s.first
	return nil
}

// Share implements [Source].
func (s *StreamSource) Share() float64 {
	switch {
	case s.total > 0:
		return min(1, float64(s.given)/float64(s.total))
	case s.last > s.first:
		return float64(s.at-s.first) / float64(s.last-s.first)
	}
	return 1
}

// millis is the time in the id of an entry, in unix milliseconds.
func millis(entry string) int64 {
	text, _, _ := strings.Cut(entry, "-")
	ms, _ := strconv.ParseInt(text, 10, 64) // 0 is as good as any for ids that no clock makes
	return ms
}
