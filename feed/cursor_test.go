package feed_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
)

func TestCursorsAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a:0", "7c-1-00000001:9223372036854775807", "E:12"} {
		if c, err := feed.ParseCursor(text); err != nil || c.String() != text {
			t.Errorf("%q reads as %v, %v", text, c, err)
		}
	}
}

func TestGarbageIsNoCursor(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", ":", "a", "a:", ":1", "a:-1", "a:+1", "a:01", "a:9223372036854775808", "a:1:2", "a b:1", "a\n:1", "é:1", strings.Repeat("a", 129) + ":1", "a:1 "} {
		if c, err := feed.ParseCursor(text); !errors.Is(err, feed.ErrBadCursor) {
			t.Errorf("%q reads as %v, %v", text, c, err)
		}
	}
}

func FuzzParseCursor(f *testing.F) {
	f.Add("abc:12")
	f.Add(":")
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := feed.ParseCursor(s); err == nil && c.String() != s {
			t.Fatalf("%q writes back as %q", s, c)
		}
	})
}

func TestInstantsAreUTCWithMilliseconds(t *testing.T) {
	t.Parallel()
	at := feed.Instant(time.Date(2026, 11, 30, 14, 0, 0, 5_000_000, time.FixedZone("", 3600)))
	if got := at.String(); got != "2026-11-30T13:00:00.005Z" {
		t.Errorf("written %s", got)
	}
	var back feed.Instant
	if err := back.UnmarshalText([]byte(at.String())); err != nil || !back.Time().Equal(at.Time()) {
		t.Errorf("read back %s, %v", back, err)
	}
}
