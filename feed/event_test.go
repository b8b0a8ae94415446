package feed_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/codemojex/feedrenderer/feed"
)

const (
	sampleEntry  = "1796040987937-28672"
	sampleID     = "EVT0SUoNEEXNia"
	sampleStream = "emq:{acme}:stream:g1"
)

func fields(flat ...string) feed.Fields {
	out := feed.Fields{}
	for i := 0; i < len(flat); i += 2 {
		out = append(out, feed.Field{Name: flat[i], Value: flat[i+1]})
	}
	return out
}

func decode(stream, entry string, flat ...string) (feed.Event, error) {
	return feed.Decode(stream, entry, fields(flat...).All())
}

func TestDecode(t *testing.T) {
	t.Parallel()
	many := make([]string, 0, 2*100)
	for i := range 50 {
		many = append(many, fmt.Sprint("f", i), "first", fmt.Sprint("f", i), "second")
	}
	for name, c := range map[string]struct {
		entry string
		flat  []string
		id    string
		kind  string
		want  feed.Fields
	}{
		"TheSampleOfTheWire": {
			sampleEntry,
			[]string{"id", sampleID, "kind", "scored", "player", "ann", "pct", "1"},
			sampleID, "scored",
			fields("kind", "scored", "player", "ann", "pct", "1"),
		},
		"AForeignEntryGetsItsIDFromTheEntryID": {sampleEntry, []string{"kind", "scored"}, sampleID, "scored", fields("kind", "scored")},
		"TheFirstOfARepeatedFieldWins":         {sampleEntry, []string{"a", "1", "kind", "x", "a", "2", "kind", "y"}, sampleID, "x", fields("a", "1", "kind", "x")},
		"ASecondFieldIDIsThePayloads":          {sampleEntry, []string{"id", sampleID, "id", "mine", "id", "third"}, sampleID, "event", fields("id", "mine")},
		"KindMayBeCalledEvent":                 {sampleEntry, []string{"event", "opened"}, sampleID, "opened", fields("event", "opened")},
		"KindGoesBeforeEvent":                  {sampleEntry, []string{"event", "opened", "kind", "scored"}, sampleID, "scored", fields("event", "opened", "kind", "scored")},
		"NothingButAnIDIsAnEvent":              {sampleEntry, []string{"id", sampleID}, sampleID, feed.KindUnnamed, fields()},
		"AnEmptyPayloadIsAnEvent":              {sampleEntry, nil, sampleID, feed.KindUnnamed, fields()},
		"ArbitraryBytesStay":                   {sampleEntry, []string{"kind", "x", "b\x00", "\xff\x00"}, sampleID, "x", fields("kind", "x", "b\x00", "\xff\x00")},
		"ManyRepeatedFieldsKeepTheFirst":       {sampleEntry, many, sampleID, feed.KindUnnamed, firsts(50)},
		"NamesOfTheRetryStreamMeanNothingHere": {sampleEntry, []string{"dead.stream", "x", "f:kind", "y"}, sampleID, feed.KindUnnamed, fields("dead.stream", "x", "f:kind", "y")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := decode(sampleStream, c.entry, c.flat...)
			if err != nil {
				t.Fatal(err)
			}
			id, _ := feed.ParseID(c.id)
			want := feed.Event{Game: feed.GameKey{Tenant: "acme", Game: "g1"}, ID: id, Kind: c.kind, Fields: c.want}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func firsts(n int) feed.Fields {
	out := feed.Fields{}
	for i := range n {
		out = append(out, feed.Field{Name: fmt.Sprint("f", i), Value: "first"})
	}
	return out
}

func TestDecodeSaysWhyAnEntryIsUndecodable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stream, entry string
		flat          []string
		part          string
	}{
		"AMalformedID":                     {sampleStream, sampleEntry, []string{"id", "7"}, "field id: malformed"},
		"AnIDOfAnotherNamespace":           {sampleStream, sampleEntry, []string{"id", "GAM0SUoNEEXNia"}, "namespace GAM"},
		"AnIDThatDoesNotMatch":             {sampleStream, sampleEntry, []string{"id", "EVT0SUoNEEXNib"}, "does not match"},
		"AnIDFieldThatIsNotTheFirst":       {sampleStream, sampleEntry, []string{"kind", "x", "id", "7"}, "field id: malformed"},
		"AnEntryBeforeTheEpoch":            {sampleStream, "1-1", []string{"kind", "x"}, "has no EVT id"},
		"AStreamThatIsNoGames":             {"emq:{acme}:stream:a b", sampleEntry, nil, "game"},
		"ARetriedOneWithoutItsStream":      {"emq:{acme}:retry", sampleEntry, []string{"dead.entry", sampleEntry}, "dead.stream"},
		"ARetriedOneWithoutItsEntry":       {"emq:{acme}:retry", sampleEntry, []string{"dead.stream", sampleStream}, "dead.entry is missing"},
		"ARetriedOneOfAnotherTenant":       {"emq:{bet}:retry", sampleEntry, []string{"dead.stream", sampleStream, "dead.entry", sampleEntry}, "not a game of tenant bet"},
		"ARetriedOneWhoseIDDoesNotMatchIt": {"emq:{acme}:retry", "1796040987938-0", []string{"dead.stream", sampleStream, "dead.entry", sampleEntry, "f:id", "EVT0SUoNEEXNib"}, "does not match"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := decode(c.stream, c.entry, c.flat...)
			var undecodable *feed.UndecodableError
			if !errors.As(err, &undecodable) || !strings.Contains(err.Error(), c.part) {
				t.Errorf("%v, want a word of %q", err, c.part)
			}
		})
	}
}

