package tenants_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	url := serverstest.Database(t)
	admin, web := tenants.NewAdmin(poolAs(t, url, tenants.AdminRole)), storeAs(t, url, "feedrenderer_web")
	for _, id := range []feed.TenantID{"acme", "globex"} {
		if err := admin.Create(t.Context(), tenants.Tenant{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	key, text, err := admin.CreateKey(t.Context(), "acme", tenants.Produce, "engine 1", nil)
	if err != nil {
		t.Fatal(err)
	}

	t.Run("OpenWhatTheyAreOf", func(t *testing.T) {
		t.Parallel()
		parsed, err := tenants.ParseKey(text.Reveal())
		if err != nil || parsed != text {
			t.Fatalf("got %v, %v", parsed, err)
		}
		got, err := web.Key(t.Context(), parsed.Tenant, parsed.ID)
		if err != nil || !got.Opens(parsed) || !got.Live(time.Now()) || got.Role != tenants.Produce || got.Label != "engine 1" {
			t.Errorf("got %+v, %v", got, err)
		}
		other, foreign, err := admin.CreateKey(t.Context(), "globex", tenants.Produce, "", nil)
		if err != nil || got.Opens(foreign) || other.Opens(text) {
			t.Errorf("a key opens another: %v", err)
		}
		forged, err := tenants.ParseKey(strings.Replace(text.Reveal(), "frk_acme_", "frk_globex_", 1))
		if err != nil || got.Opens(forged) {
			t.Errorf("a key opens another tenant: %v", err)
		}
		if _, err := web.Key(t.Context(), forged.Tenant, forged.ID); !errors.Is(err, tenants.ErrUnknown) {
			t.Errorf("got %v, want ErrUnknown", err)
		}
	})
	t.Run("PrintWithoutTheirSecret", func(t *testing.T) {
		t.Parallel()
		secret := text.Reveal()[len(text.Reveal())-26:]
		for _, printed := range []string{fmt.Sprint(text), fmt.Sprintf("%+v %#v %s %q", text, text, text, text)} {
			if strings.Contains(printed, secret) || !strings.Contains(printed, text.ID) {
				t.Errorf("prints as %s", printed)
			}
		}
	})
	t.Run("AreRefusedWithoutBeingRepeated", func(t *testing.T) {
		t.Parallel()
		whole := text.Reveal()
		for _, bad := range []string{"", "frk_", whole[:len(whole)-1], whole + "A", strings.ToLower(whole), " " + whole, strings.Replace(whole, "acme", "-acme", 1)} {
			if _, err := tenants.ParseKey(bad); !errors.Is(err, tenants.ErrMalformed) || bad != "" && strings.Contains(err.Error(), bad) {
				t.Errorf("%q: got %v", bad, err)
			}
		}
	})
	t.Run("EndWhenRevokedOrExpired", func(t *testing.T) {
		t.Parallel()
		now := time.Now()
		soon := now.Add(time.Hour)
		expiring, _, err := admin.CreateKey(t.Context(), "acme", tenants.Watch, "", &soon)
		if err != nil || !expiring.Live(now) || expiring.Live(soon) {
			t.Errorf("got %+v, %v", expiring, err)
		}
		later, err := admin.RevokeKey(t.Context(), "acme", expiring.ID, now.Add(time.Minute))
		if err != nil || !later.Live(now) || later.Live(now.Add(2*time.Minute)) {
			t.Errorf("revoked with an overlap: %+v, %v", later, err)
		}
		if _, err := admin.RevokeKey(t.Context(), "acme", expiring.ID, now); err != nil {
			t.Fatal(err)
		}
		again, err := admin.RevokeKey(t.Context(), "acme", expiring.ID, now.Add(time.Hour))
		if err != nil || again.Live(time.Now().Add(time.Second)) {
			t.Errorf("a revoked key came back: %+v, %v", again, err)
		}
		if _, err := admin.RevokeKey(t.Context(), "globex", expiring.ID, now); !errors.Is(err, tenants.ErrUnknown) {
			t.Errorf("a foreign key: got %v", err)
		}
	})
	t.Run("AreListedForTheirTenantAlone", func(t *testing.T) {
		t.Parallel()
		keys, err := admin.Keys(t.Context(), "acme")
		if err != nil || keys[0].ID != key.ID {
			t.Fatalf("got %+v, %v", keys, err)
		}
		for _, each := range keys {
			if each.Tenant != "acme" {
				t.Errorf("lists %+v", each)
			}
		}
		if _, err := admin.Keys(t.Context(), "nobody"); !errors.Is(err, tenants.ErrUnknown) {
			t.Errorf("got %v, want ErrUnknown", err)
		}
	})
}

func TestTokens(t *testing.T) {
	t.Parallel()
	url := serverstest.Database(t)
	admin, web := tenants.NewAdmin(poolAs(t, url, tenants.AdminRole)), storeAs(t, url, "feedrenderer_web")
	for _, id := range []feed.TenantID{"acme", "globex"} {
		if err := admin.Create(t.Context(), tenants.Tenant{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	find := func(tenant feed.TenantID, id string) (tenants.Secret, error) {
		return web.Secret(t.Context(), tenant, id)
	}
	in := func(life time.Duration) time.Time { return time.Now().Add(life).Truncate(time.Second) }
	token := tenants.Token{Tenant: "acme", Games: []feed.GameID{"g1", "g2"}, Expires: in(time.Minute), Key: "K"}
	text, err := admin.Mint(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}

	t.Run("SayWhatTheyWereMintedFor", func(t *testing.T) {
		got, err := tenants.ParseToken(text, find)
		if err != nil || got.Tenant != token.Tenant || len(got.Games) != 2 || got.Key != "K" || !got.Expires.Equal(token.Expires) {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("OutliveTheRotationOfTheirSecret", func(t *testing.T) {
		if err := admin.RotateSecret(t.Context(), "acme"); err != nil {
			t.Fatal(err)
		}
		after, err := admin.Mint(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		for _, each := range []string{text, after} {
			if _, err := tenants.ParseToken(each, find); err != nil {
				t.Error(err)
			}
		}
		retired := func(tenant feed.TenantID, id string) (tenants.Secret, error) {
			secret, err := find(tenant, id)
			if secret.Retires != nil {
				past := time.Now()
				secret.Retires = &past
			}
			return secret, err
		}
		if _, err := tenants.ParseToken(text, retired); !errors.Is(err, tenants.ErrMalformed) {
			t.Errorf("of a retired secret: got %v", err)
		}
	})
	t.Run("AreRefusedWhereAnythingIsAltered", func(t *testing.T) {
		parts := strings.Split(text, ".")
		foreign, err := admin.Mint(t.Context(), tenants.Token{Tenant: "globex", Expires: in(time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
		unsigned, err := jwt.NewWithClaims(jwt.SigningMethodNone, jwt.MapClaims{
			"tenant": "acme", "aud": "feedrenderer-watch", "exp": in(time.Minute).Unix(),
		}).SignedString(jwt.UnsafeAllowNoneSignatureType)
		if err != nil {
			t.Fatal(err)
		}
		for name, bad := range map[string]string{
			"empty": "", "no token": "abc", "no signature": parts[0] + "." + parts[1] + ".", "another's claims": parts[0] + "." + strings.Split(foreign, ".")[1] + "." + parts[2],
			"cut": text[:len(text)-2], "unsigned": unsigned,
		} {
			if _, err := tenants.ParseToken(bad, find); !errors.Is(err, tenants.ErrMalformed) || len(bad) > 3 && strings.Contains(err.Error(), bad) {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
	t.Run("OfAStoreThatIsDownAreNotCalledBad", func(t *testing.T) {
		down := errors.New("down")
		_, err := tenants.ParseToken(text, func(feed.TenantID, string) (tenants.Secret, error) { return tenants.Secret{}, down })
		if !errors.Is(err, down) || errors.Is(err, tenants.ErrMalformed) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("AreNotMintedForLongOrForNobody", func(t *testing.T) {
		for _, bad := range []tenants.Token{{Tenant: "acme", Expires: in(2 * time.Hour)}, {Tenant: "acme", Expires: in(-time.Minute)}, {Tenant: "nobody", Expires: in(time.Minute)}} {
			if _, err := admin.Mint(t.Context(), bad); err == nil {
				t.Errorf("%+v: minted", bad)
			}
		}
	})
	t.Run("ExpireByTheSecond", func(t *testing.T) {
		short, err := admin.Mint(t.Context(), tenants.Token{Tenant: "acme", Expires: time.Now().Add(time.Second)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for {
			_, err := tenants.ParseToken(short, find)
			if errors.Is(err, tenants.ErrExpired) {
				return
			}
			select {
			case <-ctx.Done():
				t.Fatalf("never expired: %v", err)
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	url := serverstest.Database(t)
	admin, web := tenants.NewAdmin(poolAs(t, url, tenants.AdminRole)), storeAs(t, url, "feedrenderer_web")
	if err := admin.Create(t.Context(), tenants.Tenant{ID: "acme"}); err != nil {
		t.Fatal(err)
	}
	if err := admin.Create(t.Context(), tenants.Tenant{ID: "acme", Public: true}); !errors.Is(err, tenants.ErrExists) {
		t.Errorf("twice: got %v", err)
	}
	yes, n := true, int32(7)
	got, err := admin.Change(t.Context(), "acme", tenants.Change{Suspended: &yes, Limits: tenants.LimitsChange{Joins: &n}})
	want := tenants.Tenant{ID: "acme", Suspended: true, Limits: tenants.Limits{Joins: 7}}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if seen, err := web.Lookup(t.Context(), "acme"); err != nil || seen != want {
		t.Errorf("the web role sees %+v, %v", seen, err)
	}
	if _, err := admin.Change(t.Context(), "nobody", tenants.Change{}); !errors.Is(err, tenants.ErrUnknown) {
		t.Errorf("got %v, want ErrUnknown", err)
	}
	if got := want.Limits.Filled(); got.Joins != 7 || got.Sockets != 20_000 {
		t.Errorf("filled: %+v", got)
	}

	t.Run("IsWhatTheOtherRolesAreNot", func(t *testing.T) {
		t.Parallel()
		for _, role := range []string{"feedrenderer_web", "feedrenderer_render"} {
			other := tenants.NewAdmin(poolAs(t, url, role))
			_, changeErr := other.Change(t.Context(), "acme", tenants.Change{Public: &yes})
			_, _, keyErr := other.CreateKey(t.Context(), "acme", tenants.Operate, "", nil)
			for what, err := range map[string]error{"change": changeErr, "key": keyErr, "secret": other.RotateSecret(t.Context(), "acme")} {
				var denied *pgconn.PgError
				if !errors.As(err, &denied) || denied.Code != "42501" {
					if role == "feedrenderer_web" && errors.Is(err, tenants.ErrUnknown) {
						continue // it sees no tenant without naming it
					}
					t.Errorf("%s, %s: got %v, want permission to be denied", role, what, err)
				}
			}
		}
		if _, err := storeAs(t, url, "feedrenderer_render").Key(t.Context(), "acme", "X"); err == nil || errors.Is(err, tenants.ErrUnknown) {
			t.Errorf("the renderer reads keys: %v", err)
		}
	})
}

func FuzzParseKey(f *testing.F) {
	f.Add("frk_acme_ABCDEFGHIJKL_ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	f.Add("frk__")
	f.Fuzz(func(t *testing.T, text string) {
		key, err := tenants.ParseKey(text)
		if err == nil && key.Reveal() != text {
			t.Errorf("%q is read as %q", text, key.Reveal())
		}
	})
}

func FuzzParseToken(f *testing.F) {
	f.Add("eyJhbGciOiJIUzI1NiIsImtpZCI6IngiLCJ0eXAiOiJKV1QifQ.eyJ0ZW5hbnQiOiJhY21lIn0.AAAA")
	f.Add("..")
	f.Fuzz(func(t *testing.T, text string) {
		if token, err := tenants.ParseToken(text, func(feed.TenantID, string) (tenants.Secret, error) { return tenants.Secret{}, tenants.ErrUnknown }); err == nil {
			t.Errorf("%q is taken for %+v", text, token)
		}
	})
}
