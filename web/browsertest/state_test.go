package browsertest_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/codemojex/feedrenderer/web/browsertest"
)

type heldLine struct {
	Evt  string `json:"evt"`
	Ver  int    `json:"ver"`
	Text string `json:"text"`
}

type change struct {
	To    int        `json:"to"`
	Lines []heldLine `json:"lines"`
}

// step is something that befalls the watcher while the server is at a position of its log: see testdata/play.js.
type step struct {
	Op   string `json:"op"`
	Pos  int    `json:"pos"`
	From int    `json:"from"`
	To   int    `json:"to"`
}

type plan struct {
	Limit int      `json:"limit"`
	Log   []change `json:"log"`
	Steps []step   `json:"steps"`
}

// makePlan plays a server: it opens lines, mostly in order, and amends others; its frames are lost, repeated, held back
// and joined; now and then the watcher loses its connection, the game its epoch, and a page of the past is read.
func makePlan(random *rand.Rand) plan {
	p := plan{Limit: 5 + random.IntN(20)}
	chance := func(percent int) bool { return random.IntN(100) < percent }
	newest, ver := 1000, 0
	var ids []int
	commit := func() {
		ver++
		c := change{}
		for range 1 + random.IntN(4) {
			var id int
			switch {
			case len(ids) > 0 && chance(25): // amended
				id = ids[random.IntN(len(ids))]
			case len(ids) > 0 && chance(15): // late
				id = newest - 1 - random.IntN(400)
			default:
				newest += 1 + random.IntN(5)
				id = newest
			}
			if slices.ContainsFunc(c.Lines, func(l heldLine) bool { return l.Evt == evt(id) }) {
				continue
			}
			ids = append(ids, id)
			c.Lines = append(c.Lines, heldLine{evt(id), ver, fmt.Sprintf("line %d at %d", id, ver)})
			ver++
		}
		c.To = ver + random.IntN(3) // versions may stay unused
		ver = c.To
		p.Log = append(p.Log, c)
	}
	for range random.IntN(60) {
		commit()
	}
	p.Steps = append(p.Steps, step{Op: "start", Pos: len(p.Log)})
	var held []step
	for range 80 {
		from := len(p.Log)
		for range 1 + random.IntN(2) {
			commit()
		}
		pos := len(p.Log)
		frame := step{Op: "frame", From: from, To: pos}
		switch n := random.IntN(100); {
		case n < 15: // lost
		case n < 35:
			held = append(held, frame)
		case n < 45:
			p.Steps = append(p.Steps, frame, frame)
		default:
			p.Steps = append(p.Steps, frame)
		}
		for len(held) > 0 && chance(40) {
			i := random.IntN(len(held))
			p.Steps = append(p.Steps, held[i])
			held = slices.Delete(held, i, i+1)
		}
		for _, op := range []struct {
			name    string
			percent int
		}{{"answer", 50}, {"session", 5}, {"reset", 2}, {"game", 25}, {"expect", 10}, {"page", 20}} {
			if chance(op.percent) {
				p.Steps = append(p.Steps, step{Op: op.name, Pos: pos})
				if op.name == "reset" {
					held = nil // frames of the old epoch name it, and are not believed
				}
			}
		}
	}
	p.Steps = append(p.Steps, held...)
	return p
}

// table is what the server holds in the end, newest first.
func (p *plan) table() []heldLine {
	lines := map[string]heldLine{}
	for _, c := range p.Log {
		for _, l := range c.Lines {
			lines[l.Evt] = l
		}
	}
	return slices.SortedFunc(maps.Values(lines), func(a, b heldLine) int { return cmp.Compare(b.Evt, a.Evt) })
}

// held is the part of the table that one who holds such lines must hold: all of it where there are no older ones, else
// the stretch that ends above the oldest.
func held(table, lines []heldLine, older bool) []heldLine {
	if !older || len(lines) == 0 {
		return table
	}
	lowest := lines[len(lines)-1].Evt
	return slices.DeleteFunc(table, func(l heldLine) bool { return l.Evt < lowest })
}

// TestState plays random sequences of frames: whatever is lost, repeated or overtaken, the watcher ends with the table.
func TestState(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	page := browsertest.Tab(t)
	page.Open(s.URL + "/static/icons.txt") // any page of the site: the module is all that is wanted
	play, err := os.ReadFile("testdata/play.js")
	if err != nil {
		t.Fatal(err)
	}
	asks := 0
	for seed := range uint64(200) {
		p := makePlan(rand.New(rand.NewPCG(seed, 1)))
		input, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		got := browsertest.Eval[struct {
			Ver        int        `json:"ver"`
			Older      bool       `json:"older"`
			Asks       int        `json:"asks"`
			Regressed  int        `json:"regressed"` // times that a line or the cursor went back
			Ahead      int        `json:"ahead"`     // times that the header was of a version above the lines'
			Headers    int        `json:"headers"`   // times that there was one
			Lines      []heldLine `json:"lines"`
			Found      []heldLine `json:"found"` // by a search for the lines of odd ids
			FoundOlder bool       `json:"foundOlder"`
		}](page, fmt.Sprintf("(%s)(%s)", play, input))
		want := held(p.table(), got.Lines, got.Older)
		odd := slices.DeleteFunc(p.table(), func(l heldLine) bool { return l.Evt[len(l.Evt)-1]%2 == 0 })
		if diff := gocmp.Diff(held(odd, got.Found, got.FoundOlder), got.Found); diff != "" {
			t.Fatalf("seed %d: a search found (-want +got):\n%s", seed, diff)
		}
		if last := p.Log[len(p.Log)-1].To; got.Ver != last || !slices.Equal(got.Lines, want) {
			t.Fatalf("seed %d: at version %d, want %d (-want +got):\n%s", seed, got.Ver, last, gocmp.Diff(want, got.Lines))
		}
		if !got.Older && len(got.Lines) != len(p.table()) {
			t.Fatalf("seed %d: %d lines and no older ones, want %d", seed, len(got.Lines), len(p.table()))
		}
		if got.Regressed > 0 {
			t.Fatalf("seed %d: %d times a line or the cursor went back", seed, got.Regressed)
		}
		if got.Ahead > 0 || got.Headers == 0 {
			t.Fatalf("seed %d: %d of %d times the header was ahead of the lines", seed, got.Ahead, got.Headers)
		}
		asks += got.Asks
	}
	if asks < 200 {
		t.Errorf("%d gaps in all: the frames hardly suffer", asks)
	}
}

// TestClient plays ten bad minutes of a network to the client as a whole, and then good ones: it ends with the table.
func TestClient(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	page := browsertest.Tab(t)
	page.Open(s.URL + "/static/icons.txt")
	play, err := os.ReadFile("testdata/client.js")
	if err != nil {
		t.Fatal(err)
	}
	connections, back, lines := 0, 0, 0
	for seed := range 20 {
		got := browsertest.Eval[struct {
			Faults                   []string
			Connections, Back, Lines int
		}](page, fmt.Sprintf("(%s)(%d)", play, seed))
		for _, fault := range got.Faults {
			t.Errorf("seed %d: %s", seed, fault)
		}
		connections, back, lines = connections+got.Connections, back+got.Back, lines+got.Lines
	}
	if connections < 400 || back < 20 || lines < 1000 {
		t.Errorf("%d connections, %d times back to the first way, %d lines in all: the network is hardly bad", connections, back, lines)
	}
}
