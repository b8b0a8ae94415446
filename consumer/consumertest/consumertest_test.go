package consumertest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/codemojex/feedrenderer/consumer"
	"github.com/codemojex/feedrenderer/consumer/consumertest"
)

func ids(list []consumer.Message) string {
	var out string
	for _, m := range list {
		out += fmt.Sprint(m.EntryID, "x", m.Attempts, " ")
	}
	return out
}

func TestOnceSortsABatchByItsVerdicts(t *testing.T) {
	t.Parallel()
	handler := consumer.Each(func(_ context.Context, m consumer.Message) consumer.Verdict {
		switch do, _ := m.Fields.Get("do"); do {
		case "retry":
			return consumer.Retry(0, errors.New("sorry"))
		case "reject":
			return consumer.Reject("bad")
		case "down":
			return consumer.Unavailable(errors.New("down"))
		case "panic":
			panic("help")
		}
		return consumer.Ack()
	})
	out := consumertest.Once(t.Context(), handler, 0, consumertest.Entry(1), consumertest.Entry(2, "do", "retry"),
		consumertest.Entry(3, "do", "reject"), consumertest.Entry(4, "do", "down"), consumertest.Entry(5, "do", "panic"))
	for _, c := range []struct{ what, got, want string }{
		{"settled", ids(out.Settled), "1-0x1 "},
		{"retried", ids(out.Retried), "2-0x2 5-0x2 "},
		{"buried", ids(out.Buried), "3-0x1 "},
		{"held", ids(out.Held), "4-0x1 "},
		{"reason", out.Reasons["3-0"], "bad"},
		{"panic", out.Reasons["5-0"], "handler panicked: help"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.what, c.got, c.want)
		}
	}
}

func TestRunGoesOnUntilAllIsSettledOrBuried(t *testing.T) {
	t.Parallel()
	calls := 0
	handler := func(_ context.Context, batch []consumer.Message) []consumer.Verdict {
		calls++
		out := make([]consumer.Verdict, len(batch))
		for i, m := range batch {
			_, bad := m.Fields.Get("bad")
			switch {
			case bad, m.Attempts < 2:
				out[i] = consumer.Retry(0, errors.New("sorry"))
			default:
				out[i] = consumer.Ack()
			}
		}
		return out
	}
	out := consumertest.Run(t.Context(), handler, 3, 10, consumertest.Entry(1), consumertest.Entry(2, "bad", "1"))
	if ids(out.Settled) != "1-0x2 " || ids(out.Buried) != "2-0x3 " || out.Exhausted || calls != 3 {
		t.Errorf("got %+v after %d calls", out, calls)
	}
	out = consumertest.Run(t.Context(), func(_ context.Context, batch []consumer.Message) []consumer.Verdict {
		return []consumer.Verdict{consumer.Unavailable(errors.New("down"))}
	}, 3, 10, consumertest.Entry(1))
	if !out.Exhausted || len(out.Retried) != 1 || out.Retried[0].Attempts != 1 {
		t.Errorf("an outage: %+v", out)
	}
}
