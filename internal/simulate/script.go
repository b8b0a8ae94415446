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
	endless feed.GameID // the one game of this table; "" where it plays one after the other
	game    *game
}

// numbering names a tenant's games g1, g2, ... but for the endless one.
type numbering struct {
	tenant  feed.TenantID
	endless feed.GameID
	next    int
}

func (n *numbering) key() feed.GameKey {
	game := feed.GameID("g" + strconv.Itoa(n.next))
	n.next++
	if game == n.endless {
		return n.key()
	}
	return feed.GameKey{Tenant: n.tenant, Game: game}
}

// newScript plays games tables in each tenant, whose games are numbered from first[tenant]. Where endless is a name, the
// first table of each tenant plays one game of that name that has no end.
func newScript(seed uint64, tenants []feed.TenantID, games int, endless feed.GameID, first map[feed.TenantID]int) *script {
	s := &script{rng: rand.New(rand.NewPCG(seed, 0))} // #nosec G404 -- the same seed must play the same games
	for _, tenant := range tenants {
		numbers := &numbering{tenant: tenant, endless: endless, next: first[tenant]}
		for i := range games {
			t := &table{tenant: numbers}
			if i == 0 {
				t.endless = endless
			}
			s.tables = append(s.tables, t)
		}
	}
	return s
}

// next is the next step of some table. The tables are sat down at in order.
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

// modes by the number of the game after: g1 is classic, g2 golden, g3 blind.
var modes = []feed.Mode{feed.ModeGolden, feed.ModeBlind, feed.ModeClassic}

// sitDown starts a new game: the modes in turn, an endless game as a classic one, whose scores show from the start.
func (t *table) sitDown(rng *rand.Rand) {
	key, mode := feed.GameKey{Tenant: t.tenant.tenant, Game: t.endless}, feed.ModeClassic
	if t.endless == "" {
		key = t.tenant.key()
		mode = modes[t.tenant.next%len(modes)]
	}
	source := rand.NewPCG(rng.Uint64(), rng.Uint64())              // its own, so that a game does not depend on how tables interleave
	t.game = newGame(rand.New(source), key, mode, t.endless != "") // #nosec G404 -- as above
}
