package consumer_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/consumer"
)

// dated appends entries of the instants given, as ms of 2026 and the sequence 0, and returns their ids.
func (r *rig) dated(ms ...int) []string {
	r.t.Helper()
	ids := make([]string, len(ms))
	for i, at := range ms {
		ids[i] = strconv.FormatInt(inTrim(at).UnixMilli(), 10) + "-0"
		r.must("XADD", r.stream, ids[i], "n", strconv.Itoa(i))
	}
	return ids
}

func inTrim(ms int) time.Time { return time.UnixMilli(1_770_000_000_000 + int64(ms)) }

// trim removes what is settled and from before an instant, with a grace that does not pass in a test.
func (r *rig) trim(before int, change ...func(*consumer.TrimPolicy)) consumer.Trimmed {
	r.t.Helper()
	policy := consumer.TrimPolicy{Before: inTrim(before), Grace: time.Hour}
	for _, f := range change {
		f(&policy)
	}
	ctx, cancel := bounded()
	defer cancel()
	trimmed, err := consumer.Trim(ctx, r.client, r.stream, policy)
	if err != nil {
		r.t.Fatal(err)
	}
	return trimmed
}

func grace(d time.Duration) func(*consumer.TrimPolicy) {
	return func(p *consumer.TrimPolicy) { p.Grace = d }
}

// left lists the ids in the stream.
func (r *rig) left() []string {
	r.t.Helper()
	entries, err := r.do("XRANGE", r.stream, "-", "+").AsXRange()
	if err != nil {
		r.t.Fatal(err)
	}
	ids := make([]string, len(entries))
	for i := range entries {
		ids[i] = entries[i].ID
	}
	return ids
}

func (r *rig) read(group string, n int) {
	r.t.Helper()
	r.must("XREADGROUP", "GROUP", group, "c", "COUNT", strconv.Itoa(n), "STREAMS", r.stream, ">")
}

func (r *rig) ack(group string, ids ...string) {
	r.t.Helper()
	r.must(append([]string{"XACK", r.stream, group}, ids...)...)
}

