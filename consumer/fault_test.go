package consumer_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/consumer"
)

// The commands that a fault may hit.
var faultCommands = map[string]func(cmd []string) bool{
	"Read":  func(cmd []string) bool { return cmd[0] == "XREADGROUP" && slices.Contains(cmd, ">") },
	"Claim": func(cmd []string) bool { return cmd[0] == "XAUTOCLAIM" },
	"Renew": func(cmd []string) bool { return script(cmd, "1") && len(cmd) > 8 && cmd[7] == "0" },
	"Ack":   func(cmd []string) bool { return cmd[0] == "XACK" },
	"Delay": func(cmd []string) bool { return script(cmd, "1") && len(cmd) > 8 && cmd[7] != "0" },
	"Bury":  func(cmd []string) bool { return script(cmd, "2") },
}

func script(cmd []string, keys string) bool {
	return strings.HasPrefix(cmd[0], "EVAL") && len(cmd) > 2 && cmd[2] == keys
}

// Each server command may not be carried out, or be carried out without our knowing. In the end each entry has had its one
// effect, whether the consumer goes on or another one takes its place.
func TestFaultTable(t *testing.T) {
	t.Parallel()
	for name, match := range faultCommands {
		for _, how := range []breakage{notExecuted, replyLost, replyCut} {
			for _, restart := range []bool{false, true} {
				after := "GoingOn"
				if restart {
					after = "Restarted"
				}
				t.Run(name+how.String()+after, func(t *testing.T) {
					t.Parallel()
					fault(t, match, how, restart)
				})
			}
		}
	}
}

func fault(t *testing.T, match func([]string) bool, how breakage, restart bool) {
	r := newRig(t)
	r.group()
	ids := r.addMany(20)
	r.readAs("dead", 5) // to claim
	ids = append(ids, r.add("bad", "1"), r.add("later", "1"))
	p := newProxy(t, r.url)
	p.breakNext(1, how, match)
	var s seen
	handle := each(func(ctx context.Context, m consumer.Message) consumer.Verdict {
		if _, bad := m.Fields.Get("bad"); bad {
			return consumer.Reject("bad")
		}
		if _, later := m.Fields.Get("later"); later && m.Attempts == 1 {
			return consumer.Retry(100*time.Millisecond, errSorry)
		}
		if n, _ := m.Fields.Get("n"); n == "10" && m.Attempts == 1 {
			select { // long enough for renewals
			case <-time.After(minIdle):
			case <-ctx.Done():
			}
		}
		s.note(m)
		return consumer.Ack()
	})
	through := func(cfg *consumer.Config) { cfg.Options, cfg.MinIdle = options(t, p.url), minIdle }
	c := r.start(handle, through)
	eventually(t, func() bool { return p.broken.Load() == 1 }, "the fault happens")
	if restart {
		c.stop()
		r.start(handle, named("b"), minIdleOf(minIdle))
	}
	eventually(t, func() bool {
		return len(r.pending()) == 0 && len(r.deadLetters()) == 1 && s.covers(ids, 1)
	}, "one effect each, nothing pending")
	if l := r.deadLetters(); len(l) != 1 || l[0].EntryID != ids[20] {
		t.Errorf("dead letters %+v", l)
	}
}

// covers: all but so many of the entries were handled to the end.
func (s *seen) covers(ids []string, but int) bool {
	got := map[string]bool{}
	for _, id := range s.ids() {
		got[id] = true
	}
	n := 0
	for _, id := range ids {
		if got[id] {
			n++
		}
	}
	return n == len(ids)-but
}

// An acknowledgement whose fate is unknown is sent again: the entry is not handled again.
func TestALostAcknowledgementIsSentAgain(t *testing.T) {
	t.Parallel()
	for _, how := range []breakage{notExecuted, replyLost, replyCut} {
		t.Run(how.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			p := newProxy(t, r.url)
			p.breakNext(3, how, faultCommands["Ack"])
			var s seen
			c := r.start(s.acking(), func(cfg *consumer.Config) { cfg.Options = options(t, p.url) })
			r.addMany(10)
			eventually(t, func() bool { return p.broken.Load() == 3 && len(r.pending()) == 0 }, "settled in the end")
			eventually(t, func() bool { st := c.Stats(); return st.Acked+st.AckedElsewhere == 10 }, "counted")
			if s.len() != 10 {
				t.Errorf("%d handled, want 10", s.len())
			}
		})
	}
}

// What a lost reply of a read held is read again at once, not after min-idle.
func TestALostReplyOfAReadIsReadAgainAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := newProxy(t, r.url)
	var s seen
	c := r.start(s.acking(), func(cfg *consumer.Config) {
		cfg.Options, cfg.MinIdle = options(t, p.url), time.Hour
	})
	r.add()
	eventually(t, func() bool { return s.len() == 1 }, "the first is handled")
	// A read that blocks is answered by the entry: its reply is the one that is lost.
	p.breakNext(1, replyLost, func(cmd []string) bool {
		return faultCommands["Read"](cmd) && slices.Contains(cmd, "BLOCK") && s.len() == 1
	})
	eventually(t, func() bool { return p.broken.Load() == 1 }, "a read is under way")
	id := r.add()
	r.settled(c, 2)
	if attempts, _ := s.of(id); len(attempts) != 1 || attempts[0] > 2 {
		t.Errorf("attempts %v", attempts)
	}
}
