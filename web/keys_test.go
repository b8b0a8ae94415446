package web

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/codemojex/feedrenderer/feed/tenants"
)

// The whole life of a tenant over HTTP, from the master key alone.
func TestATenantIsManagedOverHTTP(t *testing.T) {
	t.Parallel()
	c := newCustoms(t, nil)
	do := func(method, path, credential, body string, want int, into any) {
		t.Helper()
		answer, out := c.ask(method, path, credential, body)
		if answer.StatusCode != want {
			t.Fatalf("%s %s: %d %s, want %d", method, path, answer.StatusCode, out, want)
		}
		if want != http.StatusNoContent && answer.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s may be kept: %q", method, path, answer.Header.Get("Cache-Control"))
		}
		if into != nil {
			if err := json.Unmarshal([]byte(out), into); err != nil {
				t.Fatal(err)
			}
		}
	}
	do(http.MethodPost, "/v1/tenants", masterKey, `{"tenant":"new-one"}`, 201, nil)
	do(http.MethodPost, "/v1/tenants", masterKey, `{"tenant":"new-one"}`, 409, nil)
	const tenant = "/v1/tenants/new-one"
	var key keyJSON
	do(http.MethodPost, tenant+"/keys", masterKey, `{"role":"watch","label":"site","expires_in":"1h"}`, 201, &key)
	if key.Text == "" || key.Expires == nil || key.Label != "site" {
		t.Errorf("got %+v", key)
	}
	var token struct{ Token string }
	do(http.MethodPost, tenant+"/watch-tokens", key.Text, `{"games":["g1"],"expires_in":"1m"}`, 201, &token)
	if answer, _ := c.ask(http.MethodGet, tenant+"/games", key.Text, ""); answer.StatusCode != http.StatusOK {
		t.Errorf("the key: %d", answer.StatusCode)
	}
	if answer, _ := c.ask(http.MethodGet, tenant+"/games", token.Token, ""); answer.StatusCode != http.StatusNotFound {
		t.Errorf("a token of one game lists all: %d", answer.StatusCode)
	}
	do(http.MethodPost, tenant+"/watch-tokens", token.Token, `{}`, 404, nil)
	var changed tenantJSON
	do(http.MethodPatch, tenant, masterKey, `{"limits":{"requests":7}}`, 200, &changed)
	equal(t, changed, tenantJSON{ID: "new-one", Limits: tenants.Limits{Requests: 7}.Filled()})
	do(http.MethodPatch, tenant, masterKey, `{"limits":{"retention_days":30,"stream_days":7}}`, 200, &changed)
	equal(t, changed, tenantJSON{ID: "new-one", Limits: tenants.Limits{Requests: 7, RetentionDays: 30, StreamDays: 7}.Filled()})
	do(http.MethodPost, tenant+"/token-secret", masterKey, "", 204, nil)
	do(http.MethodDelete, tenant+"/keys/"+key.ID, masterKey, "", 200, nil)
	eventually(t, "the key and its token are refused", func() bool {
		byKey, _ := c.ask(http.MethodGet, tenant+"/games", key.Text, "")
		byToken, _ := c.ask(http.MethodGet, tenant+"/games", token.Token, "")
		return byKey.StatusCode == http.StatusUnauthorized && byToken.StatusCode == http.StatusUnauthorized
	})
	var listed struct{ Keys []keyJSON }
	do(http.MethodGet, tenant+"/keys", masterKey, "", 200, &listed)
	if len(listed.Keys) != 1 || listed.Keys[0].Text != "" || listed.Keys[0].Revoked == nil {
		t.Errorf("got %+v", listed)
	}

	t.Run("WhatIsMalformedIsNobodysFaultButTheCallers", func(t *testing.T) {
		for _, bad := range []struct {
			method, path, body string
			want               int
		}{
			{http.MethodPost, "/v1/tenants", `{"tenant":"Bad Name"}`, 400},
			{http.MethodPost, "/v1/tenants", `{"tenant":"x","admin":true}`, 400},
			{http.MethodPost, "/v1/tenants", `{"tenant":"x"}{}`, 400},
			{http.MethodPost, "/v1/tenants", strings.Repeat(" ", maxBody+1), 413},
			{http.MethodPatch, tenant, `{"limits":{"requests":-1}}`, 400},
			{http.MethodPatch, tenant, `null`, 400},
			{http.MethodPatch, tenant, `{"limits":{"retention_days":36501}}`, 400},
			{http.MethodPatch, tenant, `{"limits":{"requests":3000000000}}`, 400},
			{http.MethodPost, tenant + "/keys", `{"role":"god"}`, 400},
			{http.MethodPost, tenant + "/keys", `{"role":"watch","label":"\u0000"}`, 400},
			{http.MethodPost, tenant + "/keys", `{"role":"watch","expires_in":"-1h"}`, 400},
			{http.MethodDelete, tenant + "/keys/%00", ``, 404},
			{http.MethodDelete, tenant + "/keys/ABCDEFGHIJKL?after=-1s", ``, 400},
		} {
			do(bad.method, bad.path, masterKey, bad.body, bad.want, nil)
		}
		_, watching := c.key("acme", tenants.Watch)
		for _, body := range []string{`{"games":["b d"]}`, `{"games":[]}`, `{"games":null}`, `null`, `{"expires_in":"2h"}`, `{"expires_in":"0s"}`, `{"games":["` + strings.Repeat(`a","`, 100) + `a"]}`, ``, `[]`} {
			do(http.MethodPost, "/v1/tenants/acme/watch-tokens", watching, body, 400, nil)
		}
		forged := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"tenant": "acme"})
		forged.Header["kid"] = "\x00"
		text, err := forged.SignedString([]byte("secret"))
		if err != nil {
			t.Fatal(err)
		}
		do(http.MethodGet, "/v1/tenants/acme/games", text, "", 401, nil)
		do(http.MethodGet, "/v1/tenants/acme/games", "\xff\xfe", "", 401, nil)
	})
}
