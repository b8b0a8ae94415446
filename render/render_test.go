package render

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/codemojex/feedrenderer/feed"
)

var (
	ofGame  = feed.GameKey{Tenant: "acme", Game: "g1"}
	eventID = feed.ID(385766026639339520)
)

func event(kind string, pairs ...string) feed.Event {
	e := feed.Event{Game: ofGame, ID: eventID, Kind: kind, Fields: feed.Fields{{Name: "kind", Value: kind}}}
	for i := 0; i < len(pairs); i += 2 {
		e.Fields = append(e.Fields, feed.Field{Name: pairs[i], Value: pairs[i+1]})
	}
	return e
}

func TestRender(t *testing.T) {
	t.Parallel()
	kinds := load(t, map[string]string{"a.toml": `
[kind.clocked]
line = "none"
sets = { ends_at = "{ends_ms}", status = "{status}", mode = "{mode}", pool = "{pot} of {total}", title = "{title}" }
[kind.unveiled]
line = "reveals"
text = "{secret}"
show = ["secret"]
`})

	render := func(t *testing.T, e feed.Event) feed.Line {
		t.Helper()
		line, skip, err := kinds.Render(e)
		if err != nil || skip {
			t.Fatalf("skip %v, %v", skip, err)
		}
		return line
	}

	t.Run("AnOpeningEventIsTheBaseOfItsOwnLine", func(t *testing.T) {
		t.Parallel()
		got := render(t, event("scored", "player", "ann", "pct", "87", "eff", "522", "guess", "🍎", "chat_id", "7"))
		want := feed.Line{
			Game: ofGame, Event: eventID, Evt: eventID, KindVersion: 1,
			Base: &feed.Base{
				Kind: "scored", Text: "{player} scored {pct} %", Icon: "dart", Tone: feed.ToneGood, Actor: "player",
				Show:       []string{"player", "pct", "eff"},
				Fields:     map[string]string{"player": "ann", "pct": "87", "eff": "522"},
				Score:      []feed.ScoreTerm{{Field: "eff", Factor: 1}, {Field: "pct", Factor: 6}},
				Visibility: feed.Score,
			},
			Raw: event("scored", "player", "ann", "pct", "87", "eff", "522", "guess", "🍎", "chat_id", "7").Fields.Raw(),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})

	t.Run("AKindThatNobodyDescribedShowsItsNameAlone", func(t *testing.T) {
		t.Parallel()
		got := render(t, event("dance", "player", "ann", "secret", "s"))
		want := &feed.Base{Kind: "dance", Text: "dance", Icon: "question", Tone: feed.TonePlain, Fields: map[string]string{}, Visibility: feed.Public}
		if diff := cmp.Diff(want, got.Base); diff != "" || got.KindVersion != 0 {
			t.Errorf("version %d %s", got.KindVersion, diff)
		}
		if got := render(t, event("")); got.Base.Kind != feed.KindUnnamed {
			t.Errorf("an empty kind is %q", got.Base.Kind)
		}
	})

	t.Run("APrivateKindIsSkipped", func(t *testing.T) {
		t.Parallel()
		line, skip, err := kinds.Render(event("locked", "codes", "\xff"))
		if diff := cmp.Diff(feed.Line{}, line); diff != "" || !skip || err != nil {
			t.Errorf("skip %v, %v %s", skip, err, diff)
		}
	})

	t.Run("ACorrectionIsAPatchOfItsTarget", func(t *testing.T) {
		t.Parallel()
		target := eventID - 1
		got := render(t, event("corrected", "target", target.String(), "text", "oops", "fields", ` {"pct":"12","x":""} `, "reason", "recount"))
		want := feed.Line{
			Game: ofGame, Event: eventID, Evt: target, KindVersion: 1,
			Amendment: &feed.Amendment{By: eventID, Text: "oops", Reason: "recount", Fields: map[string]string{"pct": "12", "x": ""}},
			Raw:       got.Raw,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		bare := render(t, event("corrected", "target", target.String()))
		if diff := cmp.Diff(&feed.Amendment{By: eventID}, bare.Amendment); diff != "" {
			t.Errorf("without text and fields it restores the line: %s", diff)
		}
	})

	t.Run("ARetractionGivesAReasonAndNothingElse", func(t *testing.T) {
		t.Parallel()
		got := render(t, event("retracted", "target", feed.ID(0).String(), "text", "x", "fields", "no JSON", "reason", "spam"))
		if diff := cmp.Diff(&feed.Amendment{By: eventID, Retracts: true, Reason: "spam"}, got.Amendment); diff != "" || got.Evt != 0 {
			t.Errorf("of %s %s", got.Evt, diff)
		}
	})

	t.Run("HeadersAreWrittenWhereTheirFieldsAreThereAndMakeSense", func(t *testing.T) {
		t.Parallel()
		for _, test := range []struct {
			name   string
			fields []string
			want   map[feed.Register]string
		}{
			{"All", []string{"ends_ms", "1796040987937", "status", "open", "mode", "golden", "pot", "5", "total", "9", "title", "Friday"}, map[feed.Register]string{
				"ends_at": "1796040987937", "status": "open", "mode": "golden", "pool": "5 of 9", "title": "Friday",
			}},
			{"NotAllFieldsOfAPattern", []string{"pot", "5", "title", ""}, map[feed.Register]string{"title": ""}},
			{"AnUnknownModeIsUnknown", []string{"mode", "Classic"}, map[feed.Register]string{"mode": ""}},
			{"AnUnknownStatus", []string{"status", "paused", "title", "t"}, map[feed.Register]string{"title": "t"}},
			{"AnEndThatIsNoNumber", []string{"ends_ms", "soon", "title", "t"}, map[feed.Register]string{"title": "t"}},
			{"AnEndInSeconds", []string{"ends_ms", "1796040987", "title", "t"}, map[feed.Register]string{"title": "t"}},
			{"AnEndBeyondAllIDs", []string{"ends_ms", "3903090455552", "title", "t"}, map[feed.Register]string{"title": "t"}},
			{"AnEndWithANUL", []string{"ends_ms", "1796040987937\x00", "title", "t"}, map[feed.Register]string{"title": "t"}},
			{"ATitleOfAMegabyte", []string{"title", strings.Repeat("x", 1<<20), "pot", "5", "total", "9"}, map[feed.Register]string{"pool": "5 of 9"}},
			{"AnEndInAnotherForm", []string{"ends_ms", "+01796040987937"}, map[feed.Register]string{"ends_at": "1796040987937"}},
		} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				line := render(t, event("clocked", test.fields...))
				if diff := cmp.Diff(test.want, line.Sets); diff != "" || line.Base != nil {
					t.Error(diff)
				}
			})
		}
		if _, skip, err := kinds.Render(event("clocked")); !skip || err != nil {
			t.Errorf("nothing to write: skip %v, %v", skip, err)
		}
	})

	t.Run("WhatCannotBeShownIsADeadLetterWithItsReason", func(t *testing.T) {
		t.Parallel()
		below, own := (eventID - 1).String(), eventID.String()
		for _, test := range []struct {
			name  string
			event feed.Event
			want  string
		}{
			{"ANULInAShownField", event("joined", "player", "a\x00"), "field player has a NUL byte"},
			{"BadUTF8InAShownField", event("joined", "player", "\xff"), "field player is not valid UTF-8"},
			{"BadUTF8InAFieldShownInOtherModes", event("revealed", "nonce", "\xff"), "field nonce is not valid UTF-8"},
			{"ANULInAHeader", event("clocked", "title", "\x00"), "field title has a NUL byte"},
			{"BadUTF8InPartOfAHeader", event("clocked", "pot", "1", "total", "\xff"), "field total is not valid UTF-8"},
			{"AnOverlongKind", event(strings.Repeat("k", 65)), "kind has 65 bytes, want at most 64"},
			{"ALineTooLongToShow", event("notice", "text", strings.Repeat("x", 1<<16)), "shown fields have 65540 bytes, want at most 65536"},
			{"ACorrectionTooLongToShow", event("corrected", "target", below, "text", strings.Repeat("x", 1<<15), "reason", strings.Repeat("x", 1<<15+1)), "shown fields have 65537 bytes, want at most 65536"},
			{"AKindWithANUL", event("a\x00"), "kind has a NUL byte"},
			{"AKindOfBadUTF8", event("\xff"), "kind is not valid UTF-8"},
			{"NoTarget", event("corrected", "text", "x"), "field target is missing"},
			{"ATargetThatIsNoID", event("corrected", "target", "EVT1"), "field target: malformed branded id: 4 bytes, want 14"},
			{"ATargetOfAnotherNamespace", event("retracted", "target", "GAM"+below[3:]), "field target: branded id GAM" + below[3:] + " is of namespace GAM, not EVT"},
			{"ATargetThatIsItself", event("corrected", "target", own), "field target: " + own + " is not below the event's own id " + own},
			{"AReasonWithANUL", event("retracted", "target", below, "reason", "\x00"), "field reason has a NUL byte"},
			{"ATextOfBadUTF8", event("corrected", "target", below, "text", "\xff"), "field text is not valid UTF-8"},
			{"FieldsThatAreNoJSON", event("corrected", "target", below, "fields", "pct=1"), "field fields: not a JSON object of name -> text"},
			{"FieldsThatAreEmpty", event("corrected", "target", below, "fields", ""), "field fields: not a JSON object of name -> text"},
			{"FieldsThatAreAList", event("corrected", "target", below, "fields", `["pct"]`), "field fields: not a JSON object of name -> text"},
			{"FieldsThatAreNull", event("corrected", "target", below, "fields", "null"), "field fields: not a JSON object of name -> text"},
			{"FieldsCutShort", event("corrected", "target", below, "fields", `{"pct":"1"`), "field fields: not a JSON object: EOF"},
			{"FieldsAndMore", event("corrected", "target", below, "fields", `{}{}`), "field fields: something stands after the JSON object"},
			{"ANumber", event("corrected", "target", below, "fields", `{"pct":1}`), `field fields: "pct" is not a text`},
			{"ANull", event("corrected", "target", below, "fields", `{"pct":null}`), `field fields: "pct" is not a text`},
			{"AnObject", event("corrected", "target", below, "fields", `{"pct":{"a":"b"}}`), `field fields: "pct" is not a text`},
			{"ANameTwice", event("corrected", "target", below, "fields", `{"pct":"1","pct":"2"}`), `field fields: "pct" stands twice`},
			{"AnEscapedNUL", event("corrected", "target", below, "fields", `{"pct":"\u0000"}`), `field fields: "pct" has a NUL byte`},
			{"ANameWithANUL", event("corrected", "target", below, "fields", `{"\u0000":""}`), `field fields: "\x00" has a NUL byte`},
			{"FieldsOfBadUTF8", event("corrected", "target", below, "fields", "{\"pct\":\"\xff\"}"), "field fields: is not valid UTF-8"},
		} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				line, skip, err := kinds.Render(test.event)
				if err == nil || !strings.HasPrefix(err.Error(), test.want) || skip {
					t.Errorf("got %v (skip %v), want %s", err, skip, test.want)
				}
				if diff := cmp.Diff(feed.Line{}, line); diff != "" {
					t.Error(diff)
				}
			})
		}
	})

	t.Run("TheSameInAFieldNobodyIsShownStaysInTheRawPayload", func(t *testing.T) {
		t.Parallel()
		e := event("scored", "player", "ann", "guess", "\x00\xff", "\xff", "")
		line := render(t, e)
		back, err := feed.ParseRaw(line.Raw)
		if diff := cmp.Diff(e.Fields, back); diff != "" || err != nil {
			t.Error(diff, err)
		}
	})

	t.Run("LinesDoNotShareTheirFields", func(t *testing.T) {
		t.Parallel()
		a, b := render(t, event("joined", "player", "ann")), render(t, event("joined", "player", "bea"))
		if a.Base.Fields["player"] != "ann" || b.Base.Fields["player"] != "bea" {
			t.Errorf("%v %v", a.Base.Fields, b.Base.Fields)
		}
	})
}

