package web

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
)

// limits hold each tenant to what it may use in this process. What it may is read with the tenant, so that a change
// takes effect as soon as the tenant is read anew.
type limits struct {
	tenant func(context.Context, feed.TenantID) (tenants.Tenant, error)

	strikes int // credentials that are nobody's, of one address, at once

	mu        sync.Mutex // guards what follows
	uses      map[feed.TenantID]*use
	strangers map[string]*rate.Limiter // by address of the peer
}

// use is what a tenant uses.
type use struct {
	sockets                 int // guarded by limits
	requests, joins, events *rate.Limiter
}

const (
	strikesASecond = 20 // credentials of one address that are nobody's
	strikesAtOnce  = 100
	strangersKept  = 10_000
	joinPatience   = 5 * time.Second // how long a subscription waits for its turn
	comeBack       = 5 * time.Second // after a limit that does not say when it ends
)

func newLimits(tenant func(context.Context, feed.TenantID) (tenants.Tenant, error)) *limits {
	return &limits{tenant: tenant, strikes: strikesAtOnce, uses: map[feed.TenantID]*use{}, strangers: map[string]*rate.Limiter{}}
}

// of returns what a tenant uses and what it may. Only tenants that exist come here, so there are not too many.
func (l *limits) of(ctx context.Context, id feed.TenantID) (*use, tenants.Limits, error) {
	tenant, err := l.tenant(ctx, id)
	if err != nil {
		return nil, tenants.Limits{}, err
	}
	may := tenant.Limits.Filled()
	l.mu.Lock()
	defer l.mu.Unlock()
	u, ok := l.uses[id]
	if !ok {
		u = &use{requests: limiter(may.Requests), joins: limiter(may.Joins), events: limiter(may.Events)}
		l.uses[id] = u
	}
	tune(u.requests, may.Requests)
	tune(u.joins, may.Joins)
	tune(u.events, may.Events)
	return u, may, nil
}

// limiter lets through so many a second, and a second's worth at once.
func limiter(perSecond int) *rate.Limiter { return rate.NewLimiter(rate.Limit(perSecond), perSecond) }

func tune(l *rate.Limiter, perSecond int) {
	if l.Burst() != perSecond {
		l.SetLimit(rate.Limit(perSecond))
		l.SetBurst(perSecond)
	}
}

// request counts one.
func (l *limits) request(ctx context.Context, id feed.TenantID) error {
	u, _, err := l.of(ctx, id)
	if err == nil && !u.requests.Allow() {
		err = tooMany("the tenant's limit of requests a second is reached", time.Second)
	}
	return err
}

// append counts events, of which a batch may not hold more than a second's worth.
func (l *limits) append(ctx context.Context, id feed.TenantID, n int) error {
	u, _, err := l.of(ctx, id)
	if err != nil {
		return err
	}
	now := time.Now()
	turn := u.events.ReserveN(now, n)
	if wait := turn.DelayFrom(now); wait > 0 {
		turn.CancelAt(now)
		return tooMany("the tenant's limit of events a second is reached", min(wait, time.Minute))
	}
	return nil
}

// join waits for the turn of a subscription. It fails where that is too far off.
func (l *limits) join(ctx context.Context, id feed.TenantID) error {
	u, _, err := l.of(ctx, id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	if u.joins.Wait(ctx) != nil {
		return tooMany("the tenant's limit of subscriptions a second is reached", comeBack)
	}
	return nil
}

// enter counts an open socket or event stream; leave is to be called once for each that entered.
func (l *limits) enter(ctx context.Context, id feed.TenantID) error {
	u, may, err := l.of(ctx, id)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if u.sockets >= may.Sockets {
		return tooMany("the tenant's limit of open sockets is reached", comeBack)
	}
	u.sockets++
	return nil
}

func (l *limits) leave(id feed.TenantID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uses[id].sockets--
}

// stranger fails where an address has shown too many credentials that were nobody's.
func (l *limits) stranger(peer string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.strangers[peer]; ok && known.Tokens() < 1 {
		return tooMany("too many keys or tokens that are not good", time.Second)
	}
	return nil
}

func (l *limits) strike(peer string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, ok := l.strangers[peer]
	if !ok {
		if len(l.strangers) >= strangersKept {
			clear(l.strangers)
		}
		known = rate.NewLimiter(strikesASecond, l.strikes)
		l.strangers[peer] = known
	}
	known.Allow()
}
