package timeline

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/codemojex/feedrenderer/feed"
)

// NewRerenderer returns a writer of lines that are rendered anew. It locks the games of a batch before it looks at their
// lines: what others write at the same time is then there to be seen, and a line that it hides, however short it was shown,
// changes the epoch. Other writers do without: what they race with is the first rendering of the same line.
func NewRerenderer(pool *pgxpool.Pool) *Writer { return &Writer{pool: pool, locksFirst: true} }

const lockSQL = `
select from games as g join unnest($1::text[], $2::text[]) as k (tenant, game) on g.tenant = k.tenant and g.game = k.game
order by g.tenant, g.game for update of g`

// lockAndAsk sends both statements at once, as one transaction of which the second sees what was committed until the
// first had the locks: no lock waits for us.
func (w *Writer) lockAndAsk(ctx context.Context, b *batch, sql string, args []any) (answers []answer, err error) {
	both := &pgx.Batch{}
	both.Queue(lockSQL, b.games.tenants, b.games.games)
	both.Queue(sql, args...)
	results := w.pool.SendBatch(ctx, both)
	if _, err = results.Exec(); err == nil {
		rows, _ := results.Query() // the error comes with the rows
		answers, err = pgx.CollectRows(rows, pgx.RowToStructByPos[answer])
	}
	if closed := results.Close(); err == nil {
		err = closed
	}
	return answers, err
}

// Kept is what is kept of the events of a line, for rendering them anew.
type Kept struct {
	Game      feed.GameID
	Evt       feed.ID
	Base      KeptEvent // Version -1: there is none
	Amendment KeptEvent // likewise
}

// KeptEvent is an event as it came.
type KeptEvent struct {
	ID      feed.ID
	Version int    // of the event's kind, by which it was rendered last
	Raw     []byte // as feed.Fields.Raw packs it
}

// Keys are (tenant, game, evt), so both bounds are of the index.
const keptSQL = `
select game, evt, evt, base_kv, base_raw, amend_by, amend_kv, amend_raw from lines
where tenant = $1 and (game, evt) > ($2, $3) and game <= $4
order by game, evt limit $5`

// afterAllGames is above every name of a game in the order of bytes.
const afterAllGames = "~"

// Kept reads what is kept of a game, or where that is "" of all games of a tenant, hidden lines too: the lines behind the
// one given, in order of game and EVT id.
func (w *Writer) Kept(ctx context.Context, of feed.GameKey, after feed.GameID, evt feed.ID, limit int) ([]Kept, error) {
	last := string(of.Game)
	if last == "" {
		last = afterAllGames
	} else if after == "" {
		after, evt = of.Game, -1
	}
	rows, _ := w.pool.Query(ctx, keptSQL, string(of.Tenant), string(after), int64(evt), last, limit) // the error comes with the rows
	kept, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (k Kept, err error) {
		err = row.Scan(&k.Game, &k.Evt, &k.Base.ID, &k.Base.Version, &k.Base.Raw, &k.Amendment.ID, &k.Amendment.Version, &k.Amendment.Raw)
		return k, err
	})
	if err != nil {
		return nil, fmt.Errorf("kept events of %s: %w", of, err)
	}
	return kept, nil
}

const keptCountSQL = `select count(*) from lines where tenant = $1 and game >= $2 and game <= $3`

// KeptCount counts the lines that Kept reads from the first on.
func (w *Writer) KeptCount(ctx context.Context, of feed.GameKey) (n int64, err error) {
	last := string(of.Game)
	if last == "" {
		last = afterAllGames
	}
	if err := w.pool.QueryRow(ctx, keptCountSQL, string(of.Tenant), string(of.Game), last).Scan(&n); err != nil {
		return 0, fmt.Errorf("count lines of %s: %w", of, err)
	}
	return n, nil
}
