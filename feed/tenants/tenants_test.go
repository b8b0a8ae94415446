package tenants_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

func TestMain(m *testing.M) { serverstest.Main(m) }

func TestStore(t *testing.T) {
	t.Parallel()
	url := serverstest.Database(t)
	render, web := storeAs(t, url, "feedrenderer_render"), storeAs(t, url, "feedrenderer_web")
	if err := render.Ensure(t.Context(), []feed.TenantID{"zeta", "acme", "acme"}); err != nil {
		t.Fatal(err)
	}

	t.Run("WhatIsEnsuredIsPublic", func(t *testing.T) {
		for _, store := range []*tenants.Store{render, web} {
			got, err := store.Lookup(t.Context(), "acme")
			if want := (tenants.Tenant{ID: "acme", Public: true}); err != nil || got != want {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		}
	})
	t.Run("OthersAreUnknown", func(t *testing.T) {
		for _, id := range []feed.TenantID{"other", "", "no name"} {
			if _, err := web.Lookup(t.Context(), id); !errors.Is(err, tenants.ErrUnknown) {
				t.Errorf("%q: got %v, want ErrUnknown", id, err)
			}
		}
	})
	t.Run("ListIsInOrder", func(t *testing.T) {
		got, err := render.List(t.Context())
		if want := []tenants.Tenant{{ID: "acme", Public: true}, {ID: "zeta", Public: true}}; err != nil || !slices.Equal(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	})
	t.Run("TheWebRoleListsNoneAndMakesNone", func(t *testing.T) {
		if got, err := web.List(t.Context()); err != nil || len(got) != 0 {
			t.Errorf("got %+v, %v", got, err)
		}
		var denied *pgconn.PgError
		if err := web.Ensure(t.Context(), []feed.TenantID{"own"}); !errors.As(err, &denied) || denied.Code != "42501" {
			t.Errorf("got %v, want permission to be denied", err)
		}
	})
	t.Run("ABadNameIsRefused", func(t *testing.T) {
		if err := render.Ensure(t.Context(), []feed.TenantID{"Bad Name"}); err == nil {
			t.Error("got no error")
		}
	})
}

func TestEnsureMayRunAtTheSameTime(t *testing.T) {
	t.Parallel()
	store := storeAs(t, serverstest.Database(t), "feedrenderer_render")
	var processes sync.WaitGroup
	for i := range 8 {
		processes.Go(func() {
			ids := []feed.TenantID{"a", "b", "c", "d"}
			if i%2 == 0 {
				slices.Reverse(ids)
			}
			if err := store.Ensure(t.Context(), ids); err != nil {
				t.Error(err)
			}
		})
	}
	processes.Wait()
	if list, err := store.List(t.Context()); err != nil || len(list) != 4 {
		t.Errorf("got %+v, %v", list, err)
	}
}

func storeAs(t *testing.T, url, role string) *tenants.Store {
	t.Helper()
	return tenants.NewStore(poolAs(t, url, role))
}

func poolAs(t *testing.T, url, role string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["role"] = role
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}
