package render

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/consumer"
	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
)

// retryDays is how long settled entries of retry streams are kept. Those are ours alone, and nobody reads them twice.
const retryDays = 1

// trim lets go of old entries that all have settled: of the tenants' retry streams, and of the streams of games where the
// tenant says how old they may become.
func (u *Upkeep) trim(ctx context.Context, due []tenants.Tenant) error {
	var faults []error
	before := make(map[feed.TenantID]time.Time)
	for _, tenant := range due {
		faults = append(faults, u.trimStream(ctx, tenant.ID, tenant.ID.RetryStream(), daysAgo(retryDays)))
		if days := tenant.Limits.StreamDays; days > 0 {
			before[tenant.ID] = daysAgo(days)
		}
	}
	if len(before) > 0 {
		faults = append(faults, u.trimGames(ctx, before))
	}
	return errors.Join(faults...)
}

// trimGames finds the streams of some tenants in one pass over the keys.
func (u *Upkeep) trimGames(ctx context.Context, before map[feed.TenantID]time.Time) error {
	nodes, err := primaries(ctx, u.cfg.Client)
	if err != nil {
		return err
	}
	var faults []error
	for _, node := range nodes {
		faults = append(faults, u.trimNode(ctx, node, before))
	}
	return errors.Join(faults...)
}

func (u *Upkeep) trimNode(ctx context.Context, node valkey.Client, before map[feed.TenantID]time.Time) error {
	for cursor, last := uint64(0), false; !last; {
		page, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(feed.StreamPattern).Count(pageKeys).Build()).AsScanEntry()
		if err != nil {
			return fmt.Errorf("scan: %w", err)
		}
		for _, key := range page.Elements {
			game, err := feed.ParseStream(key)
			if at, ok := before[game.Tenant]; err == nil && ok {
				if err := u.trimStream(ctx, game.Tenant, key, at); err != nil {
					return err
				}
			}
		}
		cursor, last = page.Cursor, page.Cursor == 0
	}
	return nil
}

func (u *Upkeep) trimStream(ctx context.Context, tenant feed.TenantID, key string, before time.Time) error {
	trimmed, err := consumer.Trim(ctx, u.cfg.Client, key, consumer.TrimPolicy{Before: before, Needs: u.cfg.Group, Grace: u.cfg.Grace})
	u.metrics.trimmed.WithLabelValues(string(tenant)).Add(float64(trimmed.Removed))
	if trimmed.Held != "" {
		u.metrics.held.WithLabelValues(string(tenant), trimmed.Held).Inc()
	}
	for _, group := range trimmed.Dead {
		u.metrics.passed.WithLabelValues(string(tenant), group).Inc()
		if of := (foreignGroup{tenant, group}); !u.passed[of] {
			u.passed[of] = true
			u.cfg.Logger.Warn("a group has been silent for so long that what it never settled is trimmed away", "tenant", tenant, "group", group, "stream", key)
		}
	}
	if errors.Is(err, consumer.ErrNotStream) { // discovery is loud about it
		return nil
	}
	return err
}
