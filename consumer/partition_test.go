package consumer

import (
	"testing"
	"time"
)

// What a worker waits for between two batches.
func TestExpecting(t *testing.T) {
	t.Parallel()
	const batch = 10
	// ended is a partition of which the handler is done with a batch that took so long, with readers that go for more.
	ended := func(took time.Duration) (*partition, []*reader) {
		p := newPartition(&session{cfg: Config{BatchSize: batch, Workers: 1, MaxInFlight: 10 * batch, MaxInFlightBytes: 1 << 20}})
		for range 3 {
			p.readers = append(p.readers, newReader(p, 0))
		}
		p.readers[2].away = true // it listens: nobody knows when it comes back
		p.running, p.begun = true, time.Now().Add(-took)
		p.ended()
		return p, p.readers[:2]
	}

	t.Run("ItWaitsForAllThatGoForMore", func(t *testing.T) {
		t.Parallel()
		p, readers := ended(time.Second)
		if p.running {
			t.Error("the handler has a batch")
		}
		now := p.patience.Add(-time.Millisecond)
		for _, r := range readers {
			if wait := p.expecting(now); wait != time.Millisecond {
				t.Errorf("it waits for %v, want what is left of its patience, a millisecond", wait)
			}
			r.met()
			r.met() // a round of its own
		}
		if wait := p.expecting(now); wait > 0 {
			t.Errorf("it waits for %v, and for nobody", wait)
		}
		p.ended()
		if p.expected != len(readers) {
			t.Errorf("after the next batch it waits for %d, want %d", p.expected, len(readers))
		}
	})

	t.Run("ButHalfAsLongAsTheBatchTookAtMostAndNotLongForAServerThatDoesNotAnswer", func(t *testing.T) {
		t.Parallel()
		for took, most := range map[time.Duration]time.Duration{quick: quick / 2, time.Hour: longestPatience} {
			before := time.Now()
			p, _ := ended(took)
			after := time.Now()
			if least := before.Add(most); p.patience.Before(least) || p.patience.After(after.Add(most+after.Sub(before)/2)) {
				t.Errorf("after %v it waits until %v after the end, want %v", took, p.patience.Sub(before), most)
			}
			if p.expecting(p.patience) > 0 {
				t.Error("its patience has no end")
			}
		}
	})

	t.Run("NorAfterAQuickBatch", func(t *testing.T) {
		t.Parallel()
		p := newPartition(&session{cfg: Config{BatchSize: batch, Workers: 1, MaxInFlight: 10 * batch, MaxInFlightBytes: 1 << 20}})
		p.readers = append(p.readers, newReader(p, 0))
		p.running, p.begun = true, time.Now().Add(time.Hour) // as quick as can be
		p.ended()
		if p.expected > 0 || p.running {
			t.Errorf("it waits for %d readers", p.expected)
		}
	})

	t.Run("NorWhereABatchIsFull", func(t *testing.T) {
		t.Parallel()
		p, _ := ended(time.Hour)
		now := p.patience.Add(-time.Millisecond)
		s := &stream{share: &share{}, inHand: map[string]*entry{}}
		for range batch - 1 {
			p.occupy(&entry{s: s, lane: laneNew})
		}
		p.ask(s, batch)
		if wait := p.expecting(now); wait <= 0 {
			t.Error("it does not wait, though an entry is missing that is asked for")
		}
		p.occupy(&entry{s: s, lane: laneNew})
		if wait := p.expecting(now); wait > 0 {
			t.Errorf("it waits for %v", wait)
		}
	})
}