func TestACommitment(t *testing.T) {
	t.Parallel()
	kinds := load(t, nil)
	const nonce = "n0nce"
	codes := []string{"🍎", "🍊", "🍋", "🍇", "🍓", "🍒"}
	sum := hashOf(codes, nonce)
	text := func(pairs ...string) string {
		line, _, err := kinds.Render(event("revealed", pairs...))
		if err != nil {
			t.Fatal(err)
		}
		if !line.Reveals || !line.Releases() {
			t.Error("releases nothing")
		}
		return feed.Fold(line.Evt, feed.ModeBlind, line.Base, nil).Text
	}
	const doubt = "(the commitment does not match)"

	for _, secret := range []string{
		strings.Join(codes, " "), strings.Join(codes, ","), strings.Join(codes, ", "), strings.Join(codes, "\x1e"),
		strings.Join(codes, ""), `["` + strings.Join(codes, `","`) + `"]`,
	} {
		if got := text("commitment", sum, "secret", secret, "nonce", nonce); strings.Contains(got, doubt) {
			t.Errorf("holds for %q, but the line says %q", secret, got)
		}
	}
	for name, pairs := range map[string][]string{
		"another code":  {"commitment", sum, "secret", strings.Join(codes[1:], " ") + " 🍎", "nonce", nonce},
		"five codes":    {"commitment", hashOf(codes[1:], nonce), "secret", strings.Join(codes[1:], " "), "nonce", nonce},
		"another nonce": {"commitment", sum, "secret", strings.Join(codes, " "), "nonce", "other"},
		"no nonce":      {"commitment", sum, "secret", strings.Join(codes, " ")},
		"a long secret": {"commitment", sum, "secret", strings.Repeat("🍎 ", 1<<13), "nonce", nonce},
	} {
		if got := text(pairs...); !strings.HasSuffix(got, doubt) {
			t.Errorf("%s: the line says %.100q", name, got)
		}
	}
	for name, pairs := range map[string][]string{
		"nothing to check": {"commitment", sum},
		"no commitment":    {"secret", strings.Join(codes, " "), "nonce", nonce},
	} {
		if got := text(pairs...); strings.Contains(got, doubt) {
			t.Errorf("%s: the line says %q", name, got)
		}
	}
}

