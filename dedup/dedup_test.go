package dedup_test

import (
	"cmp"
	"slices"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/codemojex/feedrenderer/dedup"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAStampIsNewerByIdThenByVersion(t *testing.T) {
	t.Parallel()
	ascending := []dedup.Stamp{{ID: -1, Version: 9}, {ID: 0}, {ID: 0, Version: 1}, {ID: 1}, {ID: 1 << 62, Version: 0}}
	for i, s := range ascending {
		for j, other := range ascending {
			if got := s.Newer(other); got != (i > j) {
				t.Errorf("%v newer than %v: got %v", s, other, got)
			}
		}
	}
}

func TestRegister(t *testing.T) {
	t.Parallel()
	t.Run("TheFirstWriteEntersWhateverItsStamp", func(t *testing.T) {
		var r dedup.Register[string]
		if !r.Merge(dedup.Of(dedup.Stamp{ID: -5}, "a")) || r.Value != "a" {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("ATieIsStale", func(t *testing.T) {
		r := dedup.Of(dedup.Stamp{ID: 1, Version: 1}, "a")
		if r.Merge(dedup.Of(dedup.Stamp{ID: 1, Version: 1}, "b")) || r.Value != "a" {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("AnOlderWriteIsStale", func(t *testing.T) {
		r := dedup.Of(dedup.Stamp{ID: 2}, "a")
		if r.Merge(dedup.Of(dedup.Stamp{ID: 1, Version: 7}, "b")) || r.Value != "a" {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("AnAbsentRegisterChangesNothing", func(t *testing.T) {
		r := dedup.Of(dedup.Stamp{}, "a")
		if r.Merge(dedup.Register[string]{Stamp: dedup.Stamp{ID: 9}}) || r.Value != "a" {
			t.Errorf("got %+v", r)
		}
	})
}

// write is one write of a key to one of its two registers. Its value is a function of what identifies it, as the
// rendering of an event is.
type write struct {
	key    int
	second bool
	stamp  dedup.Stamp
}

type row = dedup.Row[int, write, write]

func (w write) row() row {
	r := row{Key: w.key}
	if w.second {
		r.Second = dedup.Of(w.stamp, w)
	} else {
		r.First = dedup.Of(w.stamp, w)
	}
	return r
}

// collapse puts writes to one key together, and leaves them in their order.
func collapse(writes []write) []row {
	writes = slices.Clone(writes)
	slices.SortStableFunc(writes, func(x, y write) int { return cmp.Compare(x.key, y.key) })
	return dedup.Collapse(len(writes), func(i int) row { return writes[i].row() })
}

func TestCollapseHoldsEachKeyOnce(t *testing.T) {
	t.Parallel()
	rows := collapse([]write{{key: 2}, {key: 1}, {key: 2, second: true}, {key: 2, stamp: dedup.Stamp{ID: 3}}, {key: 2, stamp: dedup.Stamp{ID: 1}}})
	if len(rows) != 2 || rows[0].Key != 1 || rows[1].Key != 2 {
		t.Fatalf("got %+v", rows)
	}
	if r := rows[1]; r.First.Stamp.ID != 3 || !r.Second.Present || rows[0].Second.Present {
		t.Errorf("got %+v", rows)
	}
}

func TestTheEndIsTheSameForEveryOrderRepetitionAndBatching(t *testing.T) {
	t.Parallel()
	one := rapid.Custom(func(t *rapid.T) write {
		return write{
			key: rapid.IntRange(0, 3).Draw(t, "key"), second: rapid.Bool().Draw(t, "second"),
			stamp: dedup.Stamp{ID: rapid.Int64Range(0, 5).Draw(t, "id"), Version: rapid.IntRange(0, 2).Draw(t, "version")},
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		writes := rapid.SliceOf(one).Draw(t, "writes")
		want := end(collapse(writes))

		again := append(slices.Clone(writes), rapid.SliceOf(rapid.SampledFrom(append(writes, write{}))).Draw(t, "repeats")...)
		again = slices.DeleteFunc(again, func(w write) bool { return !slices.Contains(writes, w) })
		shuffled := rapid.Permutation(again).Draw(t, "order")
		var batches []row
		for rest := shuffled; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "batch")
			batches = append(batches, collapse(rest[:n])...)
			rest = rest[n:]
		}
		got := end(batches)
		if len(got) != len(want) {
			t.Fatalf("got %d keys, want %d", len(got), len(want))
		}
		for key := range want {
			if got[key] != want[key] {
				t.Fatalf("key %d: got %+v, want %+v", key, got[key], want[key])
			}
		}
	})
}

// end is the state after rows were applied one after the other.
func end(rows []row) map[int]row {
	state := make(map[int]row)
	for _, r := range rows {
		held := state[r.Key]
		held.Key = r.Key
		held.First.Merge(r.First)
		held.Second.Merge(r.Second)
		state[r.Key] = held
	}
	return state
}
