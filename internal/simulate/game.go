package simulate

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/codemojex/feedrenderer/feed"
)

// way is how an event reaches the stream.
type way int

const (
	appended  way = iota // by the engine: an explicit id of its own
	foreign              // by a writer that knows nothing of ids: the server makes the entry id
	reserved             // not at all for now: only its id is taken, so that it can come late
	delivered            // late: its id was reserved before, and newer events of the game have been written since
)

// entry is an event whose id is known once it was written or reserved; amendments name it by that id.
type entry struct{ id feed.ID }

// step is one thing to do to a stream.
type step struct {
	game   feed.GameKey
	way    way
	fields feed.Fields
	entry  *entry
	target *entry // what a correction or retraction changes
	endsIn int    // an opened game's length in events of that game, for its field ends_ms; 0 where it has no end
}

const (
	fullScore   = 600 // of a guess with all six codes in place
	maxScore    = fullScore - 1
	recentLines = 40 // how far back amendments reach
)

// guess is a scored attempt.
type guess struct {
	id     string
	player string
	total  int    // 0 .. 600; -1 once retracted
	line   *entry // that says so
	late   bool   // it comes late
}

// lateStep waits until the game has taken some more steps.
type lateStep struct {
	step
	in int
}

// game plays one game from its opening to its end. What it does is a function of its random source alone.
type game struct {
	rng     *rand.Rand
	key     feed.GameKey
	mode    feed.Mode
	endless bool

	room, nonce string
	secret      []string // six codes
	prize       int
	length      int // guesses until it closes by itself
	bench       []string
	players     []string
	guesses     []*guess
	played      int

	queue  []step // what surely follows, in order
	late   []lateStep
	ending bool
}

func newGame(rng *rand.Rand, key feed.GameKey, mode feed.Mode, endless bool) *game {
	g := &game{
		rng: rng, key: key, mode: mode, endless: endless,
		room: pick(rng, rooms), nonce: strconv.FormatUint(rng.Uint64(), 36),
		prize: 50 * (4 + rng.IntN(40)), length: 12 + rng.IntN(30),
		bench: slices.Clone(cast),
	}
	rng.Shuffle(len(g.bench), func(i, j int) { g.bench[i], g.bench[j] = g.bench[j], g.bench[i] })
	for range 6 {
		g.secret = append(g.secret, pick(rng, emoji))
	}
	if mode == feed.ModeGolden {
		g.gather()
	} else {
		g.open()
	}
	return g
}

// over reports whether nothing of the game is left to come.
func (g *game) over() bool { return g.ending && len(g.queue) == 0 && len(g.late) == 0 }

// next is the game's next step. Not to be called once the game is over.
func (g *game) next() step {
	if s, ok := g.overdue(); ok {
		return s
	}
	for len(g.queue) == 0 {
		g.act()
	}
	s := g.queue[0]
	g.queue = g.queue[1:]
	return s
}

// overdue takes a late step whose time has come; once the game has ended, whatever is left.
func (g *game) overdue() (step, bool) {
	for i := range g.late {
		g.late[i].in--
		if g.late[i].in <= 0 || g.ending && len(g.queue) == 0 {
			s := g.late[i].step
			g.late = slices.Delete(g.late, i, i+1)
			return s, true
		}
	}
	return step{}, false
}

func (g *game) say(kind string, pairs ...string) *step {
	fields := feed.Fields{{Name: "kind", Value: kind}}
	for i := 0; i < len(pairs); i += 2 {
		fields = append(fields, feed.Field{Name: pairs[i], Value: pairs[i+1]})
	}
	g.queue = append(g.queue, step{game: g.key, fields: fields, entry: new(entry)})
	return &g.queue[len(g.queue)-1]
}

func (g *game) open() {
	s := g.say("opened", "title", g.room, "room", g.room, "mode", string(g.mode), "prize", strconv.Itoa(g.prize))
	if !g.endless {
		s.endsIn = 3 * g.length // a guess is about three events: itself, its score, and what goes on around it
	}
	for range 2 + g.rng.IntN(3) {
		g.join()
	}
}

// gather collects the stakes of a golden room. One in five does not fill and is voided.
func (g *game) gather() {
	threshold := g.prize
	fails := g.rng.IntN(5) == 0
	for paid := 0; paid < threshold; {
		paid = min(threshold, paid+threshold/5+g.rng.IntN(threshold/4))
		if fails && paid > threshold*3/5 {
			g.ending = true
			g.say("voided", "reason", pick(g.rng, voidings))
			return
		}
		g.join()
		g.say("gathered", "paid", strconv.Itoa(paid), "threshold", strconv.Itoa(threshold))
	}
	g.open()
}

func (g *game) join() {
	if len(g.bench) == 0 {
		return
	}
	player := g.bench[0]
	g.bench, g.players = g.bench[1:], append(g.players, player)
	g.say("joined", "player", player)
}

// act decides what happens next while the game is open.
func (g *game) act() {
	switch n := g.rng.IntN(100); {
	case n < 5:
		g.join()
	case n < 9:
		g.say("notice", "text", pick(g.rng, notices))
	case n < 11:
		g.say(pick(g.rng, strange), "player", pick(g.rng, g.players), "power", strconv.Itoa(g.rng.IntN(9000)))
	case n < 23:
		g.correct()
	case n < 28:
		g.retract()
	default:
		g.attempt()
	}
}

