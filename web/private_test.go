package web

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/codemojex/feedrenderer/feed"
)

func TestPrivate(t *testing.T) {
	t.Parallel()
	m := newModel(acme)
	stated := map[feed.GameKey]feed.Mode{}
	s := serve(t, m, func(c *Config) {
		c.SetMode = func(_ context.Context, key feed.GameKey, mode feed.Mode) error {
			stated[key] = mode
			return nil
		}
		c.Checks = map[string]func(context.Context) error{
			"valkey": func(context.Context) error { return errors.New("dial redis://host: refused") },
			"store":  func(context.Context) error { return nil },
		}
	})
	private := httptest.NewServer(s.Private())
	t.Cleanup(private.Close)
	post := func(t *testing.T, base, path, body string) (int, string) {
		t.Helper()
		answer, err := http.Post(base+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		out := new(strings.Builder)
		if _, err := bufio.NewReader(answer.Body).WriteTo(out); err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, out.String()
	}
	t.Run("TheModeIsStatedThereAndNowhereElse", func(t *testing.T) {
		const path = "/v1/tenants/acme/games/g1/mode"
		code, body := post(t, private.URL, path, `{"mode":"classic"}`)
		if code != http.StatusOK || !strings.Contains(body, `"game":"g1"`) || stated[acme] != feed.ModeClassic {
			t.Errorf("got %d %s, stated %v", code, body, stated)
		}
		for _, header := range []string{"Origin https://evil.example", "Sec-Fetch-Site cross-site"} {
			name, value, _ := strings.Cut(header, " ")
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, private.URL+path, strings.NewReader(`{"mode":"golden"}`))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set(name, value)
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusForbidden || stated[acme] != feed.ModeClassic {
				t.Errorf("a page of another site (%s): %d, stated %v", header, answer.StatusCode, stated)
			}
		}
		for body, want := range map[string]int{`{"mode":"odd"}`: 400, `{}`: 400, `no`: 400, `{"mode":"blind","x":1}`: 400, strings.Repeat(" ", maxBody) + "{}": 413} {
			if code, _ := post(t, private.URL, path, body); code != want {
				t.Errorf("%.40s: got %d", body, code)
			}
		}
		if code, _ := post(t, s.http.URL, path, `{"mode":"blind"}`); code != http.StatusNotFound && code != http.StatusMethodNotAllowed {
			t.Errorf("the public answers %d", code)
		}
		if code, _ := post(t, private.URL, "/v1/tenants/nobody/games/g1/mode", `{"mode":"blind"}`); code != http.StatusNotFound {
			t.Errorf("an unknown tenant: %d", code)
		}
		if len(stated) != 1 || stated[acme] != feed.ModeClassic {
			t.Errorf("stated %v", stated)
		}
	})

	t.Run("MetricsAndProfilesAreNotPublic", func(t *testing.T) {
		for _, path := range []string{"/metrics", "/debug/pprof/"} {
			answer, _ := s.get(t, path)
			equal(t, answer.StatusCode, http.StatusNotFound)
		}
	})

	t.Run("ReadinessSaysWhatIsWrongAndNotWhy", func(t *testing.T) {
		answer, body := s.get(t, "/readyz")
		equal(t, answer.StatusCode, http.StatusServiceUnavailable)
		equal(t, strings.TrimSpace(body), `{"ready":false,"draining":false,"checks":{"store":"ok","valkey":"failing"}}`)
	})
}
