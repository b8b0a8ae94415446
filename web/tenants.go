package web

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

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

// tenantCache remembers for a few seconds who may be watched, the unknown ones too. Many who ask at once cost one lookup.
type tenantCache struct {
	store  Tenants
	keep   time.Duration
	asking singleflight.Group

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

// admit returns nil where a tenant's games may be watched by anyone, [errNoSuch] where not, whatever the reason. While
// the store cannot be asked, what it said last still holds.
func (c *tenantCache) admit(ctx context.Context, id feed.TenantID) error {
	c.mu.Lock()
	last, ok := c.known[id]
	c.mu.Unlock()
	if !ok || time.Since(last.at) >= c.keep {
		asked := c.asking.DoChan(string(id), func() (any, error) { return c.ask(context.WithoutCancel(ctx), id) })
		select {
		case <-ctx.Done():
			return ctx.Err()
		case answer := <-asked:
			switch {
			case answer.Err == nil:
				last = answer.Val.(knownTenant)
			case !ok:
				return answer.Err
			default: // and is not asked again at once
				last.at = time.Now()
				c.remember(id, last)
			}
		}
	}
	if !last.open {
		return errNoSuch
	}
	return nil
}

func (c *tenantCache) ask(ctx context.Context, id feed.TenantID) (knownTenant, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	tenant, err := c.store.Lookup(ctx, id)
	if err != nil && !errors.Is(err, tenants.ErrUnknown) {
		return knownTenant{}, err
	}
	now := knownTenant{open: err == nil && tenant.Public && !tenant.Suspended, at: time.Now()}
	c.remember(id, now)
	return now, nil
}

func (c *tenantCache) remember(id feed.TenantID, tenant knownTenant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= tenantsKept {
		clear(c.known)
	}
	c.known[id] = tenant
}
