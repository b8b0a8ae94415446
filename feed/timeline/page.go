package timeline

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codemojex/feedrenderer/feed"
)

// PageQuery selects lines by place. The zero query is the newest lines.
type PageQuery struct {
	Before, After *feed.ID // both exclusive; After selects the lines nearest above it
	Limit         int

	// Filters go by what a line shows; retracted lines match none of them. "" is no filter.
	Kind, Actor string
	Q           string // found, whatever its case, in the values of fields or the text of an amendment

	From, To time.Time // by the time in the id, both inclusive, to the millisecond; zero is no bound
}

// Page is a piece of a timeline.
type Page struct {
	Lines  []feed.View // newest first
	More   bool        // beyond these in the direction of paging
	Cursor feed.Cursor // of the game
}

// Released games and others are two branches, each with an index of its own; the condition without a row of lines is
// decided once, and the other branch is never run.
const (
	pageGameSQL = `
with g as materialized (select seed, ver, released, mode, floor from games where tenant = $1 and game = $2),
p as (
  (select l.evt, l.ver, l.base, l.amendment from lines as l
    where (select released from g) and l.tenant = $1 and l.game = $2 and l.base_kv >= 0` + pageFilterSQL
	pageElseSQL = ` limit $5)
  union all
  (select l.evt, l.ver, l.base, l.amendment from lines as l
    where not (select released from g) and l.tenant = $1 and l.game = $2 and l.public` + pageFilterSQL
	pageFilterSQL = ` and l.evt between $3 and $4 and l.evt > (select floor from g)
      and ($6 = '' and $7 = '' and $8 = '' or not l.retracted)
      and ($6 = '' or l.base ->> 'kind' = $6)
      and ($7 = '' or $7 = case when l.modal then line_field(l.base, l.amendment, (select mode from g), l.base ->> 'actor') else l.actor end)
      and ($8 = '' or line_says(l.base, l.amendment, (select mode from g), $8))`
	pageEndSQL = ` limit $5)
)
select g.seed || (select epoch from server_epoch), g.ver, g.mode, p.evt, p.ver, p.base, p.amendment from g left join p on true`

	olderSQL = pageGameSQL + ` order by l.evt desc` + pageElseSQL + ` order by l.evt desc` + pageEndSQL + ` order by p.evt desc`
	newerSQL = pageGameSQL + ` order by l.evt` + pageElseSQL + ` order by l.evt` + pageEndSQL + ` order by p.evt`
)

// Page reads lines in order of their ids.
func (r *Reader) Page(ctx context.Context, key feed.GameKey, q PageQuery) (Page, error) {
	sql := olderSQL
	if q.After != nil {
		sql = newerSQL
	}
	var page Page
	err := r.ask(ctx, claimant{key.Tenant, q.filters()}, sql, q.args(key), func(rows pgx.Rows) (err error) {
		page, err = q.read(rows)
		return err
	})
	if err != nil {
		return Page{}, fmt.Errorf("page of %s: %w", key, err)
	}
	return page, nil
}

// filters reports whether lines are looked at that may not be on the page.
func (q *PageQuery) filters() bool { return q.Kind != "" || q.Actor != "" || q.Q != "" }

func (q *PageQuery) args(key feed.GameKey) []any {
	low, high := int64(0), int64(math.MaxInt64)
	if !q.From.IsZero() {
		low = int64(feed.IDAt(q.From))
	}
	if !q.To.IsZero() {
		if end := int64(feed.IDAt(q.To.Add(time.Millisecond))); end != math.MaxInt64 {
			high = end - 1
		}
	}
	if q.Before != nil {
		high = min(high, int64(*q.Before)-1)
	}
	if q.After != nil && *q.After == math.MaxInt64 {
		high = -1 // nothing is above the last id
	} else if q.After != nil {
		low = max(low, int64(*q.After)+1)
	}
	return []any{string(key.Tenant), string(key.Game), low, high, q.Limit + 1, q.Kind, q.Actor, q.Q}
}

// read takes the rows of olderSQL or newerSQL.
func (q *PageQuery) read(rows pgx.Rows) (Page, error) {
	head, lines, err := readLines(rows)
	if err != nil {
		return Page{}, err
	}
	page := Page{Lines: lines, Cursor: head}
	if page.More = len(lines) > q.Limit; page.More {
		page.Lines = lines[:q.Limit]
	}
	if q.After != nil {
		slices.Reverse(page.Lines)
	}
	return page, nil
}

// readLines reads rows of (epoch, ver, mode) of the game with (evt, ver, base, amendment) of a line, or with nulls in
// its place where there are no lines. No row at all is ErrNotFound.
func readLines(rows pgx.Rows) (feed.Cursor, []feed.View, error) {
	defer rows.Close()
	var cursor feed.Cursor
	var mode feed.Mode
	var evt, ver *int64
	var base, amendment []byte
	lines := []feed.View{}
	found := false
	for rows.Next() {
		found = true
		if err := rows.Scan(&cursor.Epoch, &cursor.Ver, &mode, &evt, &ver, &base, &amendment); err != nil {
			return cursor, nil, err
		}
		if evt == nil {
			continue
		}
		line, err := parseLine(feed.ID(*evt), *ver, base, amendment)
		if err != nil {
			return cursor, nil, err
		}
		view := feed.Fold(line.Evt, mode, line.Base, line.Amendment)
		view.Ver = line.Ver
		lines = append(lines, view)
	}
	if err := rows.Err(); err != nil {
		return cursor, nil, err
	}
	if !found {
		return cursor, nil, ErrNotFound
	}
	return cursor, lines, nil
}

// Line reads one line, if it may be seen.
func (r *Reader) Line(ctx context.Context, key feed.GameKey, evt feed.ID) (feed.View, error) {
	q := PageQuery{Limit: 1}
	args := q.args(key)
	args[2], args[3] = int64(evt), int64(evt)
	var page Page
	err := r.ask(ctx, claimant{tenant: key.Tenant}, olderSQL, args, func(rows pgx.Rows) (err error) {
		page, err = q.read(rows)
		return err
	})
	if err == nil && len(page.Lines) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return feed.View{}, fmt.Errorf("line %s of %s: %w", evt, key, err)
	}
	return page.Lines[0], nil
}
