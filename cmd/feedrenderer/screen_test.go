package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
	"github.com/codemojex/feedrenderer/web"
)

// terminal opens a terminal of so many rows: what is written to the one file is read from the other.
func terminal(t *testing.T, rows uint16) (shown *output, tty *os.File) {
	t.Helper()
	keeper, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(keeper.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(keeper.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(keeper.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: 100}); err != nil {
		t.Fatal(err)
	}
	shown = &output{}
	read := make(chan struct{})
	go func() {
		defer close(read)
		buffer := make([]byte, 4096)
		for {
			n, err := keeper.Read(buffer)
			if _, _ = shown.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		if err := tty.Close(); err != nil {
			t.Error(err)
		}
		<-read // it ends with the last who may write
		if err := keeper.Close(); err != nil {
			t.Error(err)
		}
	})
	return shown, tty
}

func TestStatusWatch(t *testing.T) {
	t.Parallel()
	s := newSystem(t, serverstest.OwnValkey(t).URL)
	for i := range 8 {
		s.run("append", fmt.Sprintf("watched/g%d", i), "kind=notice")
	}
	watch := func(t *testing.T, out *os.File, into *output, enough func(string) bool, arguments ...string) {
		t.Helper()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended := make(chan error, 1)
		go func() {
			arguments, environ := append([]string{"status", "--watch"}, arguments...), []string{"VALKEY_URL=" + s.valkey}
			if out != nil {
				ended <- run(ctx, arguments, environ, out, t.Output())
			} else {
				ended <- run(ctx, arguments, environ, into, t.Output())
			}
		}()
		until(t, "it has looked twice", func() bool { return enough(into.String()) })
		stop()
		if err := <-ended; err != nil {
			t.Errorf("it ends with %v", err)
		}
	}

	t.Run("DrawsInPlaceInATerminalAndNeverScrollsIt", func(t *testing.T) {
		t.Parallel()
		shown, tty := terminal(t, 7)
		watch(t, tty, shown, func(text string) bool { return strings.Count(text, "\x1b[H") >= 2 && strings.HasSuffix(text, "\x1b[J") }, "watched")
		if text := shown.String(); strings.Count(text, "\x1b[2J") != 1 {
			t.Errorf("it is wiped more than once: %q", text)
		}
		for i, look := range strings.Split(shown.String(), "\x1b[H")[1:] {
			if n := strings.Count(look, "\n"); n != 6 || !strings.Contains(look, "watched/g1") || strings.Contains(look, "watched/g7") || !strings.Contains(look, "...") {
				t.Errorf("look %d has %d lines: %q", i, n, look)
			}
		}
	})

	t.Run("GoesOnBelowElsewhere", func(t *testing.T) {
		t.Parallel()
		var out output
		watch(t, nil, &out, func(text string) bool { return strings.Count(text, "group feedrenderer at") >= 2 }, "watched")
		if text := out.String(); strings.ContainsRune(text, '\x1b') || strings.Count(text, "watched/g7  ") != strings.Count(text, "group feedrenderer at") {
			t.Errorf("got %s", text)
		}
	})

	t.Run("GivesProgramsALineALook", func(t *testing.T) {
		t.Parallel()
		var out output
		watch(t, nil, &out, func(text string) bool { return strings.Count(text, "\n") >= 2 }, "--json")
		for line := range strings.Lines(out.String()) {
			var h web.GroupHealth
			if err := json.Unmarshal([]byte(line), &h); err != nil || len(h.Streams) != 8 {
				t.Errorf("%v: %s", err, line)
			}
		}
	})

	t.Run("SaysThatNothingCanBeSeenAndGoesOn", func(t *testing.T) {
		t.Parallel()
		var out output
		watch(t, nil, &out, func(text string) bool { return strings.Count(text, "nowhere/g1 has no stream") >= 2 }, "nowhere/g1")
	})
}
