package render

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAFaultThatComesAndGoesIsTwoLinesAMinuteAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		o := recurring{log: slog.New(slog.NewTextHandler(&said, nil)), bad: "away", good: "back"}
		o.over() // nothing was wrong
		for range 1000 {
			o.failed(errors.New("no route"))
			o.over()
		}
		time.Sleep(recurringPause)
		o.failed(errors.New("no route"))
		o.over()
		var got []string
		for line := range strings.Lines(said.String()) {
			_, line, _ = strings.Cut(strings.TrimSpace(line), " ")
			got = append(got, line)
		}
		want := []string{`level=WARN msg=away err="no route"`, "level=INFO msg=back", `level=WARN msg=away err="no route" repeated=999`, "level=INFO msg=back"}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("it says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}
