package timeline

import (
	"context"
	"slices"
	"sync"

	"github.com/codemojex/feedrenderer/feed"
)

// claimant is who connections are shared among: a tenant, and a tenant's costly reads by themselves, so that they leave
// room for its watchers too.
type claimant struct {
	tenant feed.TenantID
	costly bool // walks or counts as many lines as a game has
}

// turns shares the connections of a pool among claimants. One may take another connection while it holds fewer than are
// free: alone it has half of them, and however many it wants and however slow its reads are, whoever comes with less
// finds one.
type turns struct {
	mu      sync.Mutex // guards all that follows
	free    int        // connections that nobody holds
	held    map[claimant]int
	waiting map[claimant][]turn // in the order in which they came
	came    int                 // counts those who waited
}

type turn struct {
	came  int
	begin chan struct{} // closed when it is theirs
}

func newTurns(connections int) *turns {
	return &turns{free: connections, held: map[claimant]int{}, waiting: map[claimant][]turn{}}
}

// take waits for a connection's turn; give is to be called after it once. It fails where the context ends before.
func (t *turns) take(ctx context.Context, who claimant) error {
	t.mu.Lock()
	if len(t.waiting[who]) == 0 && t.may(who) {
		t.hold(who)
		t.mu.Unlock()
		return nil
	}
	t.came++
	mine := turn{t.came, make(chan struct{})}
	t.waiting[who] = append(t.waiting[who], mine)
	t.mu.Unlock()
	select {
	case <-mine.begin:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.drop(who, mine) { // it began meanwhile
		t.putBack(who)
	}
	return ctx.Err()
}

func (t *turns) give(who claimant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.putBack(who)
}

func (t *turns) may(who claimant) bool { return t.held[who] < t.free }

func (t *turns) hold(who claimant) {
	t.free--
	t.held[who]++
}

// putBack frees a connection and lets begin who may, the one that came first before others.
func (t *turns) putBack(who claimant) {
	t.free++
	if t.held[who]--; t.held[who] == 0 {
		delete(t.held, who)
	}
	for {
		var next claimant
		found := false
		for each, list := range t.waiting {
			if t.may(each) && (!found || list[0].came < t.waiting[next][0].came) {
				next, found = each, true
			}
		}
		if !found {
			return
		}
		first := t.waiting[next][0]
		t.drop(next, first)
		t.hold(next)
		close(first.begin)
	}
}

// drop takes one who waits out of the queue; false where it is not there any more.
func (t *turns) drop(who claimant, gone turn) bool {
	list := t.waiting[who]
	at := slices.Index(list, gone)
	if at < 0 {
		return false
	}
	if list = slices.Delete(list, at, at+1); len(list) == 0 {
		delete(t.waiting, who)
	} else {
		t.waiting[who] = list
	}
	return true
}
