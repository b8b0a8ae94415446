// Package dedup is the rule that makes repetition and order harmless: a register is entered only by a strictly newer
// write. Whoever applies the same writes in any order and any number of times ends in the same state.
package dedup

import "cmp"

// Stamp says how new a write is: by the id of the event that wrote it, then by the version of the code that rendered
// it. Equal stamps carry equal values, so a tie is a repetition.
type Stamp struct {
	ID      int64
	Version int
}

// Newer reports whether s is strictly newer than t.
func (s Stamp) Newer(t Stamp) bool {
	return cmp.Or(cmp.Compare(s.ID, t.ID), cmp.Compare(s.Version, t.Version)) > 0
}

// Register holds the newest value offered to it. The zero Register is absent: any write enters it.
type Register[T any] struct {
	Stamp   Stamp
	Value   T
	Present bool
}

// Of is a register that holds a value.
func Of[T any](stamp Stamp, value T) Register[T] {
	return Register[T]{Stamp: stamp, Value: value, Present: true}
}

// Merge lets another register's value enter if it is newer, and reports whether it did.
func (r *Register[T]) Merge(other Register[T]) bool {
	if !other.Present || r.Present && !other.Stamp.Newer(r.Stamp) {
		return false
	}
	*r = other
	return true
}

// Row is all that a batch writes to one key: the newest of each of its two registers.
type Row[K comparable, A, B any] struct {
	Key    K
	First  Register[A]
	Second Register[B]
}

// Collapse makes one row for each key of a batch: a statement that upserts refuses a batch with the same key twice. Write
// gives what the i-th of n writes says; writes to one key follow each other, in any order.
func Collapse[K comparable, A, B any](n int, write func(i int) Row[K, A, B]) []Row[K, A, B] {
	rows := make([]Row[K, A, B], 0, n)
	for i := range n {
		row := write(i)
		if len(rows) == 0 || rows[len(rows)-1].Key != row.Key {
			rows = append(rows, row)
			continue
		}
		last := &rows[len(rows)-1]
		last.First.Merge(row.First)
		last.Second.Merge(row.Second)
	}
	return rows
}