// attempt is one guess, or some at about the same time, and then their scores.
func (g *game) attempt() {
	made := make([]*guess, 1+g.rng.IntN(3))
	for i := range made {
		made[i] = g.guess()
	}
	cracked := false
	for _, m := range made {
		g.score(m)
		cracked = cracked || m.total == fullScore
	}
	if !g.endless && (cracked || g.played >= g.length) {
		g.end()
	}
}

func (g *game) guess() *guess {
	id := feed.Branded{Namespace: feed.NamespaceGuess, Snowflake: g.rng.Int64()}
	made := &guess{id: id.String(), player: pick(g.rng, g.players), total: g.total()}
	s := g.say("guessed", "player", made.player, "guess", made.id)
	if g.rng.IntN(12) == 0 {
		s.byForeigner()
	}
	g.played++
	return made
}

// score says what a guess is worth. Some scores come from foreign writers, some come late, and some of those are
// corrected before they are there.
func (g *game) score(made *guess) {
	s := g.say("scored", "player", made.player, "pct", pct(made.total), "eff", strconv.Itoa(made.total), "guess", made.id)
	made.line = s.entry
	switch n := g.rng.IntN(100); {
	case n < 8:
		s.byForeigner()
	case n < 12:
		made.late = true
		late := lateStep{*s, 4 + g.rng.IntN(12)}
		late.way = delivered
		g.late = append(g.late, late)
		s.way = reserved
		if n < 10 {
			g.recount(made)
		}
	}
	g.guesses = append(g.guesses, made)
	if g.endless && len(g.guesses) > recentLines {
		g.guesses = g.guesses[1:]
	}
}

// byForeigner makes the event one of a writer that says event for kind and knows of no ids.
func (s *step) byForeigner() {
	s.way = foreign
	s.fields[0].Name = "event"
}

// total gets better as the game goes on; only a bounded game is ever cracked.
func (g *game) total() int {
	if g.endless {
		return min(maxScore, 60*g.rng.IntN(8)+g.rng.IntN(180))
	}
	if g.played > g.length/2 && g.rng.IntN(40) == 0 {
		return fullScore
	}
	progress := min(g.played*12, 300)
	return min(maxScore, progress+g.rng.IntN(300))
}

func (g *game) correct() {
	if made := g.recent(); made != nil {
		g.recount(made)
	}
}

// recount corrects a score; after a retraction it brings the line back.
func (g *game) recount(made *guess) {
	made.total = min(maxScore, max(0, made.total+g.rng.IntN(121)-60))
	patch := `{"pct":"` + pct(made.total) + `","eff":"` + strconv.Itoa(made.total) + `"}`
	s := g.say("corrected", "fields", patch)
	s.target = made.line
	if g.rng.IntN(3) == 0 {
		s.fields = append(s.fields, feed.Field{Name: "text", Value: made.player + " scored " + pct(made.total) + " % after a recount"})
	}
}

func (g *game) retract() {
	if made := g.recent(); made != nil && !made.late {
		made.total = -1
		g.say("retracted", "reason", pick(g.rng, removals)).target = made.line
	}
}

func (g *game) recent() *guess {
	if len(g.guesses) == 0 {
		return nil
	}
	return g.guesses[len(g.guesses)-1-g.rng.IntN(min(len(g.guesses), recentLines))]
}

// end closes the game as its mode does.
func (g *game) end() {
	g.ending = true
	ranking := g.ranking()
	winners := make([]string, 0, 1)
	for _, made := range ranking {
		if made.total == ranking[0].total {
			winners = append(winners, made.player)
		}
	}
	switch g.mode {
	case feed.ModeBlind:
		g.say("notice", "text", "All guesses are in. The vault opens…")
		g.say("revealed", "commitment", commitment(g.secret, g.nonce), "secret", strings.Join(g.secret, " "), "nonce", g.nonce)
	case feed.ModeGolden:
		winners = winners[:0]
		for i, made := range ranking[:min(3, len(ranking))] {
			winners = append(winners, made.player)
			g.say("golden_win", "player", made.player, "diamonds", strconv.Itoa(g.prize*(3-i)/6))
		}
	}
	if len(winners) == 0 {
		g.say("voided", "reason", "no valid guess")
		return
	}
	g.say("settled", "winner", strings.Join(winners, " & "), "pot", strconv.Itoa(g.prize))
}

// ranking is the best guess of each player, best first; of equals the earlier.
func (g *game) ranking() []*guess {
	var best []*guess
	for _, made := range g.guesses {
		i := slices.IndexFunc(best, func(b *guess) bool { return b.player == made.player })
		switch {
		case made.total < 0:
		case i < 0:
			best = append(best, made)
		case made.total > best[i].total:
			best[i] = made
		}
	}
	slices.SortStableFunc(best, func(a, b *guess) int { return b.total - a.total })
	return best
}

// commitment is the lowercase hex SHA-256 of the codes joined by 0x1E, then 0x1E, then the nonce.
func commitment(codes []string, nonce string) string {
	sum := sha256.Sum256([]byte(strings.Join(codes, "\x1e") + "\x1e" + nonce))
	return hex.EncodeToString(sum[:])
}

func pct(total int) string { return strconv.Itoa((total + 3) / 6) }

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }
