package feed

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestAppendJSONWritesWhatTheLibraryWrites(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(
		rapid.String(),
		rapid.SampledFrom([]string{"", "plain", `<b>&"\\`, "\x00\x1f\x7f", "пример", "\u2028\u2029", "\xff\xc3", "tab\there"}),
		rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) }),
	)
	instant := rapid.Custom(func(t *rapid.T) Instant {
		return Instant(time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "ms")).In(time.FixedZone("", 3600)))
	})
	views := rapid.Custom(func(t *rapid.T) View {
		v := View{
			Evt: ID(rapid.Int64Min(0).Draw(t, "evt")), Ver: rapid.Int64().Draw(t, "ver"),
			Kind: text.Draw(t, "kind"), At: instant.Draw(t, "at"), Actor: text.Draw(t, "actor"), Text: text.Draw(t, "text"),
			Icon: text.Draw(t, "icon"), Tone: Tone(text.Draw(t, "tone")), State: State(text.Draw(t, "state")), Reason: text.Draw(t, "reason"),
			Score: rapid.Bool().Draw(t, "score"),
		}
		if rapid.Bool().Draw(t, "with fields") {
			v.Fields = rapid.MapOfN(text, text, 0, 5).Draw(t, "fields")
		}
		if rapid.Bool().Draw(t, "amended") {
			at := instant.Draw(t, "amended at")
			v.AmendedAt = &at
		}
		return v
	})
	bases := rapid.Custom(func(t *rapid.T) Base {
		list := rapid.SliceOfN(text, 0, 3)
		base := Base{
			Kind: text.Draw(t, "kind"), Text: text.Draw(t, "text"), Icon: text.Draw(t, "icon"), Tone: Tone(text.Draw(t, "tone")),
			Actor: text.Draw(t, "actor"), Show: list.Draw(t, "show"), Fields: rapid.MapOfN(text, text, 0, 4).Draw(t, "fields"),
			Visibility: Visibility(text.Draw(t, "visibility")),
		}
		for _, mode := range list.Draw(t, "modes") {
			if base.Only == nil {
				base.Only = make(map[Mode][]string)
			}
			base.Only[Mode(mode)] = list.Draw(t, "only")
		}
		for _, field := range list.Draw(t, "score") {
			factor := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, 1, 6, -2, 0.5, 1e15, 1e21, 1e-7})).Draw(t, "factor")
			base.Score = append(base.Score, ScoreTerm{field, factor})
		}
		return base
	})
	rapid.Check(t, func(t *rapid.T) {
		base := bases.Draw(t, "base")
		want, err := json.Marshal(base)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(base.AppendJSON(nil)); got != string(want) {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		view := views.Draw(t, "view")
		want, err := json.Marshal(view)
		if err != nil {
			t.Fatal(err)
		}
		got := string(view.AppendJSON([]byte("before ")))
		if got != "before "+string(want) {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	})
}
