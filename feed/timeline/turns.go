package timeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/codemojex/feedrenderer/feed"
)

// ErrBusy is wrapped, with the error of the context, where the time of a read was over that had to wait, maybe all of it,
// for others of its tenant, which hold its share of the connections. The store answered meanwhile.
var ErrBusy = errors.New("reads of the tenant hold its share of the connections")

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
	answers int                 // counts what the store answered
}

// turn is one that was waited for, or the zero one.
type turn struct {
	came    int
	behind  bool          // others of the same claimant, when it came
	answers int           // until it came
	begin   chan struct{} // closed when it is theirs
}

func newTurns(connections int) *turns {
	return &turns{free: connections, held: map[claimant]int{}, waiting: map[claimant][]turn{}}
}

// take waits for a connection's turn; give is to be called after it once. It fails where the context ends before.
func (t *turns) take(ctx context.Context, who claimant) (turn, error) {
	t.mu.Lock()
	if len(t.waiting[who]) == 0 && t.may(who) {
		t.hold(who)
		t.mu.Unlock()
		return turn{}, nil
	}
	t.came++
	mine := turn{t.came, t.held[who] > 0, t.answers, make(chan struct{})}
	t.waiting[who] = append(t.waiting[who], mine)
	t.mu.Unlock()
	select {
	case <-mine.begin:
	case <-ctx.Done():
	}
	if ctx.Err() == nil {
		return mine, nil
	}
	t.mu.Lock()
	if !t.drop(who, mine) { // it began meanwhile
		t.putBack(who)
	}
	t.mu.Unlock()
	return turn{}, t.late(mine, ctx.Err())
}

// late says of a read whose time is over whether it had to wait for others of its tenant.
func (t *turns) late(read turn, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil && read.behind && t.answers > read.answers {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return err
}

func (t *turns) give(who claimant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.putBack(who)
}

// saw takes the error of any query, nil where it has none: whoever waits is to know whether the store is there.
func (t *turns) saw(err error) {
	if Unavailable(err) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answers++
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
