package render

import (
	"context"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
)

const (
	expiredPage = 1000 // games looked at by a statement
	dropStep    = 1000 // rows deleted by a statement
)

// expire ends the lines of a tenant's games that ended long enough ago, game by game, and rings for each, so that watchers
// start over at once. Then it deletes what is hidden, of earlier times too, in small steps.
func (u *Upkeep) expire(ctx context.Context, tenant tenants.Tenant) error {
	if days := tenant.Limits.RetentionDays; days > 0 {
		if err := u.raiseFloors(ctx, tenant.ID, daysAgo(days)); err != nil {
			return err
		}
	}
	for more := true; more; {
		var dropped int64
		var err error
		dropped, more, err = u.cfg.Timeline.Drop(ctx, tenant.ID, dropStep)
		u.metrics.dropped.WithLabelValues(string(tenant.ID)).Add(float64(dropped))
		if err != nil {
			return err
		}
	}
	return nil
}

func (u *Upkeep) raiseFloors(ctx context.Context, tenant feed.TenantID, before time.Time) error {
	for after, more := feed.GameID(""), true; more; more = after != "" {
		games, next, err := u.cfg.Timeline.Expired(ctx, tenant, before, after, expiredPage)
		if err != nil {
			return err
		}
		for _, game := range games {
			changes, err := u.cfg.Timeline.Expire(ctx, game, before)
			if err == nil && len(changes) > 0 {
				u.metrics.expired.WithLabelValues(string(tenant)).Inc()
				err = u.cfg.Doorbell.Publish(ctx, changes)
			}
			if err != nil {
				return err
			}
		}
		after = next
	}
	return nil
}

func daysAgo(days int) time.Time { return time.Now().UTC().AddDate(0, 0, -days) }
