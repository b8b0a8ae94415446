package consumer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/consumer"
)

// Shares of streams that compete for one worker.
func TestShares(t *testing.T) {
	t.Parallel()

	for name, floods := range map[string]int{"OneThatFloods": 1, "TwentyThatFlood": 20} {
		t.Run(name+"DelayAnEntryOfAnotherByNoMoreThanABatch", func(t *testing.T) {
			t.Parallel()
			f := newFlood(t, floods, nil)
			for n := range 5 {
				id := f.addTo(f.of("quiet"))
				f.awaitRead("quiet", id)
				if batches := f.handle("quiet"); batches > 1 {
					t.Errorf("entry %d: %d batches began before it", n, batches)
				}
			}
		})
	}

	t.Run("ThatAreOneWaitForEachOther", func(t *testing.T) {
		t.Parallel()
		f := newFlood(t, 1, func(string) string { return "" })
		eventually(t, func() bool { return f.c.Stats().InFlight > 11*floodBatch }, "much is in flight")
		f.addTo(f.of("quiet"))
		if batches := f.handle("quiet"); batches < 10 {
			t.Errorf("%d batches began before it, want what was in flight", batches)
		}
	})

	t.Run("ThatNeverFallSilentStopNobody", func(t *testing.T) {
		t.Parallel()
		f := newFlood(t, 1, nil)
		for range 6 {
			f.awaitRead("quiet", f.addTo(f.of("quiet"))) // while one of them is in the handler
			f.handle("quiet")
		}
		if n := strings.Count(strings.Join(f.begun, " "), "flood"); n < 2*(floodBatch-1) {
			t.Errorf("%d of the flood were handled beside six, want two batches", n)
		}
	})
}

const (
	floodStreams = 40
	floodBatch   = 20
	floodRoom    = 60 // batches in flight
)

// flood is a consumer with one worker whose batches the test lets go on one by one, and streams with far more than fits in
// flight.
type flood struct {
	*rig
	c     *running
	base  string        // of the streams' names
	step  chan []string // the shares of a batch that begins
	next  chan struct{} // lets it end
	begun []string      // what handle saw begin
}

// newFlood floods from so many shares, and returns with a batch in the handler.
func newFlood(t *testing.T, shares int, share func(string) string) *flood {
	t.Helper()
	f := &flood{rig: newRig(t), step: make(chan []string), next: make(chan struct{})}
	f.base = strings.NewReplacer("{", "", "}", "").Replace(f.stream)
	streams := []string{f.of("quiet")}
	for i := range floodStreams {
		f.stream = fmt.Sprint(f.of(fmt.Sprint("flood", i%shares)), ":", i)
		f.addMany(100 * floodBatch / floodStreams)
		streams = append(streams, f.stream)
	}
	f.c = f.start(handler(func(ctx context.Context, batch []consumer.Message) []consumer.Verdict {
		var names []string
		for _, m := range batch {
			names = append(names, f.shareOf(m.Stream))
		}
		select {
		case f.step <- names:
		case <-ctx.Done():
			return all(batch, consumer.Ack())
		case <-t.Context().Done():
			return all(batch, consumer.Ack())
		}
		select {
		case <-f.next:
		case <-ctx.Done():
		case <-t.Context().Done():
		}
		return all(batch, consumer.Ack())
	}), func(cfg *consumer.Config) {
		cfg.Streams, cfg.BatchSize, cfg.MaxInFlight, cfg.Share = streams, floodBatch, floodRoom*floodBatch, share
		cfg.MinIdle, cfg.Beat = steady*10, steady
	})
	receive(t, f.step)
	return f
}

// of is the first stream of a share. By default its hash tag says whose it is.
func (f *flood) of(share string) string { return fmt.Sprintf("{%s/%s}", f.base, share) }

func (f *flood) shareOf(stream string) string {
	name, _, _ := strings.Cut(stream, "}")
	return name[strings.LastIndexByte(name, '/')+1:]
}

// awaitRead waits until an entry was delivered, and all that was delivered has arrived.
func (f *flood) awaitRead(share, id string) {
	f.t.Helper()
	eventually(f.t, func() bool {
		rows, err := f.do("XPENDING", f.of(share), "g", id, id, "1").ToArray()
		if err != nil || len(rows) != 1 {
			return false
		}
		delivered := int64(0)
		for _, key := range f.c.Streams() {
			groups, err := f.do("XINFO", "GROUPS", key).ToArray()
			if err != nil || len(groups) != 1 {
				return false
			}
			group, err := groups[0].AsMap()
			if err != nil {
				return false
			}
			read := group["entries-read"]
			n, _ := read.AsInt64() // nil where nothing was
			delivered += n
		}
		return f.c.Stats().Read >= delivered
	}, "%s is read while a batch is in the handler", id)
}

// handle lets batches go on until one of the share has begun, and says how many without it began before.
func (f *flood) handle(share string) (batches int) {
	f.t.Helper()
	for ; ; batches++ {
		select {
		case f.next <- struct{}{}:
		case <-time.After(patience):
			f.t.Fatal("no batch is in the handler")
		}
		names := receive(f.t, f.step)
		f.begun = append(f.begun, names...)
		for _, name := range names {
			if name == share {
				return batches
			}
		}
	}
}
