package browsertest_test

import (
	"html/template"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/web/browsertest"
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
	page := browsertest.Tab(t)
	page.NoScripts()
	page.Open(s.URL + "/acme/g1")
	if got := browsertest.Eval[string](page, row(1)+`.querySelector(".text").textContent`); got != hostile {
		t.Errorf("the line says %q", got)
	}
	const dead = `[...document.querySelectorAll("button, input, select, .chip, .pulse, .skeleton")].filter((each) => each.checkVisibility()).map((each) => each.outerHTML).join(" ")`
	if got := browsertest.Eval[string](page, dead); got != "" {
		t.Errorf("what needs scripts is shown: %s", got)
	}
	if got := browsertest.Eval[string](page, `[...document.querySelectorAll("noscript a")].map((link) => link.checkVisibility() && link.getAttribute("href")).join(" ")`); got != "?before="+evt(1)+" /acme/g1" {
		t.Errorf("the links lead to %q", got)
	}
	page.Open(s.URL + "/acme/")
	if !browsertest.Eval[bool](page, `document.querySelector('a[href="/acme/g1"]').checkVisibility() && document.querySelector("noscript").checkVisibility()`) {
		t.Error("the lobby does not lead to its game")
	}
}

func TestAPageThatCouldNotBeHadIsLoadedAgainByItselfWithoutScripts(t *testing.T) {
	t.Parallel()
	pages, err := template.ParseGlob("../templates/*.html")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/acme/g1" {
			http.NotFound(w, r)
			return
		}
		asked <- struct{}{}
		w.Header().Set("Content-Security-Policy", policy)
		w.WriteHeader(http.StatusServiceUnavailable)
		data := struct {
			Status        int
			Title, Detail string
			Again         int
		}{http.StatusServiceUnavailable, "Service Unavailable", hostile, 1}
		if err := pages.ExecuteTemplate(w, "problem.html", data); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	page := browsertest.Tab(t)
	page.NoScripts()
	page.Open(server.URL + "/acme/g1")
	for range 3 {
		select {
		case <-asked:
		case <-time.After(patience):
			t.Fatal("it was not asked for again")
		}
	}
}