// Faults in kinds are found by fieldsOf, lines are filled in by feed.Fold: the two must agree on what a field is.
func TestAPatternNamesWhatFoldFillsIn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOf(rapid.RuneFrom([]rune("{}{}ab._- é"))).Draw(t, "pattern")
		want := fieldPattern.ReplaceAllString(pattern, "-")
		if got := feed.Fold(0, feed.ModeUnknown, &feed.Base{Text: pattern, Show: fieldsOf(pattern)}, nil).Text; got != want {
			t.Errorf("%q: fold fills in %q, fieldsOf sees %q", pattern, got, want)
		}
	})
}

func FuzzRender(f *testing.F) {
	kinds, err := LoadKinds("")
	if err != nil {
		f.Fatal(err)
	}
	for kind := range kinds.byName {
		f.Add(int64(eventID), kind, "player", "ann", "fields", `{"pct":"1"}`, (eventID - 1).String())
	}
	f.Add(int64(0), "", "", "", "", "", "")
	f.Add(int64(eventID), "revealed", "commitment", "00", "secret", "[]", "n")
	f.Fuzz(func(t *testing.T, id int64, kind, name1, value1, name2, value2, target string) {
		e := event(kind, name1, value1, name2, value2, "target", target)
		e.ID = feed.ID(max(id, 0))
		line, skip, err := kinds.Render(e)
		if err != nil || skip {
			if diff := cmp.Diff(feed.Line{}, line); diff != "" {
				t.Error(diff)
			}
			return
		}
		shown := []string{}
		switch {
		case line.Base != nil && line.Amendment != nil:
			t.Error("both a base and an amendment")
		case line.Base != nil:
			shown = append(shown, line.Base.Kind, line.Base.Text)
			for _, value := range line.Base.Fields {
				shown = append(shown, value)
			}
		case line.Amendment != nil:
			if line.Evt >= line.Event {
				t.Errorf("%s amends %s", line.Event, line.Evt)
			}
			shown = append(shown, line.Amendment.Reason, line.Amendment.Text)
			for name, value := range line.Amendment.Fields {
				shown = append(shown, name, value)
			}
		}
		for _, value := range line.Sets {
			shown = append(shown, value)
		}
		for _, s := range shown {
			if strings.ContainsRune(s, 0) || !utf8.ValidString(s) {
				t.Errorf("%q cannot be stored", s)
			}
		}
	})
}
