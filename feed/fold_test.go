package feed_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codemojex/feedrenderer/feed"
)

func scored() *feed.Base {
	return &feed.Base{
		Kind: "scored", Text: "{player} scored {pct} %", Icon: "dart", Tone: feed.ToneGood, Actor: "player",
		Show:       []string{"player", "pct", "eff"},
		Fields:     map[string]string{"player": "alex", "pct": "87"},
		Score:      []feed.ScoreTerm{{Field: "eff", Factor: 1}, {Field: "pct", Factor: 6}},
		Visibility: feed.Score,
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	evt := feed.IDAt(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	by := feed.IDAt(time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC))
	at, amended := feed.Instant(evt.Time()), feed.Instant(by.Time())
	live := feed.View{
		Evt: evt, Kind: "scored", At: at, Actor: "alex", Text: "alex scored 87 %", Icon: "dart", Tone: feed.ToneGood, Score: true, State: feed.Live,
		Fields: map[string]string{"player": "alex", "pct": "87"},
	}
	corrected := func(change func(*feed.View)) feed.View {
		view := live
		view.State, view.AmendedAt = feed.Corrected, &amended
		change(&view)
		return view
	}
	for name, c := range map[string]struct {
		amendment *feed.Amendment
		want      feed.View
	}{
		"WithoutAnAmendmentTheBaseStands": {nil, live},
		"APatchedFieldGoesIntoThePattern": {
			&feed.Amendment{By: by, Fields: map[string]string{"pct": "88"}},
			corrected(func(v *feed.View) {
				v.Text, v.Fields = "alex scored 88 %", map[string]string{"player": "alex", "pct": "88"}
			}),
		},
		"APatchMayAddAShownField": {
			&feed.Amendment{By: by, Fields: map[string]string{"eff": "500"}},
			corrected(func(v *feed.View) { v.Fields = map[string]string{"player": "alex", "pct": "87", "eff": "500"} }),
		},
		"APatchCannotSmuggleAHiddenFieldOut": {
			&feed.Amendment{By: by, Fields: map[string]string{"guess": "secret"}},
			corrected(func(*feed.View) {}),
		},
		"ItsTextWinsOverThePattern": {
			&feed.Amendment{By: by, Text: "{pct} by alex", Fields: map[string]string{"pct": "88"}},
			corrected(func(v *feed.View) {
				v.Text, v.Fields = "{pct} by alex", map[string]string{"player": "alex", "pct": "88"}
			}),
		},
		"APatchedActorIsTheActor": {
			&feed.Amendment{By: by, Fields: map[string]string{"player": "sam"}},
			corrected(func(v *feed.View) {
				v.Actor, v.Text, v.Fields = "sam", "sam scored 87 %", map[string]string{"player": "sam", "pct": "87"}
			}),
		},
		"OfARetractedLineNothingIsLeftButStateAndReason": {
			&feed.Amendment{By: by, Retracts: true, Reason: "a mistake", Text: "x", Fields: map[string]string{"pct": "1"}},
			feed.View{Evt: evt, At: at, State: feed.Retracted, Reason: "a mistake", AmendedAt: &amended, Fields: map[string]string{}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := feed.Fold(evt, feed.ModeClassic, scored(), c.amendment)
			if diff := cmp.Diff(c.want, got, cmp.Transformer("text", feed.Instant.String)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFoldShowsAFieldOfOneModeInNoOther(t *testing.T) {
	t.Parallel()
	base := &feed.Base{
		Kind: "revealed", Text: "the codes were {secret}", Show: []string{"commitment", "secret"},
		Only:   map[feed.Mode][]string{feed.ModeBlind: {"secret"}},
		Fields: map[string]string{"commitment": "c0", "secret": "a b c"}, Visibility: feed.Public,
	}
	smuggle := &feed.Amendment{By: 9, Fields: map[string]string{"secret": "a b c"}}
	for mode, want := range map[feed.Mode]string{
		feed.ModeBlind: "the codes were a b c", feed.ModeClassic: "the codes were -", feed.ModeGolden: "the codes were -", feed.ModeUnknown: "the codes were -",
	} {
		for _, amendment := range []*feed.Amendment{nil, smuggle} {
			view := feed.Fold(1, mode, base, amendment)
			if _, shown := view.Fields["secret"]; view.Text != want || shown != (mode == feed.ModeBlind) {
				t.Errorf("in mode %q: %q with fields %v, want %q", mode, view.Text, view.Fields, want)
			}
		}
	}
}

func TestPatternsFill(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"":                "",
		"plain":           "plain",
		"{a}{b}":          "12",
		"{a} of {none}":   "1 of -",
		"{ a } {} { {a}":  "{ a } {} { 1",
		"{a":              "{a",
		"{other}":         "{other}",
		"a}":              "a}",
		"{{a}}":           "{1}",
		"ünï {a} {ü}":     "ünï 1 {ü}",
		"{loop} stays {a": "{a} stays {a",
	} {
		base := &feed.Base{Text: pattern, Show: []string{"a", "b", "loop", "none"}, Fields: map[string]string{"a": "1", "b": "2", "loop": "{a}"}}
		if got := feed.Fold(1, feed.ModeClassic, base, nil).Text; got != want {
			t.Errorf("%q fills as %q, want %q", pattern, got, want)
		}
	}
}

func TestPoints(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fields    map[string]string
		amendment *feed.Amendment
		want      float64
		ok        bool
	}{
		"TheFirstTermPresentCounts":    {map[string]string{"eff": "523", "pct": "1"}, nil, 523, true},
		"TheNextTermStandsInForIt":     {map[string]string{"pct": "87"}, nil, 522, true},
		"ATermThatIsNoNumberIsPassed":  {map[string]string{"eff": "many", "pct": "2"}, nil, 12, true},
		"NoTermNoPoints":               {map[string]string{"player": "alex"}, nil, 0, false},
		"APatchCounts":                 {map[string]string{"pct": "87"}, &feed.Amendment{Fields: map[string]string{"eff": "10"}}, 10, true},
		"ARetractedLineCountsNothing":  {map[string]string{"eff": "523"}, &feed.Amendment{Retracts: true}, 0, false},
		"ANegativeDecimalIsANumber":    {map[string]string{"eff": "-1.5"}, nil, -1.5, true},
		"AnExponentIsNone":             {map[string]string{"eff": "1e9"}, nil, 0, false},
		"AnInfinityIsNone":             {map[string]string{"eff": "Inf"}, nil, 0, false},
		"AnOverlongNumberIsNone":       {map[string]string{"eff": "1234567890123456"}, nil, 0, false},
		"APointWithoutDigitsIsNone":    {map[string]string{"eff": "1."}, nil, 0, false},
		"DigitsWithoutALeadingAreNone": {map[string]string{"eff": ".5"}, nil, 0, false},
		"TwoSignsAreNone":              {map[string]string{"eff": "--5"}, nil, 0, false},
	} {
		base := scored()
		base.Fields = c.fields
		if got, ok := feed.Points(feed.ModeClassic, base, c.amendment); got != c.want || ok != c.ok {
			t.Errorf("%s: %v, %v; want %v, %v", name, got, ok, c.want, c.ok)
		}
	}
}

func TestAChangeShowsNoHiddenLine(t *testing.T) {
	t.Parallel()
	public := &feed.Base{Kind: "joined", Visibility: feed.Public}
	change := feed.Change{Lines: []feed.ChangedLine{{Evt: 1, Ver: 5, Base: scored()}, {Evt: 2, Ver: 6, Base: public}}}
	if views := change.Views(); len(views) != 1 || views[0].Evt != 2 || views[0].Ver != 6 {
		t.Errorf("before the release: %+v", views)
	}
	change.Released = true
	if views := change.Views(); len(views) != 2 || views[0].Evt != 1 || views[0].Ver != 5 {
		t.Errorf("after the release: %+v", views)
	}
	unsaid := feed.Base{}
	if !unsaid.Hidden(false) {
		t.Error("a line of unsaid visibility is shown")
	}
}