func TestTrim(t *testing.T) {
	t.Parallel()
	// Ten entries, of ms 0 to 9, in a stream with the group "g" that has settled them all.
	ten := func(t *testing.T) (*rig, []string) {
		r := newRig(t)
		r.group()
		ids := r.dated(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
		r.read("g", 10)
		r.ack("g", ids...)
		return r, ids
	}
	expect := func(t *testing.T, r *rig, got consumer.Trimmed, removed int64, held string, left []string) {
		t.Helper()
		if got.Removed != removed || got.Held != held || len(got.Dead) > 0 {
			t.Errorf("got %+v, want %d removed and %q to hold", got, removed, held)
		}
		if ids := r.left(); !slices.Equal(ids, left) {
			t.Errorf("left %v, want %v", ids, left)
		}
	}

	t.Run("TheEntryAtTheBoundStays", func(t *testing.T) {
		t.Parallel()
		r, ids := ten(t)
		expect(t, r, r.trim(4), 4, "", ids[4:])
		r.must("XADD", r.stream, inTrimID(9, 1), "n", "10")
		expect(t, r, r.trim(9), 5, "", append(slices.Clone(ids[9:]), inTrimID(9, 1)))
	})
	t.Run("ASettledStreamMayBecomeEmptyAndKeepsItsGroups", func(t *testing.T) {
		t.Parallel()
		r, _ := ten(t)
		expect(t, r, r.trim(1000), 10, "", []string{})
		if n, err := r.do("XINFO", "GROUPS", r.stream).ToArray(); err != nil || len(n) != 1 {
			t.Errorf("groups: %v, %v", n, err)
		}
		next := r.dated(1001)
		r.read("g", 10)
		expect(t, r, r.trim(2000), 0, "g", next)
	})
	t.Run("APendingEntryInTheMiddleHoldsItselfAndAllBehindIt", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.group()
		ids := r.dated(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
		r.read("g", 10)
		r.ack("g", append(slices.Clone(ids[:3]), ids[4:]...)...)
		expect(t, r, r.trim(8), 3, "g", ids[3:])
		r.ack("g", ids[3])
		expect(t, r, r.trim(8), 5, "", ids[8:])
	})
	t.Run("AForeignGroupThatLagsHoldsWhatItWasNotGiven", func(t *testing.T) {
		t.Parallel()
		r, ids := ten(t)
		r.must("XGROUP", "CREATE", r.stream, "others", "0")
		r.read("others", 2)
		r.ack("others", ids[:2]...)
		expect(t, r, r.trim(8), 2, "others", ids[2:])
		r.read("others", 3)
		expect(t, r, r.trim(8), 0, "others", ids[2:])
		r.ack("others", ids[2:5]...)
		expect(t, r, r.trim(8), 3, "others", ids[5:])
	})
	t.Run("AGroupThatHasReadNothingHoldsEverything", func(t *testing.T) {
		t.Parallel()
		r, ids := ten(t)
		r.must("XGROUP", "CREATE", r.stream, "new", "0")
		expect(t, r, r.trim(1000), 0, "new", ids)
	})
	t.Run("ADeadGroupHoldsForTheGraceAndThenNoMore", func(t *testing.T) {
		t.Parallel()
		r, ids := ten(t)
		r.must("XGROUP", "CREATE", r.stream, "dead", "0")
		r.read("dead", 3)
		expect(t, r, r.trim(5, grace(time.Hour)), 0, "dead", ids)
		eventually(t, func() bool {
			got := r.trim(5, grace(50*time.Millisecond))
			return slices.Equal(got.Dead, []string{"dead"}) && got.Held == "" && len(r.left()) == 5
		}, "it holds nothing any more")
	})
	t.Run("AGroupWithoutConsumersHoldsForTheGraceFromWhenItWasSeen", func(t *testing.T) {
		t.Parallel()
		r, ids := ten(t)
		r.must("XGROUP", "CREATE", r.stream, "new", "0")
		expect(t, r, r.trim(5, grace(time.Millisecond)), 0, "new", ids)
		eventually(t, func() bool { return len(r.trim(5, grace(50*time.Millisecond)).Dead) == 1 && len(r.left()) == 5 }, "it holds nothing any more")

		// Read meanwhile, by somebody who leaves no name behind: the grace begins anew.
		r, ids = ten(t)
		r.must("XGROUP", "CREATE", r.stream, "new", "0")
		expect(t, r, r.trim(5), 0, "new", ids)
		r.read("new", 2)
		r.ack("new", ids[:2]...)
		r.must("XGROUP", "DELCONSUMER", r.stream, "new", "c")
		eventually(t, func() bool { return r.idleOf("new") >= 20*time.Millisecond }, "its mark is old")
		expect(t, r, r.trim(5, grace(20*time.Millisecond)), 2, "new", ids[2:])
	})
	t.Run("TheNeededGroupIsNeverDeadAndMustBeThere", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		ids := r.dated(0, 1, 2, 3, 4)
		needs := func(p *consumer.TrimPolicy) { p.Needs, p.Grace = "g", time.Millisecond }
		expect(t, r, r.trim(1000, needs), 0, "g", ids)
		r.group()
		r.read("g", 2)
		eventually(t, func() bool { return r.idleOf("g") >= 10*time.Millisecond }, "it is silent")
		expect(t, r, r.trim(1000, needs), 0, "g", ids)
		r.ack("g", ids[:2]...)
		expect(t, r, r.trim(1000, needs), 2, "g", ids[2:])
	})
	t.Run("IdsAreNumbersHoweverLong", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.group()
		ids := []string{"9-18446744073709551614", "9-18446744073709551615", "10-9", "10-10"}
		for _, id := range ids {
			r.must("XADD", r.stream, id, "n", "1")
		}
		r.read("g", 4)
		r.ack("g", ids[0], ids[2], ids[3])
		expect(t, r, r.trim(0), 1, "g", ids[1:])
		r.ack("g", ids[1])
		r.must("XADD", r.stream, "11-0", "n", "1")
		expect(t, r, r.trim(0), 3, "g", []string{"11-0"})
	})
	t.Run("ALongStreamGoesInSteps", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.group()
		const n = 25_050
		var adds []valkey.Completed
		for i := range n {
			adds = append(adds, r.client.B().Xadd().Key(r.stream).Id(inTrimID(i, 0)).FieldValue().FieldValue("n", "1").Build())
		}
		ctx, cancel := bounded()
		defer cancel()
		for _, res := range r.client.DoMulti(ctx, adds...) {
			if err := res.Error(); err != nil {
				t.Fatal(err)
			}
		}
		r.must("XGROUP", "SETID", r.stream, "g", "$")
		if got, left := r.trim(n-30), r.left(); got.Removed != n-30 || len(left) != 30 || left[0] != inTrimID(n-30, 0) {
			t.Errorf("got %+v, %d are left", got, len(left))
		}
	})
	t.Run("AKeyOfAnotherTypeIsLoudAndNoKeyIsNothing", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		got := r.trim(1000)
		there, err := r.do("EXISTS", r.stream).AsInt64()
		if got.Removed != 0 || err != nil || there != 0 {
			t.Errorf("got %+v; keys: %d, %v", got, there, err)
		}
		r.must("SET", r.stream, "x")
		if _, err := consumer.Trim(t.Context(), r.client, r.stream, consumer.TrimPolicy{Before: inTrim(9)}); !errors.Is(err, consumer.ErrNotStream) {
			t.Errorf("got %v", err)
		}
	})
}

