package web

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
	"github.com/codemojex/feedrenderer/feed/timeline"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

const masterKey = "a-master-key-of-the-tests-0123456789"

// customs is a server whose tenants and keys are in a database, and whose games are a model: the tenants acme, globex
// and initech are private, open is public, and each has the same games g1 and g2.
type customs struct {
	*site
	t     *testing.T
	admin *tenants.Admin
	model *model
	log   *logged

	mu       sync.Mutex // guards appended
	appended []feed.Fields
}

func newCustoms(t *testing.T, change func(*Config)) *customs {
	t.Helper()
	url := serverstest.Database(t)
	pool := func(role timeline.Role) *pgxpool.Pool {
		p, err := timeline.Open(t.Context(), url, role, 4)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		return p
	}
	c := &customs{t: t, admin: tenants.NewAdmin(pool(tenants.AdminRole)), model: newModel(), log: &logged{}}
	for _, id := range []feed.TenantID{"acme", "globex", "initech", "open"} {
		if err := c.admin.Create(t.Context(), tenants.Tenant{ID: id, Public: id == "open"}); err != nil {
			t.Fatal(err)
		}
		for _, game := range []feed.GameID{"g1", "g2"} {
			key := feed.GameKey{Tenant: id, Game: game}
			c.model.create(key)
			c.model.say(key, evt(1), "of "+string(id))
		}
	}
	store := tenants.NewStore(pool(timeline.RoleWeb))
	mint, err := feed.NewMint(5)
	if err != nil {
		t.Fatal(err)
	}
	c.site = serve(t, c.model, func(config *Config) {
		config.Tenants, config.Access, config.Admin, config.MasterKey = store, store, c.admin, masterKey
		config.SetMode = func(context.Context, feed.GameKey, feed.Mode) error { return nil }
		config.Group, config.DeadLetters = &groupModel{}, &groupModel{}
		config.Append = func(_ context.Context, _ feed.GameKey, _ feed.Once, batch []feed.Fields) ([]feed.ID, bool, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.appended = append(c.appended, batch...)
			ids := make([]feed.ID, len(batch))
			for i := range ids {
				ids[i], err = mint.Next()
			}
			return ids, false, err
		}
		config.Logger = slog.New(slog.NewTextHandler(c.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		config.Times.Tenant, config.Times.Auth = 100*time.Millisecond, 4*time.Second
		if change != nil {
			change(config)
		}
	})
	c.limits.strikes = 100_000
	return c
}

func (c *customs) key(tenant feed.TenantID, role tenants.Role) (tenants.Key, string) {
	c.t.Helper()
	key, text, err := c.admin.CreateKey(c.t.Context(), tenant, role, "", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return key, text.Reveal()
}

// token mints a token with a key that lives.
func (c *customs) token(tenant feed.TenantID, life time.Duration, games ...feed.GameID) string {
	c.t.Helper()
	key, _ := c.key(tenant, tenants.Watch)
	return c.tokenOf(key, life, games...)
}

func (c *customs) tokenOf(key tenants.Key, life time.Duration, games ...feed.GameID) string {
	c.t.Helper()
	text, err := c.admin.Mint(c.t.Context(), tenants.Token{Tenant: key.Tenant, Games: games, Expires: time.Now().Add(life), Key: key.ID})
	if err != nil {
		c.t.Fatal(err)
	}
	return text
}

func (c *customs) revoke(key tenants.Key) {
	c.t.Helper()
	if _, err := c.admin.RevokeKey(c.t.Context(), key.Tenant, key.ID, time.Now()); err != nil {
		c.t.Fatal(err)
	}
}

func (c *customs) change(tenant feed.TenantID, change tenants.Change) {
	c.t.Helper()
	if _, err := c.admin.Change(c.t.Context(), tenant, change); err != nil {
		c.t.Fatal(err)
	}
}

// ask makes a request; an answer that is a stream is not read.
func (c *customs) ask(method, path, credential, body string, header ...string) (*http.Response, string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.http.URL+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if credential != "" {
		request.Header.Set("Authorization", "Bearer "+credential)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Transport: c.http.Client().Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.Header.Get("Content-Type") == "text/event-stream" {
		return answer, ""
	}
	out, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer, string(out)
}

// logged keeps what was logged.
type logged struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
