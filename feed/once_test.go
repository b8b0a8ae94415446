package feed_test

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
)

func TestAppendOnce(t *testing.T) {
	t.Parallel()
	client := connect(t)
	producer := feed.NewProducer(client, newMint(t, 3))
	batch := []feed.Fields{{{Name: "kind", Value: "notice"}, {Name: "id", Value: "own"}}, {}, {{Name: "text", Value: "a b"}}}
	named := func(key string) feed.Once { return feed.Once{Key: key, Fingerprint: "f", Keep: time.Hour} }

	t.Run("ABatchThatIsSentAgainIsThereOnce", func(t *testing.T) {
		t.Parallel()
		game := feed.GameKey{Tenant: "once-a", Game: "g1"}
		first, again, err := producer.AppendOnce(t.Context(), game, named("k"), batch)
		if err != nil || again || len(first) != 3 {
			t.Fatalf("got %v, %v, %v", first, again, err)
		}
		var sending sync.WaitGroup
		for range 8 {
			sending.Go(func() {
				ids, again, err := producer.AppendOnce(t.Context(), game, named("k"), batch)
				if err != nil || !again || !slices.Equal(ids, first) {
					t.Errorf("got %v, %v, %v, want %v", ids, again, err, first)
				}
			})
		}
		sending.Wait()
		got := entries(t, client, game)
		if len(got) != 3 || got[0].ID != first[0] || got[2].ID != first[2] || got[0].Kind != "notice" {
			t.Errorf("got %+v", got)
		}
		if own, _ := got[0].Fields.Lookup("id"); own != "own" {
			t.Errorf("the event's own id is %q", own)
		}
	})
	t.Run("AStreamThatCanTakeNoMoreSaysSoUntilItIsGone", func(t *testing.T) {
		t.Parallel()
		for name, spoil := range map[string]valkey.Completed{
			"string": client.B().Set().Key("emq:{once-e}:stream:string").Value("x").Build(),
			"last":   client.B().Xadd().Key("emq:{once-e}:stream:last").Id(feed.ID(math.MaxInt64).EntryID()).FieldValue().FieldValue("a", "b").Build(),
			"beyond": client.B().Xadd().Key("emq:{once-e}:stream:beyond").Id("9223372036854775807-0").FieldValue().FieldValue("a", "b").Build(),
		} {
			game := feed.GameKey{Tenant: "once-e", Game: feed.GameID(name)}
			if err := client.Do(t.Context(), spoil).Error(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, _, err := producer.AppendOnce(t.Context(), game, named("k"), batch); !errors.Is(err, feed.ErrNoMore) {
					t.Errorf("%s: got %v, want ErrNoMore", name, err)
				}
			}
			if err := client.Do(t.Context(), client.B().Del().Key(game.Stream()).Build()).Error(); err != nil {
				t.Fatal(err)
			}
			if _, _, err := producer.AppendOnce(t.Context(), game, named("k"), batch); err != nil {
				t.Errorf("%s: after it was deleted: %v", name, err)
			}
		}
	})
	t.Run("TheNameOfAnotherBatchIsRefused", func(t *testing.T) {
		t.Parallel()
		game := feed.GameKey{Tenant: "once-b", Game: "g1"}
		if _, _, err := producer.AppendOnce(t.Context(), game, named("k"), batch); err != nil {
			t.Fatal(err)
		}
		other := named("k")
		other.Fingerprint = "g"
		if _, _, err := producer.AppendOnce(t.Context(), game, other, batch); !errors.Is(err, feed.ErrOtherBatch) {
			t.Errorf("got %v, want ErrOtherBatch", err)
		}
		elsewhere := feed.GameKey{Tenant: "once-b", Game: "g2"} // names are of one game
		if _, again, err := producer.AppendOnce(t.Context(), elsewhere, other, batch); err != nil || again {
			t.Errorf("got %v, %v", again, err)
		}
	})
	t.Run("WithoutANameEveryCallAppends", func(t *testing.T) {
		t.Parallel()
		game := feed.GameKey{Tenant: "once-c", Game: "g1"}
		for range 2 {
			if _, again, err := producer.AppendOnce(t.Context(), game, feed.Once{}, batch); err != nil || again {
				t.Fatalf("got %v, %v", again, err)
			}
		}
		if got := entries(t, client, game); len(got) != 6 {
			t.Errorf("got %d entries", len(got))
		}
	})
	t.Run("AStreamThatRunsAheadIsAppendedToAboveItsTop", func(t *testing.T) {
		t.Parallel()
		game := feed.GameKey{Tenant: "once-d", Game: "g1"}
		top := feed.IDAt(time.Now().Add(24 * time.Hour))
		if err := feed.AppendEvent(t.Context(), client, game, top, nil); err != nil {
			t.Fatal(err)
		}
		ids, _, err := producer.AppendOnce(t.Context(), game, named("k"), batch)
		if err != nil || len(ids) != 3 || ids[0] <= top || ids[1] <= ids[0] || ids[2] <= ids[1] {
			t.Errorf("got %v, %v", ids, err)
		}
	})
	t.Run("AnEventOfAsManyFieldsAsMayBe", func(t *testing.T) {
		t.Parallel()
		game := feed.GameKey{Tenant: "once-e", Game: "g1"}
		var many feed.Fields
		for i := range feed.MaxOnceFields {
			many = append(many, feed.Field{Name: "f" + strconv.Itoa(i), Value: "v"})
		}
		if _, _, err := producer.AppendOnce(t.Context(), game, feed.Once{}, []feed.Fields{many}); err != nil {
			t.Error(err)
		}
		if _, _, err := producer.AppendOnce(t.Context(), game, feed.Once{}, []feed.Fields{append(many, feed.Field{Name: "x"})}); err == nil {
			t.Error("one more: got no error")
		}
	})
}
