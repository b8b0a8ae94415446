package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
)

// defaultTokenLife is how long a watch token is good for where nobody says.
const defaultTokenLife = 10 * time.Minute

// mint makes a watch token for a browser: {"games": ["g1"], "expires_in": "10m"}, both optional. Without games it is good
// for all of the tenant.
func (s *Server) mint(c echo.Context) error {
	tenant, err := s.tenant(c)
	if err != nil {
		return err
	}
	if s.config.Admin == nil {
		return errNoSuch
	}
	var in struct {
		Games   tokenGames `json:"games"`
		Expires string     `json:"expires_in"`
	}
	if err := readJSON(c, &in, `{"games": ["g1"], "expires_in": "10m"}`); err != nil {
		return err
	}
	life := defaultTokenLife
	if in.Expires != "" {
		if life, err = time.ParseDuration(in.Expires); err != nil || life < time.Second || life > tenants.MaxTokenLife {
			return badParam("expires_in", in.Expires, "a duration from 1s to "+tenants.MaxTokenLife.String())
		}
	}
	if in.Games != nil && len(in.Games) == 0 {
		return badRequest("games: none, want at least one; for all games of the tenant leave it out")
	}
	if len(in.Games) > tenants.MaxTokenGames {
		return badRequest(fmt.Sprintf("games: %d, want at most %d", len(in.Games), tenants.MaxTokenGames))
	}
	for _, game := range in.Games {
		if _, err := feed.ParseGameID(string(game)); err != nil {
			return badParam("games", string(game), "ids of games")
		}
	}
	slices.Sort(in.Games)
	token := tenants.Token{Tenant: tenant, Games: slices.Compact(in.Games), Expires: time.Now().Add(life).Truncate(time.Second), Key: callerOf(c).key}
	text, err := s.config.Admin.Mint(c.Request().Context(), token)
	if err != nil {
		return unknownIsNoSuch(err)
	}
	return secretJSON(c, http.StatusCreated, struct {
		Token   string       `json:"token"`
		Expires feed.Instant `json:"expires_at"`
	}{text, feed.Instant(token.Expires)})
}

// tokenGames are the games that a request names: nil where it names no list. One that came out empty, or null, is none of
// those who mean all, and must not open all.
type tokenGames []feed.GameID

func (g *tokenGames) UnmarshalJSON(text []byte) error {
	games := []feed.GameID{}
	err := json.Unmarshal(text, &games)
	*g = append(tokenGames{}, games...)
	return err
}

// tenantJSON is a tenant as its manager sees it.
type tenantJSON struct {
	ID        feed.TenantID  `json:"tenant"`
	Public    bool           `json:"public"`
	Suspended bool           `json:"suspended"`
	Limits    tenants.Limits `json:"limits"` // those in force
}

func newTenantJSON(t tenants.Tenant) tenantJSON {
	return tenantJSON{t.ID, t.Public, t.Suspended, t.Limits.Filled()}
}

func (s *Server) listTenants(c echo.Context) error {
	list, err := s.config.Admin.List(c.Request().Context())
	if err != nil {
		return err
	}
	out := make([]tenantJSON, len(list))
	for i := range list {
		out[i] = newTenantJSON(list[i])
	}
	return secretJSON(c, http.StatusOK, struct {
		Tenants []tenantJSON `json:"tenants"`
	}{out})
}

// createTenant makes a tenant: {"tenant": "acme", "public": false}.
func (s *Server) createTenant(c echo.Context) error {
	var in struct {
		ID     string `json:"tenant"`
		Public bool   `json:"public"`
	}
	if err := readJSON(c, &in, `{"tenant": "acme", "public": false}`); err != nil {
		return err
	}
	id, err := feed.ParseTenantID(in.ID)
	if err != nil {
		return badRequest(err.Error())
	}
	tenant := tenants.Tenant{ID: id, Public: in.Public}
	err = s.config.Admin.Create(c.Request().Context(), tenant)
	if errors.Is(err, tenants.ErrExists) {
		return &refusal{status: http.StatusConflict, detail: "there is a tenant of this name"}
	}
	if err != nil {
		return err
	}
	return secretJSON(c, http.StatusCreated, newTenantJSON(tenant))
}

func (s *Server) showTenant(c echo.Context) error {
	id, err := s.tenant(c)
	if err != nil {
		return err
	}
	tenant, err := s.config.Admin.Lookup(c.Request().Context(), id)
	if err != nil {
		return unknownIsNoSuch(err)
	}
	return secretJSON(c, http.StatusOK, newTenantJSON(tenant))
}

