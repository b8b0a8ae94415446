package timeline

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/codemojex/feedrenderer/feed"
)

// Scalar lookups by primary key: a join of thousands of keys might be planned as a scan.
const statusesSQL = `
select coalesce((select g.status from games g where g.tenant = k.tenant and g.game = k.game), '')
from unnest($1::text[], $2::text[]) with ordinality as k(tenant, game, no) order by k.no`

// Statuses says where games of any tenants stand, in the order of the keys: [feed.StatusUnknown] where there is no such
// game, or no event said it.
func (w *Writer) Statuses(ctx context.Context, keys []feed.GameKey) ([]feed.Status, error) {
	tenants, games := make([]string, len(keys)), make([]string, len(keys))
	for i, key := range keys {
		tenants[i], games[i] = string(key.Tenant), string(key.Game)
	}
	rows, _ := w.pool.Query(ctx, statusesSQL, tenants, games) // the error comes with the rows
	statuses, err := pgx.CollectRows(rows, pgx.RowTo[feed.Status])
	if err != nil {
		return nil, fmt.Errorf("statuses of %d games: %w", len(keys), err)
	}
	return statuses, nil
}
