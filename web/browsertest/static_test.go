package browsertest_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The names of icons stand in three places: for the loader of kinds, for the page, and in the drawing.
func TestEveryIconOfAKindIsDrawnAndKnownToThePage(t *testing.T) {
	t.Parallel()
	names := strings.Fields(read(t, "../static/icons.txt"))
	kinds, _, found := strings.Cut(read(t, "../static/icons.svg"), "<!-- The page's own. -->")
	if !found {
		t.Fatal("icons.svg does not tell the icons of kinds from the page's own")
	}
	var drawn []string
	for _, match := range regexp.MustCompile(`<symbol id="([^"]+)"`).FindAllStringSubmatch(kinds, -1) {
		drawn = append(drawn, match[1])
	}
	set := regexp.MustCompile(`(?s)ICONS = new Set\(\[(.*?)\]`).FindStringSubmatch(read(t, "../static/dom.js"))
	if set == nil {
		t.Fatal("dom.js has no ICONS")
	}
	known := regexp.MustCompile(`[a-z-]+`).FindAllString(set[1], -1)
	if !slices.Equal(names, drawn) || !slices.Equal(names, known) {
		t.Errorf("icons.txt %q\nicons.svg %q\ndom.js    %q", names, drawn, known)
	}
}

func TestThePagesNeedNoInlineScriptOrStyleAndMakeNoMarkupOfText(t *testing.T) {
	t.Parallel()
	inline := regexp.MustCompile(`(?i)\sstyle=|<style|<script(?:[^>]*)>[^<]|\son[a-z]+=|javascript:`)
	markup := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function`)
	for pattern, forbidden := range map[string]*regexp.Regexp{"../templates/*.html": inline, "../static/*.svg": inline, "../static/*.js": markup} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			if found := forbidden.FindString(read(t, file)); found != "" {
				t.Errorf("%s has %q", file, found)
			}
		}
	}
}

func TestWithoutScriptsAPageShowsTheNewestLinesAsText(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for path, want := range map[string]string{
		"/acme/g1": `<p class="text" dir="auto">&lt;img src=x onerror=alert(1)&gt;</p>`,
		"/acme/":   `href="/acme/g1"`,
	} {
		if body := get(t, s.URL+path); !strings.Contains(body, want) {
			t.Errorf("%s has no %s:\n%s", path, want, body)
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := answer.Body.Close(); err != nil {
			t.Error(err)
		}
	}()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
