package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"
	"golang.org/x/sync/singleflight"

	"github.com/codemojex/feedrenderer/consumer"
	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/web"
)

// group is what operators see and mend of the renderers' group. It asks the server of the streams alone, so that it works
// while no renderer runs.
type group struct {
	client   valkey.Client
	name     string
	observer *consumer.Observer
	letters  *consumer.DeadLetters
	looking  singleflight.Group // by tenant

	mu   sync.Mutex // guards what follows
	last web.GroupHealth
	at   time.Time // when the last look at all streams began, zero before the first
}

// newGroup looks after a group; degradedAfter 0 is the consumer's default.
func newGroup(client valkey.Client, name string, degradedAfter time.Duration) *group {
	config := consumer.Config{Group: name, DeadLetter: deadLetters, RetryStream: retryStream, DegradedAfter: degradedAfter}
	return &group{client: client, name: name, observer: consumer.NewObserver(client, config), letters: consumer.NewDeadLetters(client, config)}
}

// deadLetters is where the dead letters of a stream go: those of a game under its own name, and beside a tenant's retry
// stream what somebody put there that was never a dead letter.
func deadLetters(stream string) string {
	if game, err := feed.ParseStream(stream); err == nil {
		return game.DeadLetters()
	}
	return stream + ":dead"
}

// retryStream is where a dead letter is put again.
func retryStream(stream string) string {
	if game, err := feed.ParseStream(stream); err == nil {
		return game.Tenant.RetryStream()
	}
	return stream
}

// lookTime bounds one look at all streams, and one question about letters: a server that is away holds up nobody.
const lookTime = 30 * time.Second

// Streams implements web.Group. Those who ask at once share an answer.
func (g *group) Streams(ctx context.Context, tenant feed.TenantID) (web.GroupHealth, error) {
	asked := g.looking.DoChan(string(tenant), func() (any, error) {
		begun := time.Now()
		health, err := g.look(context.WithoutCancel(ctx), feed.GameKey{Tenant: tenant})
		if err == nil && tenant == "" {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.last, g.at = health, begun
		}
		return health, err
	})
	select {
	case <-ctx.Done():
		return web.GroupHealth{}, ctx.Err()
	case answer := <-asked:
		if answer.Err != nil {
			return web.GroupHealth{}, answer.Err
		}
		return answer.Val.(web.GroupHealth), nil
	}
}

// recent is the last look at all streams where that is at most so old, else a new one. It is shared with the web role,
// which looks every now and then.
func (g *group) recent(ctx context.Context, age time.Duration) (web.GroupHealth, error) {
	g.mu.Lock()
	last, at := g.last, g.at
	g.mu.Unlock()
	if !at.IsZero() && time.Since(at) <= age {
		return last, nil
	}
	return g.Streams(ctx, "")
}

// look says how the group stands with the streams of a tenant, of all where that is "", or with one game's. They are in
// order of tenant and game.
func (g *group) look(ctx context.Context, of feed.GameKey) (web.GroupHealth, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	games, err := g.find(ctx, of)
	if err != nil {
		return web.GroupHealth{}, err
	}
	streams := make([]string, len(games))
	for i, game := range games {
		streams[i] = streamOf(game)
	}
	h, err := g.observer.Health(ctx, streams...)
	if err != nil {
		return web.GroupHealth{}, err
	}
	out := web.GroupHealth{Group: h.Group, At: feed.Instant(h.At), Eviction: h.Eviction, Streams: make([]web.StreamHealth, len(games))}
	for i, game := range games {
		out.Streams[i] = streamHealth(game, h.Streams[i])
	}
	if out.Reports, err = g.reports(ctx, alive(out.Streams)); err != nil {
		return web.GroupHealth{}, err
	}
	return out.Of(of.Tenant), nil
}

// streamOf is the stream of a game, or of game "" the tenant's retry stream.
func streamOf(game feed.GameKey) string {
	if game.Game == "" {
		return game.Tenant.RetryStream()
	}
	return game.Stream()
}

func streamHealth(game feed.GameKey, h consumer.StreamHealth) web.StreamHealth {
	out := web.StreamHealth{
		Tenant: game.Tenant, Game: game.Game, Stream: h.Stream, Degraded: h.Degraded, Fault: h.Fault, Length: h.Length, Pending: h.Pending,
		OldestPending: h.OldestAge.Seconds(), OldestIdle: h.OldestIdle.Seconds(), OldestTries: h.OldestTries, OldestUnread: h.Unread.Seconds(),
		DeadLetters: h.DeadLetters,
		Consumers:   make([]web.ConsumerHealth, len(h.Consumers)),
	}
	if h.NoGroup {
		out.Fault = "no renderer has read it yet: none runs, or its tenant is unknown"
	}
	if h.LagKnown {
		out.Lag = &h.Lag
	}
	if h.LostKnown {
		out.Lost = &h.Lost
	}
	for i, c := range h.Consumers {
		out.Consumers[i] = web.ConsumerHealth{Name: c.Name, Alive: c.Alive, Pending: c.Pending, Idle: c.Idle.Seconds()}
	}
	out.Reasons = troublesOf(out)
	return out
}

