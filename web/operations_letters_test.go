package web

import (
	"net/http"
	"strings"
	"testing"

	"github.com/codemojex/feedrenderer/feed/tenants"
)

func TestManyLettersByOneRequest(t *testing.T) {
	t.Parallel()
	g := &liveGroup{fails: true}
	for i := range 1150 {
		g.bury([]string{"scored", "scored", "notice"}[i%3])
	}
	c := newOperated(t, g)
	_, key := c.key("acme", tenants.Operate)
	ask := func(method, query string, want int, says string) {
		t.Helper()
		path := "/v1/tenants/acme/streams/g1/dead-letters"
		if method == http.MethodPost {
			path += "/retry"
		}
		answer, body := c.ask(method, path+query, key, "")
		if answer.StatusCode != want || says != "" && strings.TrimSpace(body) != says {
			t.Errorf("%s %s: %d %s, want %d %s", method, query, answer.StatusCode, body, want, says)
		}
	}
	for _, query := range []string{"", "?all=false", "?all=true&kind=scored", "?older_than=soon", "?after=1-0"} {
		ask(http.MethodPost, query, http.StatusBadRequest, "")
		ask(http.MethodDelete, query, http.StatusBadRequest, "")
	}
	// Each comes back at once, and is not met again by the same request.
	ask(http.MethodPost, "?kind=notice", http.StatusOK, `{"done":383,"more":false}`)
	ask(http.MethodPost, "?all=true", http.StatusOK, `{"done":1000,"more":true}`)
	ask(http.MethodDelete, "?kind=scored", http.StatusOK, `{"done":767,"more":false}`)
	ask(http.MethodDelete, "?kind=scored", http.StatusOK, `{"done":0,"more":false}`)
	if len(g.letters) != 383 {
		t.Errorf("%d are left", len(g.letters))
	}
}