// changeTenant changes what is named: {"public": true, "suspended": false, "limits": {"requests": 100}}; a limit of 0 is
// the default.
func (s *Server) changeTenant(c echo.Context) error {
	id, err := s.tenant(c)
	if err != nil {
		return err
	}
	var change tenants.Change
	if err := readJSON(c, &change, `{"public": true, "suspended": false, "limits": {"requests": 100}}`); err != nil {
		return err
	}
	if err := change.Limits.Check(); err != nil {
		return badRequest(err.Error())
	}
	tenant, err := s.config.Admin.Change(c.Request().Context(), id, change)
	if err != nil {
		return unknownIsNoSuch(err)
	}
	return secretJSON(c, http.StatusOK, newTenantJSON(tenant))
}

// keyJSON is a key as its manager sees it.
type keyJSON struct {
	Tenant  feed.TenantID `json:"tenant"`
	ID      string        `json:"id"`
	Role    tenants.Role  `json:"role"`
	Label   string        `json:"label"`
	Created feed.Instant  `json:"created_at"`
	Expires *feed.Instant `json:"expires_at,omitempty"`
	Revoked *feed.Instant `json:"revoked_at,omitempty"` // may be a moment to come
	Text    string        `json:"key,omitempty"`        // the whole key: of one that was made just now
}

func newKeyJSON(k tenants.Key) keyJSON {
	return keyJSON{
		Tenant: k.Tenant, ID: k.ID, Role: k.Role, Label: k.Label,
		Created: feed.Instant(k.Created), Expires: (*feed.Instant)(k.Expires), Revoked: (*feed.Instant)(k.Revoked),
	}
}

func (s *Server) listKeys(c echo.Context) error {
	id, err := s.tenant(c)
	if err != nil {
		return err
	}
	keys, err := s.config.Admin.Keys(c.Request().Context(), id)
	if err != nil {
		return unknownIsNoSuch(err)
	}
	out := make([]keyJSON, len(keys))
	for i := range keys {
		out[i] = newKeyJSON(keys[i])
	}
	return secretJSON(c, http.StatusOK, struct {
		Keys []keyJSON `json:"keys"`
	}{out})
}

// createKey makes a key and answers it, this once: {"role": "produce", "label": "engine 1", "expires_in": "720h"}.
func (s *Server) createKey(c echo.Context) error {
	id, err := s.tenant(c)
	if err != nil {
		return err
	}
	var in struct {
		Role    string `json:"role"`
		Label   string `json:"label"`
		Expires string `json:"expires_in"`
	}
	if err := readJSON(c, &in, `{"role": "produce", "label": "engine 1", "expires_in": "720h"}`); err != nil {
		return err
	}
	role, err := tenants.ParseRole(in.Role)
	if err != nil {
		return badRequest(err.Error())
	}
	if len(in.Label) > 100 || strings.ContainsRune(in.Label, 0) {
		return badParam("label", in.Label, "at most 100 bytes, without NUL")
	}
	var expires *time.Time
	if in.Expires != "" {
		life, err := time.ParseDuration(in.Expires)
		if err != nil || life < time.Second {
			return badParam("expires_in", in.Expires, "a duration such as 720h")
		}
		at := time.Now().Add(life)
		expires = &at
	}
	key, text, err := s.config.Admin.CreateKey(c.Request().Context(), id, role, in.Label, expires)
	if err != nil {
		return unknownIsNoSuch(err)
	}
	out := newKeyJSON(key)
	out.Text = text.Reveal()
	return secretJSON(c, http.StatusCreated, out)
}

// revokeKey ends a key, at once or, for the time it takes to hand out another, after a while: ?after=1h.
func (s *Server) revokeKey(c echo.Context) error {
	id, err := s.tenant(c)
	if err != nil {
		return err
	}
	p := queryOf(c)
	after := p.duration("after", 30*24*time.Hour)
	if p.err != nil {
		return p.err
	}
	if !tenants.IsID(c.Param("key")) {
		return errNoSuch
	}
	key, err := s.config.Admin.RevokeKey(c.Request().Context(), id, c.Param("key"), time.Now().Add(after))
	if err != nil {
		return unknownIsNoSuch(err)
	}
	return secretJSON(c, http.StatusOK, newKeyJSON(key))
}

// rotateSecret signs watch tokens with a new secret from now on. Those of the old one live on to their end.
func (s *Server) rotateSecret(c echo.Context) error {
	id, err := s.tenant(c)
	if err != nil {
		return err
	}
	if err := s.config.Admin.RotateSecret(c.Request().Context(), id); err != nil {
		return unknownIsNoSuch(err)
	}
	return c.NoContent(http.StatusNoContent)
}

func unknownIsNoSuch(err error) error {
	if errors.Is(err, tenants.ErrUnknown) {
		return errNoSuch
	}
	return err
}

// secretJSON answers what nobody may keep on the way.
func secretJSON(c echo.Context, status int, body any) error {
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.JSON(status, body)
}
