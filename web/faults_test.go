package web

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFaultsThatRepeatAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		f := newFaults(slog.New(slog.NewTextHandler(&said, nil)))
		for range 1000 {
			f.warn("store away", "err", errors.New("no route"))
			f.say(slog.LevelError, "request failed")
		}
		time.Sleep(faultPause)
		f.warn("store away", "err", errors.New("no route"))
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		if len(lines) != 3 {
			t.Fatalf("%d lines:\n%s", len(lines), &said)
		}
		for i, want := range []string{`level=WARN msg="store away" err="no route"`, `level=ERROR msg="request failed"`, `level=WARN msg="store away" err="no route" repeated=999`} {
			if !strings.HasSuffix(lines[i], want) {
				t.Errorf("line %d is %s, want %s", i, lines[i], want)
			}
		}
	})
}
