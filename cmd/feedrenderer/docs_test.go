package main

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Somebody who is woken at night types what the runbook says.
func TestEachCommandThatTheDocumentsNameIsKnownWithItsFlags(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile("(?m)`feedrenderer ([^`|]+)|^ +feedrenderer ([^#|\n]+)")
	unknown := regexp.MustCompile(`unknown|unexpected`)
	found := 0
	for _, file := range []string{"../../README.md", "../../docs/operations.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range named.FindAllStringSubmatch(string(text), -1) {
			found++
			arguments := strings.Fields(strings.NewReplacer("[", "", "]", "", "'", "").Replace(match[1] + match[2]))
			_, _, err := parse(arguments, []string{"VALKEY_URL=redis://127.0.0.1", "DATABASE_URL=postgres://127.0.0.1/feed"}, io.Discard)
			if err != nil && unknown.MatchString(err.Error()) {
				t.Errorf("%s names feedrenderer %s: %v", file, strings.Join(arguments, " "), err)
			}
		}
	}
	if found < 30 {
		t.Errorf("%d commands found", found)
	}
}
