package render

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

// Claims gives out tenants to be seen to: to each who asks others.
type Claims interface {
	// Claim returns tenants that nobody claimed for so long, at most so many.
	Claim(ctx context.Context, every time.Duration, most int) ([]tenants.Tenant, error)
}

// Expiry ends lines and deletes them.
type Expiry interface {
	// Expired lists games that ended before an instant and have lines from before it. It looks at most games behind one,
	// and says behind which to go on, "" where there are no more.
	Expired(ctx context.Context, tenant feed.TenantID, before time.Time, after feed.GameID, most int) (expired []feed.GameKey, next feed.GameID, err error)
	// Expire hides such lines of a game for good, and answers the change to ring for, if it did.
	Expire(ctx context.Context, game feed.GameKey, before time.Time) ([]feed.Change, error)
	// Drop deletes hidden lines of a tenant, at most so many, and reports whether it is to be called again.
	Drop(ctx context.Context, tenant feed.TenantID, most int) (dropped int64, more bool, err error)
}

// UpkeepConfig is what clearing up needs.
type UpkeepConfig struct {
	Client   valkey.Client // shared; may be of a cluster
	Group    string        // of the consumer: what it has not settled stays, and without it everything does
	Tenants  Claims
	Timeline Expiry
	Doorbell Doorbell
	Logger   *slog.Logger // nil: no logs

	// Every is the time between two clearings up of a tenant, by whichever renderer. 10 min
	Every time.Duration
	// Grace is how long another group must be silent to hold nothing of a stream any more. 7 days
	Grace time.Duration
}

// Upkeep lets go of what tenants keep no longer: lines of games that ended so many days ago, and entries of so many days
// ago that every group has settled. The renderers share the tenants among themselves. It is a prometheus.Collector.
type Upkeep struct {
	cfg     UpkeepConfig
	metrics upkeepMetrics
	failing bool                  // the last pass failed, and was logged; belongs to the goroutine of Run
	passed  map[foreignGroup]bool // dead groups that were told of; likewise
}

// foreignGroup is a group on streams of a tenant that is none of ours.
type foreignGroup struct {
	tenant feed.TenantID
	name   string
}

const (
	claimedAtOnce = 100              // tenants: their streams are found in one pass over the keys
	longestLook   = 30 * time.Second // between two looks for tenants whose turn it is
)

// NewUpkeep returns an Upkeep that has done nothing yet.
func NewUpkeep(cfg UpkeepConfig) *Upkeep {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Every == 0 {
		cfg.Every = 10 * time.Minute
	}
	return &Upkeep{cfg: cfg, metrics: newUpkeepMetrics(), passed: make(map[foreignGroup]bool)}
}

// Run clears up until ctx ends, and returns nil then.
func (u *Upkeep) Run(ctx context.Context) error {
	for {
		u.report(ctx, u.Pass(ctx))
		look := min(u.cfg.Every, longestLook)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(look/2 + rand.N(look/2+1)): // renderers that start together do not look together
		}
	}
}

// report logs the first of several failures, and the end of them.
func (u *Upkeep) report(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil: // being stopped
	case err != nil:
		u.metrics.failures.Inc()
		if !u.failing {
			u.cfg.Logger.Warn("clearing up failed: old lines and entries stay for now", "err", err)
		}
		u.failing = true
	case u.failing:
		u.failing = false
		u.cfg.Logger.Info("clearing up works again")
	}
}

// Pass clears up after all tenants whose turn it is. A fault of one keeps none of the others; while the store is down all
// wait for their next turn. It is not to be called beside Run.
func (u *Upkeep) Pass(ctx context.Context) error {
	var faults []error
	for more := true; more && ctx.Err() == nil; {
		due, err := u.cfg.Tenants.Claim(ctx, u.cfg.Every, claimedAtOnce)
		if err != nil {
			return err
		}
		for _, tenant := range due {
			err := u.expire(ctx, tenant)
			faults = append(faults, err)
			if timeline.Unavailable(err) {
				break
			}
		}
		faults = append(faults, u.trim(ctx, due))
		more = len(due) == claimedAtOnce
	}
	return errors.Join(faults...)
}
