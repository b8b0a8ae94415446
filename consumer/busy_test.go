package consumer_test

import (
	"context"
	"testing"

	"github.com/codemojex/feedrenderer/consumer"
)

func TestWhatComesWhileTheHandlerIsBusyGoesToAnotherConsumerThatIsIdle(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	begun, release := make(chan string), make(chan struct{})
	r.start(named("busy"), each(func(ctx context.Context, m consumer.Message) consumer.Verdict {
		select {
		case begun <- m.EntryID:
		case <-ctx.Done():
			return consumer.Ack()
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return consumer.Ack()
	}))
	first := r.add()
	if id := receive(t, begun); id != first {
		t.Fatalf("%s came, want %s", id, first)
	}
	got := make(chan string, 100)
	r.start(named("idle"), each(func(_ context.Context, m consumer.Message) consumer.Verdict {
		got <- m.EntryID
		return consumer.Ack()
	}))
	for range 20 {
		want := r.add()
		if id := receive(t, got); id != want {
			t.Fatalf("%s came, want %s", id, want)
		}
	}
	close(release)
}
