package consumer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/consumer"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

// What comes while the handler is busy.
func TestBusy(t *testing.T) {
	t.Parallel()

	t.Run("AnEntryGoesToAnotherConsumerThatIsIdle", func(t *testing.T) {
		t.Parallel()
		// A read that was under way when the handler began may bring one entry, hardly ever: hence more tries than one.
		for range 10 {
			if readWhileBusy(t) == 0 {
				return
			}
		}
		t.Error("the busy one read on every time")
	})

	t.Run("AnEntryIsReadThoughOthersOfItsShareFloodByAnotherReader", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		const batch = 20
		var streams []string
		for i := range 64 { // one reader's
			streams = append(streams, fmt.Sprint(r.stream, ":", i))
		}
		quiet := r.stream + ":quiet"
		r.stream = streams[0]
		r.addMany(400 * batch)
		step, next := make(chan bool), make(chan struct{})
		c := r.start(handler(func(_ context.Context, b []consumer.Message) []consumer.Verdict {
			has := false
			for _, m := range b {
				has = has || m.Stream == quiet
			}
			select {
			case step <- has:
			case <-t.Context().Done():
				return all(b, consumer.Ack())
			}
			select {
			case <-next:
				<-time.After(3 * time.Millisecond) // the work
			case <-t.Context().Done():
			}
			return all(b, consumer.Ack())
		}), func(cfg *consumer.Config) { cfg.Streams, cfg.BatchSize, cfg.Beat = streams, batch, time.Minute })
		receive(t, step)
		c.Join(quiet) // the second reader's
		eventually(t, func() bool { return r.do("XINFO", "GROUPS", quiet).Error() == nil }, "it is joined")
		for n := range 5 {
			r.addTo(quiet)
			batches := 0
			for came := false; !came; batches++ {
				next <- struct{}{}
				came = receive(t, step)
			}
			if n > 0 && batches > 40 { // it is long since its reader listened
				t.Errorf("entry %d: %d batches began before it came", n, batches)
			}
		}
	})

	t.Run("AcknowledgementsThatAreRefusedForNowAreNotSentAgainAtOnce", func(t *testing.T) {
		t.Parallel()
		r := rigAt(t, serverstest.OwnValkey(t).URL)
		r.addMany(2)
		begun, release := make(chan string), make(chan struct{})
		c := r.start(held(t, begun, release), func(cfg *consumer.Config) {
			cfg.BatchSize, cfg.MaxInFlight, cfg.NameTTL, cfg.Beat = 1, 8, time.Minute, time.Minute
		})
		receive(t, begun)
		eventually(t, func() bool { return len(r.pending()) == 2 }, "both are read")
		r.must("REPLICAOF", "127.0.0.1", "1") // as one that was primary before a failover
		release <- struct{}{}
		receive(t, begun) // the other is in the handler, so nothing is read
		began := time.Now()
		eventually(t, func() bool { return c.Stats().Failures > 5 }, "they are tried again")
		if n, most := c.Stats().Failures, 10+int64(time.Since(began)/(10*time.Millisecond)); n > most {
			t.Errorf("%d commands failed within %v, want at most %d", n, time.Since(began), most)
		}
		r.must("REPLICAOF", "NO", "ONE")
		release <- struct{}{}
		r.settled(c, 2)
	})
}

// readWhileBusy is how many of 20 entries a consumer reads while another one is idle and its own handler has a batch.
func readWhileBusy(t *testing.T) int64 {
	t.Helper()
	r := newRig(t)
	begun, release := make(chan string), make(chan struct{})
	busy := r.start(named("busy"), held(t, begun, release))
	first := r.add()
	if id := receive(t, begun); id != first {
		t.Fatalf("%s came, want %s", id, first)
	}
	idle := r.start(named("idle"), each(func(context.Context, consumer.Message) consumer.Verdict { return consumer.Ack() }))
	for n := range int64(20) {
		r.add()
		eventually(t, func() bool { return busy.Stats().Read+idle.Stats().Read == n+2 }, "entry %d is read", n)
	}
	ahead := busy.Stats().Read - 1
	close(release)
	if ahead > 0 {
		receive(t, begun)
	}
	return ahead
}
