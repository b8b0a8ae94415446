package web

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
)

// register is a store of tenants that counts and fails at will.
type register struct {
	mu      sync.Mutex // guards what follows
	lookups int
	tenant  tenants.Tenant
	err     error
	open    chan struct{} // lookups wait for it
}

func (r *register) Lookup(context.Context, feed.TenantID) (tenants.Tenant, error) {
	<-r.open
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lookups++
	return r.tenant, r.err
}

func (r *register) say(tenant tenants.Tenant, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tenant, r.err = tenant, err
}

func TestBelieved(t *testing.T) {
	t.Parallel()
	r := &register{tenant: tenants.Tenant{Public: true}, open: make(chan struct{})}
	b := newBelieved(time.Hour, r.Lookup)

	t.Run("ManyWhoAskAtOnceCostOneLookup", func(t *testing.T) {
		var asking sync.WaitGroup
		for range 50 {
			asking.Go(func() {
				if got, err := b.of(t.Context(), "acme"); err != nil || !got.Public {
					t.Errorf("got %+v, %v", got, err)
				}
			})
		}
		close(r.open)
		asking.Wait()
		equal(t, r.lookups, 1)
	})

	t.Run("WhileTheStoreIsDownItsLastWordHolds", func(t *testing.T) {
		b.keep = 0
		down := errors.New("down")
		r.say(tenants.Tenant{}, down)
		if got, err := b.of(t.Context(), "acme"); err != nil || !got.Public {
			t.Errorf("got %+v, %v", got, err)
		}
		if _, err := b.of(t.Context(), "globex"); !errors.Is(err, down) {
			t.Errorf("one never heard of: %v", err)
		}
	})

	t.Run("ThatItIsUnknownIsBelievedToo", func(t *testing.T) {
		r.say(tenants.Tenant{}, tenants.ErrUnknown)
		for range 2 {
			if _, err := b.of(t.Context(), "acme"); !errors.Is(err, tenants.ErrUnknown) {
				t.Errorf("got %v", err)
			}
			r.say(tenants.Tenant{}, errors.New("down"))
		}
	})
}
