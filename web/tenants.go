package web

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
)

// Tenants looks tenants up.
type Tenants interface {
	// Lookup wraps tenants.ErrUnknown for a tenant that does not exist.
	Lookup(ctx context.Context, id feed.TenantID) (tenants.Tenant, error)
}

// errNoSuch is the one answer for tenants, games and lines that are unknown, foreign or forbidden.
var errNoSuch = errors.New("no such tenant, game or line")

// tenantCache remembers for a few seconds who may be watched, the unknown ones too.
type tenantCache struct {
	store Tenants
	keep  time.Duration

	mu    sync.Mutex // guards known
	known map[feed.TenantID]knownTenant
}

type knownTenant struct {
	open bool
	at   time.Time
}

// tenantsKept bounds the cache: names are cheap to make up.
const tenantsKept = 10_000

func newTenantCache(store Tenants, keep time.Duration) *tenantCache {
	return &tenantCache{store: store, keep: keep, known: map[feed.TenantID]knownTenant{}}
}

// admit returns nil where a tenant's games may be watched by anyone, [errNoSuch] where not, whatever the reason.
func (c *tenantCache) admit(ctx context.Context, id feed.TenantID) error {
	now := time.Now()
	c.mu.Lock()
	each, ok := c.known[id]
	c.mu.Unlock()
	if !ok || now.Sub(each.at) >= c.keep {
		tenant, err := c.store.Lookup(ctx, id)
		if err != nil && !errors.Is(err, tenants.ErrUnknown) {
			return err
		}
		each = knownTenant{open: err == nil && tenant.Public && !tenant.Suspended, at: now}
		c.mu.Lock()
		if len(c.known) >= tenantsKept {
			clear(c.known)
		}
		c.known[id] = each
		c.mu.Unlock()
	}
	if !each.open {
		return errNoSuch
	}
	return nil
}
