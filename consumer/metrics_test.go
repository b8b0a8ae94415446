package consumer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestCollectors(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.must("XADD", r.stream, "1-1", "n", "1")
	r.group()
	r.readAs("ghost", 1)
	r.age([]string{"1-1"}, 2*time.Hour)
	c := r.start()
	eventually(t, func() bool { return c.Stats().Acked == 1 }, "the orphan is handled")

	t.Run("SayWhatTheConsumerDid", func(t *testing.T) {
		want := `
			# HELP consumer_streams Streams that are read.
			# TYPE consumer_streams gauge
			consumer_streams{group="` + r.config().Group + `"} 1
			# HELP consumer_unreadable_streams Of those, streams that cannot be read: their keys hold something else.
			# TYPE consumer_unreadable_streams gauge
			consumer_unreadable_streams{group="` + r.config().Group + `"} 0
		`
		if err := testutil.CollectAndCompare(c.Collector(), strings.NewReader(want), "consumer_streams", "consumer_unreadable_streams"); err != nil {
			t.Error(err)
		}
	})
	t.Run("SayHowTheGroupStands", func(t *testing.T) {
		labels := `group="` + r.config().Group + `",`
		stream := `stream="` + r.stream + `"`
		want := `
			# HELP consumer_stream_consumers Names in the group that a running consumer holds (alive) and that none does (dead).
			# TYPE consumer_stream_consumers gauge
			consumer_stream_consumers{` + labels + `state="alive",` + stream + `} 1
			consumer_stream_consumers{` + labels + `state="dead",` + stream + `} 1
			# HELP consumer_stream_pending_entries Entries delivered and not settled.
			# TYPE consumer_stream_pending_entries gauge
			consumer_stream_pending_entries{` + labels + stream + `} 0
		`
		if err := testutil.CollectAndCompare(c.HealthCollector(), strings.NewReader(want), "consumer_stream_consumers", "consumer_stream_pending_entries"); err != nil {
			t.Error(err)
		}
	})
	t.Run("KeepToTheConventions", func(t *testing.T) {
		for _, collector := range []prometheus.Collector{c.Collector(), c.HealthCollector()} {
			if problems, err := testutil.CollectAndLint(collector); err != nil || len(problems) > 0 {
				t.Errorf("%v %v", problems, err)
			}
		}
	})
}
