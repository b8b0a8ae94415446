package consumertest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/codemojex/feedrenderer/consumer"
	"github.com/codemojex/feedrenderer/consumer/consumertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

func TestTrialGoesOnUntilAllIsSettledOrBuried(t *testing.T) {
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
	trial := consumertest.Trial{MaxAttempts: 3}
	out := trial.Run(t.Context(), handler, consumertest.Entry(1), consumertest.Entry(2, "bad", "1"))
	if ids(out.Settled) != "1-0x2 " || ids(out.Buried) != "2-0x3 " || len(out.Retried) != 0 || out.Failed != "" || calls != 3 {
		t.Errorf("got %+v after %d calls", out, calls)
	}
	if out.Reasons["2-0"] != "sorry" || len(out.Reasons) != 1 {
		t.Errorf("reasons %v", out.Reasons)
	}
	out = trial.Run(t.Context(), func(_ context.Context, batch []consumer.Message) []consumer.Verdict {
		return []consumer.Verdict{consumer.Unavailable(errors.New("down"))}
	}, consumertest.Entry(1))
	if ids(out.Retried) != "1-0x1 " {
		t.Errorf("an outage: %+v", out)
	}
}

func TestTrialFailsTheNthCommand(t *testing.T) {
	t.Parallel()
	handler := consumer.Each(func(_ context.Context, m consumer.Message) consumer.Verdict {
		switch do, _ := m.Fields.Get("do"); {
		case do == "retry" && m.Attempts == 1:
			return consumer.Retry(0, errors.New("sorry"))
		case do == "reject":
			return consumer.Reject("bad")
		}
		return consumer.Ack()
	})
	batch := []consumer.Message{consumertest.Entry(1), consumertest.Entry(2, "do", "retry"), consumertest.Entry(3, "do", "reject")}
	for _, c := range []struct {
		trial                   consumertest.Trial
		failed, settled, buried string
	}{
		{consumertest.Trial{}, "", "1-0x1 2-0x2 ", "3-0x1 "},
		{consumertest.Trial{Fail: 1}, "read", "1-0x1 2-0x2 ", "3-0x1 "},
		{consumertest.Trial{Fail: 1, ReplyLost: true}, "read", "1-0x2 2-0x2 ", "3-0x2 "},
		{consumertest.Trial{Fail: 2}, "ack", "1-0x2 2-0x2 ", "3-0x2 "},
		{consumertest.Trial{Fail: 2, ReplyLost: true}, "ack", "1-0x1 2-0x2 ", "3-0x2 "},
		{consumertest.Trial{Fail: 3}, "delay", "1-0x1 2-0x2 ", "3-0x2 "},
		{consumertest.Trial{Fail: 4}, "bury", "1-0x1 2-0x2 ", "3-0x2 "},
		{consumertest.Trial{Fail: 4, ReplyLost: true}, "bury", "1-0x1 2-0x2 ", "3-0x1 "},
		{consumertest.Trial{Fail: 5}, "claim", "1-0x1 2-0x2 ", "3-0x1 "},
		{consumertest.Trial{Fail: 5, ReplyLost: true}, "claim", "1-0x1 2-0x3 ", "3-0x1 "},
		{consumertest.Trial{Fail: 6}, "ack", "1-0x1 2-0x3 ", "3-0x1 "},
		{consumertest.Trial{Fail: 7}, "", "1-0x1 2-0x2 ", "3-0x1 "},
	} {
		out := c.trial.Run(t.Context(), handler, batch...)
		if out.Failed != c.failed || ids(out.Settled) != c.settled || ids(out.Buried) != c.buried || len(out.Retried)+len(out.Held) != 0 {
			t.Errorf("%+v: %+v", c.trial, out)
		}
	}
}

func TestTrialBuriesWithoutTheHandlerWhatItsLastChanceKilled(t *testing.T) {
	t.Parallel()
	left := consumertest.Entry(1)
	left.Attempts = 6
	out := consumertest.Trial{}.Run(t.Context(), func(context.Context, []consumer.Message) []consumer.Verdict {
		t.Error("handled")
		return nil
	}, left)
	if ids(out.Buried) != "1-0x6 " || out.Reasons["1-0"] != "never settled" {
		t.Errorf("got %+v", out)
	}
}

// A handler that is safe to repeat has one effect an entry, whichever command fails.
func ExampleTrial() {
	for n := 1; ; n++ {
		charged := map[string]int{} // by entry id, as a unique index would have it
		out := consumertest.Trial{Fail: n, ReplyLost: true}.Run(context.Background(),
			consumer.Each(func(_ context.Context, m consumer.Message) consumer.Verdict {
				charged[m.EntryID] = 1
				return consumer.Ack()
			}), consumertest.Entry(1), consumertest.Entry(2))
		if out.Failed == "" {
			break
		}
		fmt.Printf("%s fails: %d charged, %d settled\n", out.Failed, len(charged), len(out.Settled))
	}
	// Output:
	// read fails: 2 charged, 2 settled
	// ack fails: 2 charged, 2 settled
}
