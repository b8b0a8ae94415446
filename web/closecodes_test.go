package web

import (
	"os"
	"regexp"
	"testing"
)

// TestCloseCodes holds the table of docs/protocol.md against that of closecodes.go.
func TestCloseCodes(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("closecodes.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, code := range regexp.MustCompile(`closing\{(\d+), "([^"]*)"\}`).FindAllStringSubmatch(string(source), -1) {
		want = append(want, code[1]+" "+code[2])
	}
	for _, row := range regexp.MustCompile(`(?m)^\| (4\d\d\d) \| (.*) \|$`).FindAllStringSubmatch(string(page), -1) {
		got = append(got, row[1]+" "+row[2])
	}
	equal(t, got, want)
}
