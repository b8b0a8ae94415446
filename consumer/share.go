package consumer

import "slices"

// share is the streams that count as one where room and the handler's turns are shared out, with what a partition holds
// of them. The partition's mutex guards it.
type share struct {
	name    string
	streams int // of the partition
	piles   [2]pile

	// For the reader that plans, while it does:
	more bool      // a stream of it is known to have more
	hot  []*stream // those
	rest int       // how many there are beside those
}

// pile is what a share has in one lane.
type pile struct {
	queue
	used   int  // entries queued, in the handler, or asked for by a read under way
	asked  int  // the last of these
	listed bool // takes turns
}

// line is one lane of a partition: the piles of it take turns in the handler. One that begins to wait comes before those
// that have waited since their last turn, so who has little to do is hardly ever behind more than the batch that runs. It
// stays listed until a turn finds it empty: nobody comes first twice in a row.
type line struct {
	limit  int // most entries of it
	used   int // the sum over its piles
	fresh  []*pile
	others []*pile
}

func (l *line) list(p *pile) {
	if !p.listed {
		p.listed = true
		l.fresh = append(l.fresh, p)
	}
}

// waiting says whether an entry waits. It drops piles that are empty when their turn comes.
func (l *line) waiting() bool {
	for _, list := range []*[]*pile{&l.fresh, &l.others} {
		for len(*list) > 0 {
			if (*list)[0].waiting() {
				return true
			}
			(*list)[0].listed = false
			*list = (*list)[1:]
		}
	}
	return false
}

// deal takes a batch of at most size entries, where one waits. All piles give an equal part; then the one whose turn it is
// gives what it has, and the others as much as that one, while there is space. So who has little waits for no batch that is
// full of another's, and in its turn for no large one. A suspect goes alone.
func (l *line) deal(size int) []*entry {
	list := slices.Concat(l.fresh, l.others)
	first, list := list[0], list[1:]
	most := min(size, first.len())
	part := min(most, max(1, size/(len(list)+1)))
	batch := make([]*entry, 0, most)
	give := func(p *pile, n int) { batch = p.take(batch, min(n, size-len(batch))) }
	full := func() bool { return len(batch) == size || batch[0].suspect }
	give(first, part)
	dealt := 0
	for ; dealt < len(list) && !full(); dealt++ {
		give(list[dealt], part)
	}
	if !full() {
		give(first, most-part)
		for _, p := range list {
			give(p, most-part)
		}
	}
	fresh := max(0, len(l.fresh)-1) // of the list
	l.fresh = list[min(dealt, fresh):fresh:fresh]
	l.others = slices.Concat(list[max(dealt, fresh):], list[:dealt], []*pile{first})
	return batch
}

// take moves up to n entries of the pile to the end of a batch: a suspect alone, others up to the next suspect.
func (p *pile) take(batch []*entry, n int) []*entry {
	for ; n > 0 && p.waiting(); n-- {
		e := p.first()
		if e.suspect && len(batch) > 0 {
			break
		}
		p.pop()
		batch = append(batch, e)
		if e.suspect {
			break
		}
	}
	return batch
}

// queue is a first-in first-out list of entries. Entries that are no longer queued in it are passed over.
type queue struct {
	items []*entry
	head  int
}

func (q *queue) push(e *entry) { q.items = append(q.items, e) }

// unshift puts an entry in front.
func (q *queue) unshift(e *entry) {
	if q.head == 0 {
		q.items = slices.Insert(q.items, 0, e)
		return
	}
	q.head--
	q.items[q.head] = e
}

// len is an upper bound.
func (q *queue) len() int { return len(q.items) - q.head }

func (q *queue) first() *entry { return q.items[q.head] }

func (q *queue) pop() {
	q.items[q.head] = nil
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	} else if q.head > 1024 && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
}

// waiting drops what is gone from the front and says whether an entry waits.
func (q *queue) waiting() bool {
	for q.len() > 0 && q.first().state != stateQueued {
		q.pop()
	}
	return q.len() > 0
}
