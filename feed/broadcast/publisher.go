package broadcast

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
)

// Publisher rings for what was committed.
type Publisher struct {
	client valkey.Client
	near   *Subscriber          // nil: nobody listens in this process
	clock  func() time.Duration // since it was made

	mu     sync.Mutex
	unsaid map[feed.GameKey]time.Duration // games to which no other process listened: until then by the clock, none of theirs is published
}

// askAgain is for how long nothing more is published for a game, at most, once the server has said that no other process
// listens.
const askAgain = 100 * time.Millisecond

// maxUnsaid is how many such games are remembered.
const maxUnsaid = 1 << 16

// NewPublisher makes a publisher over a client that may be shared.
func NewPublisher(client valkey.Client) *Publisher {
	start := time.Now()
	return &Publisher{client: client, clock: func() time.Duration { return time.Since(start) }, unsaid: map[feed.GameKey]time.Duration{}}
}

// Near is the publisher for a process that listens as well: its own listeners hear at once, before the server does, and
// not a second time from there. They hear in the time of the caller.
func (p *Publisher) Near(s *Subscriber) *Publisher {
	near := NewPublisher(p.client)
	near.near = s
	return near
}

// Publish tells one message a change, in at most one round trip, empty ranges too: they reveal to a hub what it missed. It is
// to be called after the commit and before the acknowledgement. Lines that are hidden in the game's state at the change
// are left out; lines beyond [InlineBytes] leave a bare message.
//
// A game to which no other process listens is rung for ten times a second at most. Whoever begins to listen meanwhile looks
// at the table as it is then, and finds what it was not told by the gap before the next message, or where there is none by
// looking again, as it does for every message that was lost.
//
// An error may come after some of the messages were told. Telling them again does no harm.
func (p *Publisher) Publish(ctx context.Context, changes []feed.Change) error {
	at, now, open := time.Now(), p.clock(), "{"
	if p.near != nil {
		open = openOf(p.near.process)
	}
	var commands valkey.Commands
	var rung []ring
	for i := range changes {
		r := ring{game: changes[i].Game, near: p.near.listenersOf(changes[i].Game)}
		publishes := p.publishes(r.game, now)
		if !publishes && len(r.near) == 0 {
			continue
		}
		message, data := encode(&changes[i], at, open)
		for _, listener := range r.near {
			listener.Rang(message)
		}
		if publishes {
			commands = append(commands, p.client.B().Spublish().Channel(channel(r.game)).Message(valkey.BinaryString(data)).Build())
			rung = append(rung, r)
		}
	}
	heard, err := tell(ctx, p.client, commands)
	p.learn(rung, heard, now)
	return err
}

// ring is a message that was published, and who heard it in this process before.
type ring struct {
	game feed.GameKey
	near []Listener
}

func (p *Publisher) publishes(game feed.GameKey, now time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	until, unsaid := p.unsaid[game]
	return !unsaid || now >= until
}

// learn notes who else heard of the games. All are asked for again from the same moment on, so that most calls of Publish ask
// for none and need no round trip.
func (p *Publisher) learn(rung []ring, heard []int64, now time.Duration) {
	if len(rung) == 0 {
		return
	}
	until := now.Truncate(askAgain) + askAgain
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.unsaid)+len(rung) > maxUnsaid {
		clear(p.unsaid)
	}
	for i, r := range rung {
		if ours := int64(min(1, len(r.near))); heard[i] >= 0 && heard[i] <= ours {
			p.unsaid[r.game] = until
		} else {
			delete(p.unsaid, r.game)
		}
	}
}

// tell publishes, and gives the number of subscribers that each message reached, -1 where it may have reached none.
func tell(ctx context.Context, client valkey.Client, commands valkey.Commands) (heard []int64, err error) {
	if len(commands) == 0 {
		return nil, nil
	}
	var errs []error
	heard = make([]int64, len(commands))
	for i, result := range client.DoMulti(ctx, commands...) {
		if heard[i], err = result.AsInt64(); err != nil {
			heard[i] = -1
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		// One outage fails them all alike: its first word is enough.
		return heard, fmt.Errorf("publish %d of %d messages: %w", len(errs), len(commands), errs[0])
	}
	return heard, nil
}
