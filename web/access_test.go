package web

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
)

// rule is what a route is to allow, by the names that the test gives to callers.
type rule struct {
	callers string // who may, of their own tenant
	anyone  bool   // whoever it is, even with a credential that is bad
	public  bool   // and anybody where the tenant is public
	any     bool   // for every tenant alike, existing or not
	ok      int    // the status of success
	body    string // with %d for a number of its own
	query   string
}

const (
	watchers = "watch operate "
	holders  = watchers + "token "
)

// rules has a row for each route of the public handler.
var rules = map[string]rule{
	"GET /":               {anyone: true, ok: 404}, // no front page is configured
	"GET /healthz":        {anyone: true, ok: 200},
	"GET /readyz":         {anyone: true, ok: 200},
	"GET /openapi.yaml":   {anyone: true, ok: 200},
	"GET /docs":           {anyone: true, ok: 200},
	"GET G/board":         {callers: holders, public: true, ok: 200},
	"GET /static/*":       {anyone: true, ok: 200},
	"GET /:tenant":        {callers: watchers, public: true, ok: 301},
	"GET /:tenant/":       {callers: watchers, public: true, ok: 200},
	"GET /:tenant/:game":  {callers: holders, public: true, ok: 200},
	"GET T/live":          {callers: "none foreign watch produce operate token other master ", any: true, ok: 426},
	"GET T/games":         {callers: watchers, public: true, ok: 200},
	"GET G":               {callers: holders, public: true, ok: 200},
	"GET G/timeline":      {callers: holders, public: true, ok: 200},
	"GET G/changes":       {callers: holders, public: true, ok: 200, query: "?since=e1:0"},
	"GET G/lines/:evt":    {callers: holders, public: true, ok: 200},
	"GET G/stream":        {callers: holders, public: true, ok: 200},
	"POST G/events":       {callers: "produce operate ", ok: 201, body: `{"kind":"notice"}`},
	"POST G/mode":         {callers: "operate ", ok: 200, body: `{"mode":"classic"}`},
	"POST T/watch-tokens": {callers: watchers, ok: 201, body: `{}`},
	"GET /v1/tenants":     {callers: "master ", any: true, ok: 200},
	"POST /v1/tenants":    {callers: "master ", any: true, ok: 201, body: `{"tenant":"made-%d"}`},
	"GET T":               {callers: "master ", ok: 200},
	"PATCH T":             {callers: "master ", ok: 200, body: `{}`},
	"GET T/keys":          {callers: "master ", ok: 200},
	"POST T/keys":         {callers: "master ", ok: 201, body: `{"role":"watch"}`},
	"DELETE T/keys/:key":  {callers: "master ", ok: 200},
	"POST T/token-secret": {callers: "master ", ok: 204},

	"GET /:tenant/-/operate": {anyone: true, ok: 200}, // the same for all

	"GET T/streams": {callers: "operate ", ok: 200},
	"POST T/streams/:game/dead-letters/retry":     {callers: "operate ", ok: 200, query: "?all=true"},
	"DELETE T/streams/:game/dead-letters":         {callers: "operate ", ok: 200, query: "?kind=scored"},
	"GET T/streams/:game/dead-letters":            {callers: "operate ", ok: 200, query: "?kind=scored&older_than=1s"},
	"POST T/streams/:game/dead-letters/:id/retry": {callers: "operate ", ok: 202},
	"GET T/streams/:game/dead-letters/:id":        {callers: "operate ", ok: 200},
	"DELETE T/streams/:game/dead-letters/:id":     {callers: "operate ", ok: 204},
}

