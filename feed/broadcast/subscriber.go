package broadcast

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
)

// Listener hears what is said of one game. Its methods must return at once: behind them waits the one connection that
// carries every game of the process.
type Listener interface {
	// Subscribed is called whenever a subscription has come to stand, the first and every one after a lost connection:
	// whatever was said before was not heard, so the table must be looked at.
	Subscribed()
	// Rang is called for each message.
	Rang(Message)
	// Counted is called for the counts of other processes.
	Counted(Count)
}

// Subscriber listens for the games that a process watches.
type Subscriber struct {
	client      valkey.Client
	process     string
	logger      *slog.Logger
	undecodable atomic.Int64

	mu        sync.Mutex // guards listeners
	listeners map[feed.GameKey][]Listener
}

// NewSubscriber makes a subscriber over a client that should be its own, made with [SubscriberOption]. A nil logger
// means slog.Default().
func NewSubscriber(client valkey.Client, logger *slog.Logger) *Subscriber {
	if logger == nil {
		logger = slog.Default()
	}
	return &Subscriber{client: client, process: strconv.FormatUint(rand.Uint64(), 36), logger: logger, listeners: map[feed.GameKey][]Listener{}}
}

// SubscriberOption shapes the options of a client that only subscribes: one connection a node for any number of games,
// none of its memory reserved for pipelines and caches.
func SubscriberOption(option valkey.ClientOption) valkey.ClientOption {
	option.PipelineMultiplex = -1
	option.RingScaleEachConn = 8
	option.WriteBufferEachConn = 16 << 10
	option.ReadBufferEachConn = 64 << 10
	option.DisableCache = true
	return option
}

// resubscribe is the longest pause before a subscription that broke is tried again.
const resubscribe = 500 * time.Millisecond

// Follow hears a game until the context ends. It subscribes anew whenever the connection breaks, each time announced by
// Subscribed.
func (s *Subscriber) Follow(ctx context.Context, game feed.GameKey, listener Listener) {
	s.listen(game, listener)
	defer s.unlisten(game, listener)
	name := channel(game)
	// Receiving outlasts the context until the subscription is taken back: a message that nobody receives any more would
	// hold up the connection.
	receiving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unsubscribed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(unsubscribed)
		defer cancel()
		s.unsubscribe(receiving, name)
	})
	defer func() {
		if !stop() {
			<-unsubscribed
		}
		cancel()
	}()
	hooked := valkey.WithOnSubscriptionHook(receiving, func(event valkey.PubSubSubscription) {
		if event.Kind == "ssubscribe" {
			listener.Subscribed()
		}
	})
	for ctx.Err() == nil {
		err := s.client.Receive(hooked, s.client.B().Ssubscribe().Channel(name).Build(), func(message valkey.PubSubMessage) {
			s.hear(game, listener, message.Message)
		})
		if ctx.Err() != nil {
			return
		}
		s.logger.Debug("doorbell subscription broke", "tenant", game.Tenant, "game", game.Game, "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(rand.N(resubscribe)):
		}
	}
}

// unsubscribe takes the subscription back. Where it fails, the connection and with it the subscription is gone.
func (s *Subscriber) unsubscribe(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := s.client.Do(ctx, s.client.B().Sunsubscribe().Channel(name).Build()).Error(); err != nil {
		s.logger.Debug("doorbell not unsubscribed", "channel", name, "err", err)
	}
}

// listen comes before the subscription: what is rung in this process in between is found when that stands.
func (s *Subscriber) listen(game feed.GameKey, listener Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners[game] = append(s.listeners[game], listener)
}

func (s *Subscriber) unlisten(game feed.GameKey, listener Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := slices.Clone(s.listeners[game]) // who is being told has the list
	if i := slices.Index(left, listener); i >= 0 {
		left = slices.Delete(left, i, i+1)
	}
	if s.listeners[game] = left; len(left) == 0 {
		delete(s.listeners, game)
	}
}

// listenersOf are those of a game in this process; none where nobody listens at all.
func (s *Subscriber) listenersOf(game feed.GameKey) []Listener {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listeners[game]
}

func (s *Subscriber) hear(game feed.GameKey, listener Listener, data string) {
	if strings.HasPrefix(data, openOf(s.process)) { // it was told already
		return
	}
	message, count, err := decode(game, []byte(data))
	switch {
	case err != nil:
		if s.undecodable.Add(1) == 1 {
			s.logger.Warn("doorbell message not understood; more of them are only counted", "tenant", game.Tenant, "game", game.Game, "err", err)
		}
	case count == nil:
		listener.Rang(message)
	case count.Process != s.process:
		listener.Counted(*count)
	}
}

// Undecodable is how many messages were not understood so far.
func (s *Subscriber) Undecodable() int64 { return s.undecodable.Load() }

// Tell says how many watchers this process has of each game; the Process of a count is filled in.
func (s *Subscriber) Tell(ctx context.Context, counts []Count) error {
	if len(counts) == 0 {
		return nil
	}
	commands := make(valkey.Commands, len(counts))
	for i, count := range counts {
		data, err := json.Marshal(wire{Tenant: count.Game.Tenant, Game: count.Game.Game, Process: s.process, N: count.Watchers})
		if err != nil {
			return fmt.Errorf("encode count of %s: %w", count.Game, err)
		}
		commands[i] = s.client.B().Spublish().Channel(channel(count.Game)).Message(valkey.BinaryString(data)).Build()
	}
	_, err := tell(ctx, s.client, commands)
	return err
}