func TestDecodeGivesARetriedDeadLetterBackAsItWas(t *testing.T) {
	t.Parallel()
	got, err := decode("emq:{acme}:retry", "1800000000000-0",
		"dead.stream", sampleStream, "dead.entry", sampleEntry, "dead.attempts", "5",
		"f:id", sampleID, "f:kind", "scored", "f:f:x", "1", "f:dead.stream", "kept")
	if err != nil {
		t.Fatal(err)
	}
	want, err := decode(sampleStream, sampleEntry, "id", sampleID, "kind", "scored", "f:x", "1", "dead.stream", "kept")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRawKeepsEveryByte(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := feed.Fields{}
		for range rapid.IntRange(0, 20).Draw(t, "n") {
			want = append(want, feed.Field{
				Name:  string(rapid.SliceOf(rapid.Byte()).Draw(t, "name")),
				Value: string(rapid.SliceOf(rapid.Byte()).Draw(t, "value")),
			})
		}
		raw := want.Raw()
		got, err := feed.ParseRaw(raw)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		if len(raw) > 1 {
			if _, err := feed.ParseRaw(raw[:len(raw)-1]); err == nil && len(want) > 0 {
				t.Fatal("a payload cut short is read")
			}
		}
	})
}

func FuzzParseRaw(f *testing.F) {
	f.Add([]byte{})
	f.Add(fields("kind", "x").Raw())
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(_ *testing.T, raw []byte) {
		_, _ = feed.ParseRaw(raw)
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(sampleStream, sampleEntry, "id", sampleID, "kind", "scored")
	f.Add("emq:{acme}:retry", sampleEntry, "dead.stream", sampleStream, "dead.entry", sampleEntry)
	f.Add(sampleStream, "1707000000000-00", "kind", "scored", "", "")
	f.Fuzz(func(t *testing.T, stream, entry, n1, v1, n2, v2 string) {
		event, err := decode(stream, entry, n1, v1, n2, v2)
		if err == nil && event.ID.EntryID() != entry && stream == event.Game.Stream() {
			t.Fatalf("entry %s became %s", entry, event.ID.EntryID())
		}
	})
}
