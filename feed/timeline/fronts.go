package timeline

import (
	"sync"

	"github.com/codemojex/feedrenderer/feed"
)

// fronts says how far the games have come of which all was new that a writer wrote last. What is beyond the front of its game
// is likely new as well; whether it is, the table knows.
type fronts struct {
	mu sync.Mutex
	of map[feed.GameKey]feed.ID // highest id of a line
}

// maxFronts is what is remembered at most, some 100 bytes each; then all are forgotten.
const maxFronts = 1 << 17

// divide tells inputs of which all of a game open lines beyond its front, and do nothing else, from the others.
func (f *fronts) divide(lines []feed.Line, inputs []int) (ahead, others []int) {
	verdicts := make(map[feed.GameKey]bool, len(inputs))
	f.mu.Lock()
	for _, i := range inputs {
		line := &lines[i]
		verdict, seen := verdicts[line.Game]
		if seen && !verdict {
			continue
		}
		front, known := f.of[line.Game]
		verdicts[line.Game] = known && line.Base != nil && len(line.Sets) == 0 && line.Evt > front
	}
	f.mu.Unlock()
	ahead = make([]int, 0, len(inputs))
	for _, i := range inputs {
		if verdicts[lines[i].Game] {
			ahead = append(ahead, i)
		} else {
			others = append(others, i)
		}
	}
	return ahead, others
}

// appended moves the fronts of the games of a batch of which every line was new.
func (f *fronts) appended(b *batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, key := range b.keys {
		rows := b.rowsOf(i)
		f.move(key, rows[len(rows)-1].Key.evt)
	}
}

// stored moves the fronts of games to which a batch brought nothing but news, and forgets those to which it brought less.
func (f *fronts) stored(b *batch, changes []feed.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range changes {
		rows := b.rowsOf(i)
		switch opens, opened := opensOf(rows, &changes[i]); {
		case opened < opens || changes[i].To == changes[i].From:
			delete(f.of, b.keys[i])
		case opens > 0:
			f.move(b.keys[i], rows[len(rows)-1].Key.evt)
		}
	}
}

// opensOf counts the bases among the rows of a game, and those of them that changed it.
func opensOf(rows []row, change *feed.Change) (opens, opened int) {
	for i := range rows {
		if rows[i].First.Present {
			opens++
		}
	}
	for i := range change.Lines {
		if rows[change.Lines[i].Ver-change.From-1].First.Present {
			opened++
		}
	}
	return opens, opened
}

func (f *fronts) forget(games ...feed.GameKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, game := range games {
		delete(f.of, game)
	}
}

// move takes a game's front to a line, or leaves it where it is farther. The mutex is held.
func (f *fronts) move(game feed.GameKey, evt feed.ID) {
	if f.of == nil || len(f.of) >= maxFronts {
		f.of = make(map[feed.GameKey]feed.ID)
	}
	if front, known := f.of[game]; !known || evt > front {
		f.of[game] = evt
	}
}
