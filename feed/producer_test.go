package feed_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

func TestMain(m *testing.M) { serverstest.Main(m) }

func connect(t *testing.T) valkey.Client {
	t.Helper()
	client, err := valkey.NewClient(valkey.MustParseURL(serverstest.Valkey(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func newMint(t *testing.T, node int) *feed.Mint {
	t.Helper()
	mint, err := feed.NewMint(node)
	if err != nil {
		t.Fatal(err)
	}
	return mint
}

// entries reads a whole stream back through Decode.
func entries(t *testing.T, client valkey.Client, game feed.GameKey) []feed.Event {
	t.Helper()
	list, err := client.Do(t.Context(), client.B().Xrange().Key(game.Stream()).Start("-").End("+").Build()).AsXRangeSlices()
	if err != nil {
		t.Fatal(err)
	}
	events := make([]feed.Event, len(list))
	for i, entry := range list {
		flat := feed.Fields{}
		for _, f := range entry.FieldValues {
			flat = append(flat, feed.Field{Name: f.Field, Value: f.Value})
		}
		if events[i], err = feed.Decode(game.Stream(), entry.ID, flat.All()); err != nil {
			t.Fatal(err)
		}
	}
	return events
}

func TestMintNeverGoesBack(t *testing.T) {
	t.Parallel()
	mint := newMint(t, 7)
	var mu sync.Mutex
	seen := make(map[feed.ID]bool)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := feed.ID(-1)
			for range 20_000 { // more than a sequence holds in the milliseconds this takes
				id, err := mint.Next()
				if err != nil {
					t.Error(err)
					return
				}
				if id <= last || id>>12&1023 != 7 {
					t.Errorf("%s after %s", id, last)
					return
				}
				last = id
				mu.Lock()
				if seen[id] {
					t.Errorf("%s twice", id)
				}
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestMintRefusesANodeThatDoesNotFit(t *testing.T) {
	t.Parallel()
	for _, node := range []int{-1, 1024} {
		if _, err := feed.NewMint(node); err == nil {
			t.Errorf("node %d is taken", node)
		}
	}
}

func TestProducerWritesWhatDecodeReads(t *testing.T) {
	t.Parallel()
	client, game := connect(t), feed.GameKey{Tenant: "acme", Game: "written"}
	producer := feed.NewProducer(client, newMint(t, 1))
	want := fields("kind", "scored", "player", "ann\x00\xff", "pct", "1")
	id, err := producer.Append(t.Context(), game, want)
	if err != nil {
		t.Fatal(err)
	}
	got := entries(t, client, game)
	if len(got) != 1 || got[0].ID != id || got[0].Kind != "scored" || !slices.Equal(got[0].Fields, want) {
		t.Errorf("read back %+v, want %s with %v", got, id, want)
	}
	if age := time.Since(id.Time()); age < -time.Minute || age > time.Minute {
		t.Errorf("the id is %s old", age)
	}
}

func TestAnEventAtOrBelowTheTopIsRefusedAsNonMonotonic(t *testing.T) {
	t.Parallel()
	client, game := connect(t), feed.GameKey{Tenant: "acme", Game: "refused"}
	if err := feed.AppendEvent(t.Context(), client, game, 1<<30, fields("kind", "x")); err != nil {
		t.Fatal(err)
	}
	for _, id := range []feed.ID{1 << 30, 1<<30 - 1} {
		if err := feed.AppendEvent(t.Context(), client, game, id, fields("kind", "x")); !errors.Is(err, feed.ErrNonMonotonic) {
			t.Errorf("%s: %v, want %v", id, err, feed.ErrNonMonotonic)
		}
	}
	if got := entries(t, client, game); len(got) != 1 {
		t.Errorf("%d entries, want the first alone", len(got))
	}
}

func TestProducerMintsAboveAStreamThatRunsAhead(t *testing.T) {
	t.Parallel()
	client := connect(t)
	game, other := feed.GameKey{Tenant: "acme", Game: "ahead"}, feed.GameKey{Tenant: "acme", Game: "level"}
	future := feed.IDAt(time.Now().Add(24 * time.Hour))
	if err := feed.AppendEvent(t.Context(), client, game, future, fields("kind", "x")); err != nil {
		t.Fatal(err)
	}
	// The floor survives trimming to nothing.
	if err := client.Do(t.Context(), client.B().Xtrim().Key(game.Stream()).Maxlen().Threshold("0").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	producer := feed.NewProducer(client, newMint(t, 2))
	receipts, err := producer.AppendAll(t.Context(), game, []feed.Fields{fields("n", "1"), fields("n", "2"), fields("n", "3")})
	if err != nil {
		t.Fatal(err)
	}
	last := future
	for i, receipt := range receipts {
		if receipt.Err != nil || receipt.ID <= last {
			t.Errorf("receipt %d: %s, %v; want above %s", i, receipt.ID, receipt.Err, last)
		}
		last = receipt.ID
	}
	id, err := producer.Append(t.Context(), other, fields("n", "1"))
	if err != nil {
		t.Fatal(err)
	}
	if id >= future {
		t.Errorf("the other game's id %s was dragged along to the future", id)
	}
}

func TestProducersOfOneStreamHealEachOther(t *testing.T) {
	t.Parallel()
	client, game := connect(t), feed.GameKey{Tenant: "acme", Game: "shared"}
	const producers, each = 4, 200
	var wg sync.WaitGroup
	for node := range producers {
		producer := feed.NewProducer(client, newMint(t, node))
		wg.Go(func() {
			for range each {
				if _, err := producer.Append(t.Context(), game, fields("kind", "x")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := entries(t, client, game); len(got) != producers*each {
		t.Errorf("%d entries, want %d", len(got), producers*each)
	}
}

func TestABatchGivesAReceiptForEachEvent(t *testing.T) {
	t.Parallel()
	client, game := connect(t), feed.GameKey{Tenant: "acme", Game: "string"}
	if err := client.Do(t.Context(), client.B().Set().Key(game.Stream()).Value("x").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	receipts, err := feed.NewProducer(client, newMint(t, 3)).AppendAll(t.Context(), game, []feed.Fields{nil, nil})
	if err != nil {
		t.Fatal(err)
	}
	for i, receipt := range receipts {
		if receipt.Err == nil {
			t.Errorf("receipt %d of a refused event says it was appended", i)
		}
	}
}

func TestTheEndOfTimeIsAnError(t *testing.T) {
	t.Parallel()
	client, game := connect(t), feed.GameKey{Tenant: "acme", Game: "end"}
	if err := feed.AppendEvent(t.Context(), client, game, 1<<63-1, fields("kind", "x")); err != nil {
		t.Fatal(err)
	}
	if _, err := feed.NewProducer(client, newMint(t, 4)).Append(t.Context(), game, nil); !errors.Is(err, feed.ErrMintExhausted) {
		t.Errorf("%v, want %v", err, feed.ErrMintExhausted)
	}
}