// find lists games that have a stream or dead letters, and as game "" of a tenant its retry stream. One game that is
// named outright is listed alone, if it is there.
func (g *group) find(ctx context.Context, of feed.GameKey) ([]feed.GameKey, error) {
	if of.Game != "" {
		n, err := g.client.Do(ctx, g.client.B().Exists().Key(of.Stream(), of.DeadLetters()).Build()).AsInt64()
		if err != nil || n == 0 {
			return nil, err
		}
		return []feed.GameKey{of}, nil
	}
	pattern := "emq:{" + cmp.Or(string(of.Tenant), "*") + "}:*"
	found := map[feed.GameKey]bool{}
	for _, node := range g.client.Nodes() { // in a cluster each knows its own keys, and replicas those of their primary
		for cursor, last := uint64(0), false; !last; {
			page, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(1000).Build()).AsScanEntry()
			if err != nil {
				return nil, fmt.Errorf("look for streams: %w", err)
			}
			for _, key := range page.Elements {
				game, err := feed.ParseStream(key)
				ok := err == nil
				if !ok {
					game, ok = feed.ParseDeadLetters(key)
				}
				if !ok {
					game.Game = ""
					game.Tenant, ok = feed.ParseRetryStream(strings.TrimSuffix(key, ":dead"))
				}
				if ok {
					found[game] = true
				}
			}
			cursor, last = page.Cursor, page.Cursor == 0
		}
	}
	return slices.SortedFunc(maps.Keys(found), feed.GameKey.Compare), nil
}

const (
	lettersPage = 20   // letters read at a time: one may have a megabyte
	lettersLook = 2000 // letters looked through for one answer
)

// List implements web.DeadLetters.
func (g *group) List(ctx context.Context, game feed.GameKey, ask web.LettersQuery) ([]web.DeadLetter, string, error) {
	if ask.ID != "" {
		l, err := g.letter(ctx, game, ask.ID)
		return []web.DeadLetter{l}, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	out, after := []web.DeadLetter{}, ask.After
	for range lettersLook / lettersPage {
		page, err := g.letters.List(ctx, game.Stream(), after, lettersPage)
		if err != nil {
			return nil, "", noLetter(err)
		}
		for _, l := range page {
			after = l.ID
			if letter := deadLetter(game, l); asked(ask, letter) {
				if out = append(out, letter); len(out) == ask.Limit {
					return out, after, nil
				}
			}
		}
		if len(page) < lettersPage {
			return out, "", nil
		}
	}
	return out, after, nil
}

func asked(ask web.LettersQuery, l web.DeadLetter) bool {
	return (ask.Kind == "" || l.Kind == ask.Kind) && strings.Contains(l.Reason, ask.Reason) && time.Since(l.At.Time()) >= ask.OlderThan
}

// Retry implements web.DeadLetters.
func (g *group) Retry(ctx context.Context, game feed.GameKey, id string) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	_, err := g.letters.Retry(ctx, game.Stream(), id)
	return noLetter(err)
}

// Drop implements web.DeadLetters.
func (g *group) Drop(ctx context.Context, game feed.GameKey, id string) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	return noLetter(g.letters.Drop(ctx, game.Stream(), id))
}

// letter is one of them.
func (g *group) letter(ctx context.Context, game feed.GameKey, id string) (web.DeadLetter, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	l, err := g.letters.Letter(ctx, game.Stream(), id)
	return deadLetter(game, l), noLetter(err)
}

// noLetter says that a letter is not there in the words of web.
func noLetter(err error) error {
	if errors.Is(err, consumer.ErrNoLetter) {
		return web.ErrNoLetter
	}
	return err
}

func deadLetter(game feed.GameKey, l consumer.DeadLetter) web.DeadLetter {
	out := web.DeadLetter{
		ID: l.ID, Game: game.Game, Entry: l.EntryID, Kind: feed.KindUnnamed, Reason: l.Reason, Attempts: l.Attempts, At: feed.Instant(l.At),
		Delivered: feed.Instant(l.Delivered), Consumer: l.Consumer, Past: make([]web.Death, len(l.Past)), Fields: make([]web.RawField, len(l.Fields)),
	}
	if id, err := feed.IDOfEntry(l.EntryID); err == nil {
		out.Evt = id.String()
	}
	if kind, ok := l.Fields.Get("kind"); ok {
		out.Kind = kind
	} else if kind, ok := l.Fields.Get("event"); ok {
		out.Kind = kind
	}
	for i, p := range l.Past {
		out.Past[i] = web.Death{At: feed.Instant(p.At), Attempts: p.Attempts, Reason: p.Reason}
	}
	for i, f := range l.Fields {
		out.Fields[i] = web.RawField{Name: f.Name, Value: f.Value, Bytes: len(f.Value)}
	}
	return out
}
