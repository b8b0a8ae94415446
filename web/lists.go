package web

import (
	"context"
	"fmt"

	"golang.org/x/sync/singleflight"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

// lists reads pages of games. It is the costliest read there is, for each game is counted anew: of many who ask for the
// same page at once, as when a lobby's watchers come back together, one asks the table.
type lists struct {
	table   games
	reading singleflight.Group
}

func (l *lists) of(ctx context.Context, tenant feed.TenantID, q timeline.GamesQuery) ([]feed.Game, error) {
	read := l.reading.DoChan(fmt.Sprintf("%s %+v", tenant, q), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTime)
		defer cancel()
		return l.table.Games(ctx, tenant, q)
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case answer := <-read:
		if answer.Err != nil {
			return nil, answer.Err
		}
		return answer.Val.([]feed.Game), nil
	}
}
