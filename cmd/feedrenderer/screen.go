package main

import (
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// screen shows one text after another: in a terminal each in the place of the one before, elsewhere one below the other.
type screen struct {
	out   io.Writer
	shown bool
}

// rows is how many lines a terminal has; false where it is none.
func rows(out io.Writer) (int, bool) {
	file, ok := out.(*os.File)
	if !ok {
		return 0, false
	}
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	return int(size.Row), true
}

func (s *screen) show(text string) error {
	high, terminal := rows(s.out)
	switch {
	case terminal:
		text = redrawn(text, high, !s.shown)
	case s.shown:
		text = "\n" + text
	}
	s.shown = true
	_, err := io.WriteString(s.out, text)
	return err
}

// redrawn is a text over what the terminal shows, from its first line on. What does not fit is left out, or else the
// terminal would scroll; of one that does not say how high it is all is written.
func redrawn(text string, high int, first bool) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if high > 1 && len(lines) >= high {
		lines = append(lines[:high-2:high-2], "...")
	}
	var b strings.Builder
	if first {
		b.WriteString("\x1b[2J")
	}
	b.WriteString("\x1b[H")
	for _, line := range lines {
		b.WriteString(line + "\x1b[K\n") // and whatever was longer
	}
	b.WriteString("\x1b[J")
	return b.String()
}
