package timeline

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/codemojex/feedrenderer/feed"
)

// store runs the statement and reads all of its answer: rows come before the commit, and only their end without an
// error says that it happened.
func (w *Writer) store(ctx context.Context, b *batch) ([]feed.Change, error) {
	g, l := &b.games, &b.lines
	sql, args := openSQL, []any{g.tenants, g.games, g.events}
	if !b.opens {
		sql, args = storeSQL, append(args, g.startedBy)
		for i := range g.registers {
			r := &g.registers[i]
			args = append(args, r.values, r.by, r.versions)
		}
	}
	args = append(args, l.no, l.ordinals, l.evts, l.baseVersions, l.public, l.modal, l.actors, l.points, l.bases, l.baseRaws)
	if !b.opens {
		args = append(args, l.amendBys, l.amendVersions, l.retracted, l.amendments, l.amendRaws)
	}
	answers, err := w.ask(ctx, b, sql, args)
	if err != nil {
		return nil, err
	}
	return b.changes(answers)
}

func (w *Writer) ask(ctx context.Context, b *batch, sql string, args []any) ([]answer, error) {
	if w.locksFirst {
		return w.lockAndAsk(ctx, b, sql, args)
	}
	rows, _ := w.pool.Query(ctx, sql, args...) // the error comes with the rows
	return pgx.CollectRows(rows, pgx.RowToStructByPos[answer])
}

// answer is a game of the batch, or where it has an Evt a line that changed.
type answer struct {
	Tenant, Game    string
	Epoch           *string
	From            *int64
	Ver             int64
	Released        *bool
	Mode            *string
	Evt             *int64
	Base, Amendment []byte // JSON; nil for the base that the batch wrote, and where there is no amendment
}

func (a *answer) game() feed.GameKey {
	return feed.GameKey{Tenant: feed.TenantID(a.Tenant), Game: feed.GameID(a.Game)}
}

func (b *batch) changes(answers []answer) ([]feed.Change, error) {
	changes := make([]feed.Change, len(b.keys))
	for _, a := range answers {
		if a.Evt != nil {
			continue
		}
		key := a.game()
		i, err := b.game(key)
		if err != nil {
			return nil, err
		}
		changes[i] = feed.Change{Game: key, Epoch: *a.Epoch, From: *a.From, To: a.Ver, Released: *a.Released, Mode: feed.Mode(*a.Mode)}
	}
	for _, a := range answers {
		if a.Evt == nil {
			continue
		}
		i, err := b.game(a.game())
		if err != nil {
			return nil, err
		}
		change := &changes[i]
		line, err := parseLine(feed.ID(*a.Evt), a.Ver, a.Base, a.Amendment)
		if err != nil {
			return nil, err
		}
		if line.Base == nil { // stored as this batch wrote it
			line.Base = b.rowsOf(i)[a.Ver-change.From-1].First.Value.value
		}
		change.Lines = append(change.Lines, line)
	}
	for i := range changes {
		slices.SortFunc(changes[i].Lines, func(x, y feed.ChangedLine) int { return cmp.Compare(x.Ver, y.Ver) })
	}
	return changes, nil
}

// parseLine reads the registers of a stored line; nil JSON is an absent one.
func parseLine(evt feed.ID, ver int64, base, amendment []byte) (feed.ChangedLine, error) {
	line := feed.ChangedLine{Evt: evt, Ver: ver}
	if base != nil {
		line.Base = new(feed.Base)
		if err := json.Unmarshal(base, line.Base); err != nil {
			return line, fmt.Errorf("stored base of line %s: %w", evt, err)
		}
	}
	if amendment != nil {
		line.Amendment = new(feed.Amendment)
		if err := json.Unmarshal(amendment, line.Amendment); err != nil {
			return line, fmt.Errorf("stored amendment of line %s: %w", evt, err)
		}
	}
	return line, nil
}
