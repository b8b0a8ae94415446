package timeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/codemojex/feedrenderer/feed"
)

// ErrEpoch is wrapped where a cursor is of another epoch, or of a version that was not given out yet: whoever holds it
// must start anew.
var ErrEpoch = errors.New("cursor of another epoch")

// Changes are the lines that changed in versions (From, To], each once, as it reads now.
type Changes struct {
	Epoch    string
	From, To int64
	Lines    []feed.View // in order of version
	More     bool        // To is the version of the last line, and there are changes above it
}

// The condition ver > 0 says nothing but lets the version index be used; "is true" says nothing either but keeps the
// index of public lines out, in which changes have no order.
const changesSQL = `
with g as materialized (select seed, ver, released, mode, floor from games where tenant = $1 and game = $2)
select g.seed || (select epoch from server_epoch), g.ver, g.mode, c.evt, c.ver, c.base, c.amendment
from g left join lateral (
  (select l.evt, l.ver, l.base, l.amendment from lines as l
    where (select released from g) and l.tenant = $1 and l.game = $2 and l.ver > $3 and l.ver > 0
      and l.evt > (select floor from g) and l.base_kv >= 0
    order by l.ver limit $4)
  union all
  (select l.evt, l.ver, l.base, l.amendment from lines as l
    where not (select released from g) and l.tenant = $1 and l.game = $2 and l.ver > $3 and l.ver > 0
      and l.evt > (select floor from g) and l.public is true
    order by l.ver limit $4)
) as c on true
order by c.ver`

// Changes reads what changed since a cursor, at most limit lines.
func (r *Reader) Changes(ctx context.Context, key feed.GameKey, since feed.Cursor, limit int) (Changes, error) {
	var head feed.Cursor
	var lines []feed.View
	args := []any{string(key.Tenant), string(key.Game), since.Ver, limit + 1}
	err := r.ask(ctx, claimant{tenant: key.Tenant}, changesSQL, args, func(rows pgx.Rows) (err error) {
		head, lines, err = readLines(rows)
		return err
	})
	if err == nil && (head.Epoch != since.Epoch || head.Ver < since.Ver) {
		err = ErrEpoch
	}
	if err != nil {
		return Changes{}, fmt.Errorf("changes of %s since %s: %w", key, since, err)
	}
	changes := Changes{Epoch: head.Epoch, From: since.Ver, To: head.Ver, Lines: lines}
	if changes.More = len(lines) > limit; changes.More {
		changes.Lines = lines[:limit]
		changes.To = lines[limit-1].Ver
	}
	return changes, nil
}
