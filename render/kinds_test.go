package render

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codemojex/feedrenderer/feed"
)

// folder makes a folder of kinds files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func load(t *testing.T, files map[string]string) *Kinds {
	t.Helper()
	kinds, err := LoadKinds(folder(t, files))
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}

func TestLoadKinds(t *testing.T) {
	t.Parallel()

	t.Run("TheEmbeddedOnesAreEveryKindOfTheWire", func(t *testing.T) {
		t.Parallel()
		kinds := load(t, nil)
		for _, name := range []string{
			"opened", "joined", "gathered", "guessed", "scored", "locked", "golden_win", "revealed", "settled", "voided",
			"corrected", "retracted", "notice",
		} {
			if kinds.byName[name] == nil {
				t.Errorf("%s is missing", name)
			}
		}
	})

	t.Run("AFolderAddsAndReplaces", func(t *testing.T) {
		t.Parallel()
		kinds := load(t, map[string]string{
			"chess.toml": "[kind.moved]\ntext = '{by} moved {piece}'\nactor = 'by'\nshow = ['by', 'piece']\n",
			"ours.toml":  "[kind.joined]\nversion = 2\nline = 'none'\n",
			"notes.md":   "[kind",
		})
		moved, _, err := kinds.Render(event("moved", "by", "ann", "piece", "a rook"))
		if err != nil {
			t.Fatal(err)
		}
		if view := feed.Fold(moved.Evt, feed.ModeUnknown, moved.Base, nil); view.Text != "ann moved a rook" || view.Actor != "ann" {
			t.Errorf("got %q of %q", view.Text, view.Actor)
		}
		if _, skip, err := kinds.Render(event("joined", "player", "ann")); !skip || err != nil {
			t.Errorf("joined is rendered still: %v", err)
		}
		if kinds.byName["scored"] == nil {
			t.Error("scored is gone")
		}
	})

	t.Run("WhatAKindDoesNotSayHasItsDefault", func(t *testing.T) {
		t.Parallel()
		got := load(t, map[string]string{"a.toml": "[kind.bell]\n"}).byName["bell"]
		want := &kind{version: 1, does: opens, base: feed.Base{Kind: "bell", Text: "bell", Tone: feed.TonePlain, Visibility: feed.Public}}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(kind{})); diff != "" {
			t.Error(diff)
		}
	})

	t.Run("EveryKeyIsTakenOver", func(t *testing.T) {
		t.Parallel()
		got := load(t, map[string]string{"a.toml": `
[kind.all]
version = 7
line = "reveals"
text = "{a} and {b.c-d}"
icon = "crown"
tone = "loud"
actor = "a"
show = ["a", "b.c-d"]
show_only.golden = ["a"]
visibility = "score"
score = ["a", " b.c-d*-2.5 "]
sets = { status = "{s}", mode = "blind", pool = "{x} of {y}, {x}", ends_at = "1767225600000", title = "All" }
`}).byName["all"]
		want := &kind{
			version: 7, does: reveals,
			base: feed.Base{
				Kind: "all", Text: "{a} and {b.c-d}", Icon: "crown", Tone: feed.ToneLoud, Actor: "a",
				Show:       []string{"a", "b.c-d"},
				Only:       map[feed.Mode][]string{feed.ModeGolden: {"a"}},
				Score:      []feed.ScoreTerm{{Field: "a", Factor: 1}, {Field: "b.c-d", Factor: -2.5}},
				Visibility: feed.Score,
			},
			sets: []register{
				{feed.RegisterEndsAt, "1767225600000", nil},
				{feed.RegisterMode, "blind", nil},
				{feed.RegisterPool, "{x} of {y}, {x}", []string{"x", "y"}},
				{feed.RegisterStatus, "{s}", []string{"s"}},
				{feed.RegisterTitle, "All", nil},
			},
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(kind{}, register{})); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFaultsInKindsAreRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, toml, want string }{
		{"InvalidTOML", "[kind.a]\ntext = ", "a.toml:2: toml: "},
		{"AKindTwiceInOneFile", "[kind.a]\n[kind.b]\n[kind.a]\n", "a.toml:3: toml: table a already exists"},
		{"AKeyTwice", "[kind.a]\ntext = 'x'\ntext = 'y'\n", "a.toml:3: toml: key text is already defined"},
		{"AnUnknownTable", "[kind.a]\n[kinds.b]\n", `a.toml:2: unknown key "kinds", want kind`},
		{"AnUnknownKey", "[kind.a]\ntext = 'x'\ncolour = 'red'\n", `a.toml:3: kind a: unknown key "colour", want version, line, sets, text,`},
		{"AnUnknownKeyInLongForm", "kind.a.text = 'x'\nkind.a.colour = 'red'\n", `a.toml:2: kind a: unknown key "colour"`},
		{"AKindThatIsNoTable", "[kind]\na = 'x'\n", "a.toml:2: a is text, want a table"},
		{"AListOfKinds", "\n[[kind]]\nname = 'a'\n", "a.toml:2: kind is a list, want a table"},
		{"AListOfOneKind", "\n[[kind.a]]\n", "a.toml:2: a is a list, want a table"},
		{"AKindWithoutAName", "[kind.'']\n", "a.toml:1: the name of a kind is empty"},
		{"AnOverlongName", "[kind." + strings.Repeat("a", 65) + "]\n", "a.toml:1: the name of a kind has 65 bytes, want at most 64"},
		{"AVersionThatIsText", "[kind.a]\nversion = '1'\n", "a.toml:2: kind a: version is text, want a whole number"},
		{"AVersionThatIsNotWhole", "[kind.a]\nversion = 1.5\n", "a.toml:2: kind a: version is a number, want a whole number"},
		{"ANegativeVersion", "[kind.a]\nversion = -1\n", "a.toml:2: kind a: version is -1, want 1 to 2147483647"},
		{"TheVersionOfUnknownKinds", "[kind.a]\nversion = 0\n", "a.toml:2: kind a: version is 0, want 1 to 2147483647 (0 is that of kinds which stand in no file)"},
		{"AVersionTooHigh", "[kind.a]\nversion = 2147483648\n", "a.toml:2: kind a: version is 2147483648"},
		{"AnUnknownEffect", "[kind.a]\nline = 'close'\n", `a.toml:2: kind a: line is "close", want opens, corrects, retracts, reveals, none`},
		{"AnUnknownIcon", "[kind.a]\nicon = 'bomb'\n", `a.toml:2: kind a: icon is "bomb", want dart, door, flag, trophy, gem, key, megaphone, pencil, eraser, users, guess, crown, ban, clock, coins, question, lock`},
		{"AnUnknownTone", "[kind.a]\ntone = 'sad'\n", `a.toml:2: kind a: tone is "sad", want plain, good, bad, loud`},
		{"AnUnknownVisibility", "[kind.a]\nvisibility = 'private'\n", `a.toml:2: kind a: visibility is "private", want public, score`},
		{"AToneThatIsANumber", "[kind.a]\ntone = 3\n", "a.toml:2: kind a: tone is a whole number, want text"},
		{"ATextThatIsADate", "[kind.a]\ntext = 2024-01-01\n", "a.toml:2: kind a: text is a date or time, want text"},
		{"ATextWithANUL", "[kind.a]\ntext = \"\\u0000\"\n", "a.toml:2: kind a: text has a NUL byte"},
		{"ATextOfAFieldNotShown", "[kind.a]\nshow = ['b']\ntext = '{b} {c}'\n", `a.toml:3: kind a: text names the field "c", which is not in show`},
		{"AnActorNotShown", "[kind.a]\nshow = ['b']\nactor = 'c'\n", `a.toml:3: kind a: actor names the field "c", which is not in show`},
		{"AnEmptyActor", "[kind.a]\nactor = ''\n", `a.toml:2: kind a: actor names the field "", which is not in show`},
		{"AShowThatIsText", "[kind.a]\nshow = 'b'\n", "a.toml:2: kind a: show is text, want a list of texts"},
		{"AShowOfNumbers", "[kind.a]\nshow = [\n'b',\n4,\n[5],\n]\n", "a.toml:4: kind a: show holds a whole number, want texts\na.toml:2: "},
		{"AShownFieldTwice", "[kind.a]\nshow = ['b', 'b']\n", `a.toml:2: kind a: show holds "b" twice`},
		{"AShownFieldWithoutAName", "[kind.a]\nshow = ['']\n", "a.toml:2: kind a: show holds an empty text"},
		{"AShowOnlyOfAnUnknownMode", "[kind.a]\nshow = ['b']\nshow_only = { bilnd = ['b'] }\n", `a.toml:3: kind a: show_only names the mode "bilnd", want classic, golden, blind`},
		{"AShowOnlyOfAFieldNotShown", "[kind.a]\nshow = ['b']\n[kind.a.show_only]\nblind = ['b',\n 'c']\n", `a.toml:4: kind a: blind names the field "c", which is not in show`},
		{"AShowOnlyThatIsAList", "[kind.a]\nshow_only = ['b']\n", "a.toml:2: kind a: show_only is a list, want a table"},
		{"AScoreThatIsNoExpression", "[kind.a]\nshow = ['b']\nscore = [\n'b',\n'b + 1']\n", `a.toml:5: kind a: score has "b + 1", want "field" or "field * number"`},
		{"AScoreTimesAField", "[kind.a]\nshow = ['b']\nscore = ['b * b']\n", `a.toml:3: kind a: score has "b * b"`},
		{"AScoreOfAFieldNotShown", "[kind.a]\nshow = ['b']\nscore = ['b',\n'c * 6']\n", `a.toml:4: kind a: score names the field "c", which is not in show`},
		{"AScoreThatIsText", "[kind.a]\nshow = ['b']\nscore = 'b'\n", "a.toml:3: kind a: score is text, want a list of texts"},
		{"AnUnknownRegister", "[kind.a]\nsets = { prize = '5' }\n", `a.toml:2: kind a: sets names the register "prize", want status, mode, pool, ends_at, title`},
		{"ARegisterThatIsANumber", "[kind.a]\nsets = { pool = 5 }\n", "a.toml:2: kind a: pool is a whole number, want text"},
		{"AnUnknownStatus", "[kind.a]\nsets = { status = 'opne' }\n", `a.toml:2: kind a: sets status to "opne", want gathering, open, revealing, settled, voided, or a {field}`},
		{"AnUnknownMode", "[kind.a.sets]\nmode = 'clasic'\n", `a.toml:2: kind a: sets mode to "clasic", want classic, golden, blind, or a {field}`},
		{"ATitleThatIsTooLong", "[kind.a]\nsets = { title = '" + strings.Repeat("x", 1025) + "' }\n", `a.toml:2: kind a: sets title to "` + strings.Repeat("x", 80) + `", want at most 1024 bytes`},
		{"AnEndThatIsNoTime", "[kind.a]\nsets = { ends_at = 'soon' }\n", `a.toml:2: kind a: sets ends_at to "soon", want unix milliseconds, or a {field}`},
		{"AKeyWithoutMeaning", "[kind.a]\nline = 'none'\nshow = ['b']\n", `a.toml:3: kind a: show has no meaning where line = "none"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := folder(t, map[string]string{"a.toml": test.toml})
			_, err := LoadKinds(dir)
			if err == nil {
				t.Fatal("accepted")
			}
			got := strings.ReplaceAll(err.Error(), dir+"/", "")
			sorted := strings.Split(test.want, "\n")
			for _, want := range sorted {
				if !strings.Contains(got, want) {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
			}
			if strings.Count(got, "\n")+1 != len(sorted) {
				t.Errorf("got %d faults, want %d:\n%s", strings.Count(got, "\n")+1, len(sorted), got)
			}
		})
	}

	t.Run("AllAtOnceInOrderOfFileAndLine", func(t *testing.T) {
		t.Parallel()
		dir := folder(t, map[string]string{
			"a.toml": "[kind.a]\ntone = 'sad'\nicon = 'bomb'\nversion = -1\nsets = { status = 'x', prize = 'y' }\n",
			"b.toml": "[kind.b\n",
			"c.toml": "[kind.c]\n\n[kind.joined]\nshow = 1\n",
			"d.toml": "[kind.c]\n[kind.d]\ncolour = 1\n",
		})
		_, err := LoadKinds(dir)
		if err == nil {
			t.Fatal("accepted")
		}
		var where []string
		for _, line := range strings.Split(err.Error(), "\n") {
			file, problem, _ := strings.Cut(strings.TrimPrefix(line, dir+"/"), ": ")
			where = append(where, file)
			t.Log(file, problem)
		}
		want := []string{"a.toml:2", "a.toml:3", "a.toml:4", "a.toml:5", "a.toml:5", "b.toml:1", "c.toml:4", "d.toml:1", "d.toml:3"}
		if diff := cmp.Diff(want, where); diff != "" {
			t.Error(diff)
		}
		if want := "d.toml:1: kind c stands in " + dir + "/c.toml:1 already"; !strings.Contains(err.Error(), want) {
			t.Errorf("no %q", want)
		}
	})

	t.Run("AFolderThatIsNotThere", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "absent")
		if _, err := LoadKinds(dir); err == nil || err.Error() != dir+": no such file or directory" {
			t.Errorf("got %v", err)
		}
	})

	t.Run("AFolderThatIsAFile", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(folder(t, map[string]string{"a.toml": ""}), "a.toml")
		if _, err := LoadKinds(file); err == nil || !strings.HasPrefix(err.Error(), file+": ") {
			t.Errorf("got %v", err)
		}
	})
}

func FuzzLoadKinds(f *testing.F) {
	text, err := embedded.ReadFile("kinds/codemojex.toml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add("[[kind.a]]\n[kind.'']\nshow = [[], {}]\nscore = [1]\nsets.mode.x = 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		file := kindsFile{name: "f.toml"}
		kinds := file.parse([]byte(text))
		for _, fault := range file.faults {
			if fault.line < 0 || fault.line > strings.Count(text, "\n")+1 {
				t.Errorf("%v is of no line of the file", fault)
			}
		}
		for name, kind := range kinds {
			if kind.base.Kind != name || kind.version < 1 {
				t.Errorf("%s: %+v", name, kind)
			}
		}
	})
}
