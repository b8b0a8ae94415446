package feed_test

import (
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/codemojex/feedrenderer/feed"
)

type idVectors struct {
	EpochMS int64 `json:"epoch_ms"`
	Valid   []struct {
		ID        string
		Namespace string
		Snowflake string
		UnixMS    int64 `json:"unix_ms"`
		Node, Seq int64
		EntryID   *string `json:"entry_id"`
	}
	Refused []struct {
		ID       string
		Expected string `json:"expected_namespace"`
		Refusal  string
	}
}

func readVectors(t *testing.T) idVectors {
	t.Helper()
	text, err := os.ReadFile("testdata/branded-ids.json")
	if err != nil {
		t.Fatal(err)
	}
	var v idVectors
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Valid) == 0 || len(v.Refused) == 0 {
		t.Fatal("no vectors")
	}
	return v
}

func TestBrandedIDsReadAsTheVectorsSay(t *testing.T) {
	t.Parallel()
	vectors := readVectors(t)
	if got := feed.Epoch.UnixMilli(); got != vectors.EpochMS {
		t.Errorf("epoch %d, want %d", got, vectors.EpochMS)
	}
	for _, v := range vectors.Valid {
		b, err := feed.ParseBranded(v.ID)
		if err != nil {
			t.Errorf("%s: %v", v.ID, err)
			continue
		}
		if b.Namespace != v.Namespace || strconv.FormatInt(b.Snowflake, 10) != v.Snowflake || b.String() != v.ID {
			t.Errorf("%s reads %+v and writes %s", v.ID, b, b)
		}
		id := feed.ID(b.Snowflake)
		if got := id.Time().UnixMilli(); got != v.UnixMS {
			t.Errorf("%s: unix ms %d, want %d", v.ID, got, v.UnixMS)
		}
		if node, seq := b.Snowflake>>12&1023, b.Snowflake&4095; node != v.Node || seq != v.Seq {
			t.Errorf("%s: node %d seq %d, want %d and %d", v.ID, node, seq, v.Node, v.Seq)
		}
		if v.EntryID == nil {
			continue
		}
		if got := id.EntryID(); got != *v.EntryID {
			t.Errorf("%s: entry %s, want %s", v.ID, got, *v.EntryID)
		}
		if back, err := feed.IDOfEntry(*v.EntryID); err != nil || back != id {
			t.Errorf("entry %s gives %s, %v; want %s", *v.EntryID, back, err, id)
		}
	}
}

func TestBrandedIDsAreRefusedAsTheVectorsSay(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).Refused {
		_, err := feed.ParseID(v.ID)
		var namespace *feed.NamespaceError
		got := "none"
		switch {
		case errors.Is(err, feed.ErrMalformedID):
			got = "malformed"
		case errors.As(err, &namespace):
			got = "namespace"
		}
		if got != v.Refusal {
			t.Errorf("%q is refused as %s (%v), want %s", v.ID, got, err, v.Refusal)
		}
	}
}

func TestIDsKeepTheirOrderAsTextAndRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := feed.ID(rapid.Int64Min(0).Draw(t, "a"))
		b := feed.ID(rapid.Int64Min(0).Draw(t, "b"))
		if (a < b) != (a.String() < b.String()) {
			t.Fatalf("%d and %d are ordered otherwise as %s and %s", a, b, a, b)
		}
		if back, err := feed.ParseID(a.String()); err != nil || back != a {
			t.Fatalf("%s reads back %d, %v", a, back, err)
		}
		if back, err := feed.IDOfEntry(a.EntryID()); err != nil || back != a {
			t.Fatalf("%s reads back %d, %v", a.EntryID(), back, err)
		}
		if feed.IDAt(a.Time()) > a {
			t.Fatalf("the lowest id at %s is above %s", a.Time(), a)
		}
	})
}

func TestEntryIDsThatNoEVTIDExpressesAreRefused(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{"", "1", "-", "a-1", "1704067199999-0", "1704067200000-4194304", "9007199254740993-0", "1704067200000--1", "3903090455552-0", "-1-1", "1704067200000-00", "01704067200000-0", "+1704067200000-0"} {
		if id, err := feed.IDOfEntry(entry); err == nil {
			t.Errorf("entry %q gives %s", entry, id)
		}
	}
}

func TestIDAtStaysInTheRangeOfIDs(t *testing.T) {
	t.Parallel()
	if got := feed.IDAt(time.Unix(0, 0)); got != 0 {
		t.Errorf("1970 gives %d", got)
	}
	if got := feed.IDAt(time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)); got != 1<<63-1 {
		t.Errorf("the year 3000 gives %d", got)
	}
}

func FuzzParseBranded(f *testing.F) {
	for _, s := range []string{"", "EVT0SUoNEEXNia", "EVTAzL8n0Y58m8", "evt"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if b, err := feed.ParseBranded(s); err == nil && b.String() != s {
			t.Fatalf("%q writes back as %q", s, b)
		}
	})
}