func TestEveryRouteLetsInWhomItShouldAndNobodyElse(t *testing.T) {
	t.Parallel()
	c := newCustoms(t, nil)
	revoked, revokedText := c.key("acme", tenants.Operate)
	c.revoke(revoked)
	fallen, _ := c.key("acme", tenants.Watch)
	fallenToken := c.tokenOf(fallen, time.Hour)
	c.revoke(fallen)
	expiring := c.token("acme", time.Second)
	credentials := map[string]string{"none": "", "master": masterKey, "revoked": revokedText, "fallen token": fallenToken, "malformed": "nonsense", "half a key": revokedText[:20]}
	for _, role := range []tenants.Role{tenants.Watch, tenants.Produce, tenants.Operate} {
		_, credentials[string(role)] = c.key("acme", role)
	}
	_, credentials["foreign"] = c.key("initech", tenants.Operate)
	credentials["token"] = c.token("acme", time.Hour, "g1")
	credentials["other"] = c.token("acme", time.Hour, "g2")
	eventually(t, "the token expires", func() bool {
		answer, _ := c.ask(http.MethodGet, "/v1/tenants/acme/games", expiring, "")
		return answer.StatusCode == http.StatusUnauthorized
	})
	credentials["expired token"] = expiring

	described := newDescription(t)
	variable := regexp.MustCompile(`:(\w+)`)
	_, notFound := c.ask(http.MethodGet, "/v1/tenants/nobody/games", "", "")
	seen := map[string]bool{}
	n := 0
	for _, r := range c.public() {
		name := r.method + " " + strings.Replace(strings.Replace(r.path, "/v1/tenants/:tenant/games/:game", "G", 1), "/v1/tenants/:tenant", "T", 1)
		rule, ok := rules[name]
		if !ok {
			t.Errorf("%s %s: the route has no row", r.method, r.path)
			continue
		}
		seen[name] = true
		for _, target := range []feed.TenantID{"acme", "globex", "open", "nobody"} {
			for who, credential := range credentials {
				n++
				key := tenants.Key{ID: "ABCDEFGHIJKL"}
				if strings.Contains(r.path, ":key") && who == "master" && target != "nobody" {
					key, _ = c.key(target, tenants.Watch)
				}
				path := strings.NewReplacer(":tenant", string(target), ":game", "g1", ":evt", evt(1).String(), ":key", key.ID, ":id", "1-1", "*", "base.css").Replace(r.path) + rule.query
				body := rule.body
				if strings.Contains(body, "%d") {
					body = fmt.Sprintf(body, n)
				}
				answer, got := c.ask(r.method, path, credential, body)
				want := rule.expect(who, target)
				if operation := r.method + " " + variable.ReplaceAllString(r.path, "{$1}"); answer.Header.Get("Content-Type") != "text/event-stream" {
					if _, api := described.operations[operation]; api {
						described.answers(operation, answer, got)
					}
				}
				if answer.StatusCode != want {
					t.Errorf("%s %s by %s: %d, want %d: %s", r.method, path, who, answer.StatusCode, want, got)
				}
				if want == http.StatusNotFound && got != notFound {
					t.Errorf("%s %s by %s: says %s, want %s", r.method, path, who, got, notFound)
				}
				if want == http.StatusUnauthorized && answer.Header.Get("WWW-Authenticate") != "Bearer" {
					t.Errorf("%s %s by %s: no WWW-Authenticate", r.method, path, who)
				}
				if r.method == http.MethodGet && want != http.StatusOK && want != 426 {
					if head, _ := c.ask(http.MethodHead, path, credential, ""); head.StatusCode != want && head.StatusCode != http.StatusMethodNotAllowed {
						t.Errorf("HEAD %s by %s: %d, want %d", path, who, head.StatusCode, want)
					}
				}
			}
		}
	}
	for name := range rules {
		if !seen[name] {
			t.Errorf("%s: the row has no route", name)
		}
	}

	t.Run("AndNoSecretStandsInALogOrAMetric", func(t *testing.T) {
		metrics, err := c.config.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		said := c.log.String() + fmt.Sprint(metrics)
		if !strings.Contains(said, "a key or token was refused") {
			t.Error("nothing was logged")
		}
		for who, credential := range credentials {
			if credential != "" && strings.Contains(said, credential[max(0, len(credential)-20):]) {
				t.Errorf("the credential of %s stands in: %s", who, said)
			}
		}
	})
}

// expect is the status that a caller gets.
func (r rule) expect(who string, target feed.TenantID) int {
	good := !slices.Contains([]string{"revoked", "fallen token", "malformed", "half a key", "expired token"}, who)
	switch {
	case r.anyone:
		return r.ok
	case !good:
		return http.StatusUnauthorized
	case r.public && target == "open":
		return r.ok
	case !strings.Contains(r.callers, who+" "):
		return http.StatusNotFound
	case r.any, target == "acme", who == "master" && target != "nobody":
		return r.ok
	}
	return http.StatusNotFound
}