// idleOf is how long the consumers of a group have been silent, the youngest of them.
func (r *rig) idleOf(group string) time.Duration {
	r.t.Helper()
	rows, err := r.do("XINFO", "CONSUMERS", r.stream, group).ToArray()
	if err != nil {
		r.t.Fatal(err)
	}
	youngest := time.Duration(-1)
	for i := range rows {
		row, err := rows[i].AsMap()
		if err != nil {
			r.t.Fatal(err)
		}
		idle := row["idle"]
		ms, err := idle.AsInt64()
		if err != nil {
			r.t.Fatal(err)
		}
		if d := time.Duration(ms) * time.Millisecond; youngest < 0 || d < youngest {
			youngest = d
		}
	}
	return youngest
}

func inTrimID(ms, seq int) string {
	return fmt.Sprintf("%d-%d", inTrim(ms).UnixMilli(), seq)
}

// Whatever was read and settled by whom, after each trimming every entry is there that some group has not settled, and
// none that all have and that is old enough, up to the first that stays.
func TestTrimRemovesExactlyWhatAllHaveSettled(t *testing.T) {
	t.Parallel()
	const entries, groups = 40, 3
	for round := range 30 {
		random := rand.New(rand.NewPCG(8, uint64(round))) //nolint:gosec // no secret
		r := newRig(t)
		at := make([]int, entries)
		for i := range at {
			at[i] = i
		}
		ids := r.dated(at...)
		settled := make([]map[string]bool, groups)
		given := make([]int, groups)
		for g := range groups {
			settled[g] = map[string]bool{}
			r.must("XGROUP", "CREATE", r.stream, fmt.Sprint("g", g), "0")
		}
		for range 12 {
			g := random.IntN(groups)
			name := fmt.Sprint("g", g)
			n := 1 + random.IntN(12)
			r.read(name, n)
			given[g] = min(entries, given[g]+n)
			for _, id := range ids[:given[g]] {
				if random.IntN(3) > 0 {
					settled[g][id] = true
					r.ack(name, id)
				}
			}
			before := random.IntN(entries)
			r.trim(before)
			first := slices.IndexFunc(ids, func(id string) bool {
				return slices.ContainsFunc(settled, func(s map[string]bool) bool { return !s[id] })
			})
			if first < 0 {
				first = entries
			}
			left := r.left()
			must := ids[first:]
			if len(left) < len(must) || !slices.Equal(left[len(left)-len(must):], must) {
				t.Fatalf("round %d: left %v, and %v is not settled", round, left, must)
			}
			if lowest := min(first, before); len(left) > 0 && slices.Index(ids, left[0]) < lowest {
				t.Fatalf("round %d: %s is left though all is settled before %s", round, left[0], ids[lowest])
			}
		}
	}
}

// The script on the other kind of server, and over the older protocol.
func TestTrimOnRedis(t *testing.T) {
	t.Parallel()
	opt := startNode(t, "redis-server", nil).opt
	opt.AlwaysRESP2, opt.ForceSingleClient, opt.DisableCache = true, true, true
	client, err := valkey.NewClient(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	r := rigWith(t, opt)
	r.client = client
	r.group()
	ids := r.dated(0, 1, 2, 3, 4)
	r.read("g", 5)
	r.ack("g", ids[0], ids[1], ids[3])
	if got := r.trim(4); got.Removed != 2 || got.Held != "g" || !slices.Equal(r.left(), ids[2:]) {
		t.Errorf("got %+v, left %v", got, r.left())
	}
	r.ack("g", ids[2], ids[4])
	r.must("XGROUP", "CREATE", r.stream, "new", "0")
	if got := r.trim(4, grace(time.Millisecond)); got.Removed != 0 || got.Held != "new" {
		t.Errorf("got %+v", got)
	}
	eventually(t, func() bool {
		return slices.Equal(r.trim(4, grace(20*time.Millisecond)).Dead, []string{"new"}) && slices.Equal(r.left(), ids[4:])
	}, "it holds nothing any more")
}
