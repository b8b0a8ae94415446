package simulate

import (
	"math/rand/v2"
	"strconv"

	"github.com/codemojex/feedrenderer/feed"
)

// script says what happens next over all tenants and games: a function of its random source alone. Each table plays
// one game after the other.
type script struct {
	rng    *rand.Rand
	tables []*table
}

type table struct {
	tenant  *numbering
	endless bool
	game    *game
}

// numbering names a tenant's games g1, g2, ...
type numbering struct {
	tenant feed.TenantID
	next   int
}

func (n *numbering) key() feed.GameKey {
	n.next++
	return feed.GameKey{Tenant: n.tenant, Game: feed.GameID("g" + strconv.Itoa(n.next-1))}
}

// newScript plays games tables in each tenant, whose games are numbered from first[tenant]. Where endless is set, the
// first table of each tenant plays one game that has no end.
func newScript(seed uint64, tenants []feed.TenantID, games int, endless bool, first map[feed.TenantID]int) *script {
	s := &script{rng: rand.New(rand.NewPCG(seed, 0))} // #nosec G404 -- the same seed must play the same games
	for _, tenant := range tenants {
		numbers := &numbering{tenant: tenant, next: first[tenant]}
		for i := range games {
			s.tables = append(s.tables, &table{tenant: numbers, endless: endless && i == 0})
		}
	}
	return s
}

// next is the next step of some table. The tables are sat down at in order, so that a tenant's first game is its first
// table's.
func (s *script) next() step {
	for _, t := range s.tables {
		if t.game == nil {
			t.sitDown(s.rng)
			return t.game.next()
		}
	}
	t := pick(s.rng, s.tables)
	if t.game.over() {
		t.sitDown(s.rng)
	}
	return t.game.next()
}

var modes = []feed.Mode{feed.ModeClassic, feed.ModeGolden, feed.ModeBlind}

// sitDown starts a new game: the modes in turn, an endless game as a classic one, whose scores show from the start.
func (t *table) sitDown(rng *rand.Rand) {
	mode := modes[(t.tenant.next+len(modes)-1)%len(modes)]
	if t.endless {
		mode = feed.ModeClassic
	}
	source := rand.NewPCG(rng.Uint64(), rng.Uint64())                   // its own, so that a game does not depend on how tables interleave
	t.game = newGame(rand.New(source), t.tenant.key(), mode, t.endless) // #nosec G404 -- as above
}
