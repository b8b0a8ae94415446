package tenants_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

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

func TestClaim(t *testing.T) {
	t.Parallel()
	url := serverstest.Database(t)
	store, admin := storeAs(t, url, "feedrenderer_render"), tenants.NewAdmin(poolAs(t, url, tenants.AdminRole))
	if err := store.Ensure(t.Context(), []feed.TenantID{"a", "b", "c"}); err != nil {
		t.Fatal(err)
	}
	claim := func(every time.Duration, most int) []string {
		t.Helper()
		due, err := store.Claim(t.Context(), every, most)
		if err != nil {
			t.Fatal(err)
		}
		names := make([]string, len(due))
		for i := range due {
			names[i] = string(due[i].ID)
		}
		slices.Sort(names)
		return names
	}

	t.Run("ATenantIsDueOnceInEachPeriod", func(t *testing.T) {
		if got := claim(time.Hour, 9); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("got %v", got)
		}
		if got := claim(time.Hour, 9); len(got) != 0 {
			t.Errorf("again: %v", got)
		}
		if got := claim(0, 2); len(got) != 2 {
			t.Errorf("once more, two at most: %v", got)
		}
	})
	t.Run("AChangedOneIsDueAtOnceWithWhatItIsNow", func(t *testing.T) {
		days := int32(30)
		if _, err := admin.Change(t.Context(), "b", tenants.Change{Limits: tenants.LimitsChange{RetentionDays: &days, StreamDays: &days}}); err != nil {
			t.Fatal(err)
		}
		due, err := store.Claim(t.Context(), time.Hour, 9)
		if want := (tenants.Tenant{ID: "b", Public: true, Limits: tenants.Limits{RetentionDays: 30, StreamDays: 30}}); err != nil || len(due) != 1 || due[0] != want {
			t.Errorf("got %+v, %v", due, err)
		}
	})
	t.Run("WhoAskAtOnceGetDifferentOnes", func(t *testing.T) {
		var mu sync.Mutex
		var claimed []string
		var renderers sync.WaitGroup
		if _, err := poolAs(t, url, tenants.AdminRole).Exec(t.Context(), `update tenants set tended_at = '-infinity'`); err != nil {
			t.Fatal(err)
		}
		for range 8 {
			renderers.Go(func() {
				due, err := store.Claim(t.Context(), time.Hour, 1)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				for i := range due {
					claimed = append(claimed, string(due[i].ID))
				}
			})
		}
		renderers.Wait()
		if slices.Sort(claimed); !slices.Equal(claimed, slices.Compact(slices.Clone(claimed))) || len(claimed) == 0 {
			t.Errorf("claimed %v", claimed)
		}
	})
	t.Run("DaysHaveABound", func(t *testing.T) {
		for _, days := range []int32{-1, tenants.MaxDays + 1} {
			for _, limits := range []tenants.LimitsChange{{RetentionDays: &days}, {StreamDays: &days}} {
				if limits.Check() == nil {
					t.Errorf("%d days pass", days)
				}
				if _, err := admin.Change(t.Context(), "a", tenants.Change{Limits: limits}); err == nil {
					t.Errorf("the database takes %d days", days)
				}
			}
		}
	})
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
