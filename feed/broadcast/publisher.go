package broadcast

import (
	"context"
	"fmt"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
)

// Publisher rings for what was committed.
type Publisher struct {
	client valkey.Client
	near   *Subscriber // nil: nobody listens in this process
}

// NewPublisher makes a publisher over a client that may be shared.
func NewPublisher(client valkey.Client) *Publisher { return &Publisher{client: client} }

// Near is the publisher for a process that listens as well: its own listeners hear at once, before the server does, and
// not a second time from there. They hear in the time of the caller.
func (p *Publisher) Near(s *Subscriber) *Publisher { return &Publisher{client: p.client, near: s} }

// Publish tells one message a change, in one round trip, empty ranges too: they reveal to a hub what it missed. It is
// to be called after the commit and before the acknowledgement. Lines that are hidden in the game's state at the change
// are left out; lines beyond [InlineBytes] leave a bare message.
//
// An error may come after some of the messages were told. Telling them again does no harm.
func (p *Publisher) Publish(ctx context.Context, changes []feed.Change) error {
	if len(changes) == 0 {
		return nil
	}
	now, open := time.Now(), "{"
	if p.near != nil {
		open = openOf(p.near.process)
	}
	commands := make(valkey.Commands, len(changes))
	for i := range changes {
		message, data := encode(&changes[i], now, open)
		if p.near != nil {
			p.near.rang(message)
		}
		commands[i] = p.client.B().Spublish().Channel(channel(message.Game)).Message(valkey.BinaryString(data)).Build()
	}
	return tell(ctx, p.client, commands)
}

func tell(ctx context.Context, client valkey.Client, commands valkey.Commands) error {
	var errs []error
	for _, result := range client.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		// One outage fails them all alike: its first word is enough.
		return fmt.Errorf("publish %d of %d messages: %w", len(errs), len(commands), errs[0])
	}
	return nil
}
