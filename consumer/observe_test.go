package consumer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/consumer"
)

// A group is looked at without a consumer that runs: that is when it matters most.
func TestObserver(t *testing.T) {
	t.Parallel()
	look := func(r *rig, streams ...string) consumer.Health {
		r.t.Helper()
		ctx, cancel := bounded()
		defer cancel()
		h, err := consumer.NewObserver(r.client, r.config()).Health(ctx, streams...)
		if err != nil {
			r.t.Fatal(err)
		}
		return h
	}
	old := func(r *rig, n int) {
		r.t.Helper()
		for i := range n {
			r.must("XADD", r.stream, fmt.Sprintf("%d-%d", time.Now().Add(-time.Hour).UnixMilli(), i), "n", "1")
		}
	}

	t.Run("SeesOrphansOfDeadNamesThoughNobodyRunsAndTheLivingOnceTheyHaveThem", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.group()
		old(r, 952)
		for i := range 17 {
			r.readAs(fmt.Sprintf("ghost-%d", i), 56)
		}
		h := look(r, r.stream)
		st := h.Streams[0]
		if !h.Degraded || len(h.Reasons) != 1 || !st.Degraded || st.Pending != 952 || st.OldestAge < time.Hour || len(st.Dead()) != 17 || !st.LagKnown || st.Lag != 0 || st.Unread != 0 || st.NoGroup {
			t.Errorf("health %+v", h)
		}
		c := r.start(minIdleOf(minIdle))
		eventually(t, func() bool { return c.Stats().Acked == 952 && len(r.pending()) == 0 }, "they are handled")
		if h, err := c.Health(t.Context()); err != nil || h.Degraded || h.Name != "a" {
			t.Errorf("the consumer says %+v, %v", h, err)
		}
		st = look(r, r.stream).Streams[0]
		if i := slices.IndexFunc(st.Consumers, func(c consumer.ConsumerHealth) bool { return c.Name == "a" }); i < 0 || !st.Consumers[i].Alive || st.Degraded || st.Pending != 0 || len(st.Dead()) != 17 {
			t.Errorf("health %+v", st)
		}
	})

	t.Run("SeesWhatWasNeverRead", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		old(r, 3)
		if st := look(r, r.stream).Streams[0]; !st.NoGroup || !st.Degraded || st.Unread < time.Hour || st.LagKnown || st.Length != 3 {
			t.Errorf("without a group: %+v", st)
		}
		r.group()
		if st := look(r, r.stream).Streams[0]; st.NoGroup || !st.Degraded || st.Unread < time.Hour {
			t.Errorf("with nothing read: %+v", st)
		}
		r.readAs("b", 1)
		h := look(r, r.stream)
		if st := h.Streams[0]; st.Unread < time.Hour || !st.Degraded || len(h.Reasons) != 2 {
			t.Errorf("with one read: %+v", h)
		}
		r.readAs("b", 2)
		if st := look(r, r.stream).Streams[0]; st.Unread != 0 || st.Pending != 3 {
			t.Errorf("with all read: %+v", st)
		}
	})

	t.Run("SeesManyStreamsAtOnceWithThoseThatAreNoneOrNotThere", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.must("SET", r.stream+":text", "x")
		streams := []string{r.stream + ":none", r.stream + ":text"}
		for i := range 200 {
			key := fmt.Sprint(r.stream, ":", i)
			r.must("XGROUP", "CREATE", key, "g", "0", "MKSTREAM")
			r.must("XADD", key, "1-1", "n", "1")
			r.must("XADD", key, "2-1", "n", "1")
			r.must("XREADGROUP", "GROUP", "g", "ghost", "COUNT", "1", "STREAMS", key, ">")
			streams = append(streams, key)
		}
		h := look(r, streams...)
		if len(h.Streams) != len(streams) {
			t.Fatalf("%d streams", len(h.Streams))
		}
		for i, st := range h.Streams {
			switch {
			case st.Stream != streams[i]:
				t.Errorf("%s where %s belongs", st.Stream, streams[i])
			case i == 1 && !strings.Contains(st.Fault, "not a stream"), i != 1 && st.Fault != "":
				t.Errorf("%s: fault %q", st.Stream, st.Fault)
			case i > 1 && (st.Pending != 1 || st.Unread == 0 || !st.Degraded), i < 2 && (st.Degraded || st.NoGroup):
				t.Errorf("%+v", st)
			}
		}
	})
}
