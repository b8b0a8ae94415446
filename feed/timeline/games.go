package timeline

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codemojex/feedrenderer/feed"
)

// tallySQL derives counts and board of each game of "g" from the lines that may be seen and are not retracted. The
// columns actor and points hold where the mode has no say; elsewhere the line is folded.
const tallySQL = `
select g.game, g.title, g.status, g.status_by, g.mode, g.pool, g.ends_at, g.started_by, g.released, g.seed || (select epoch from server_epoch), g.ver,
  tally.lines, tally.players, tally.board
from g cross join lateral (
  with told as (
    select case when modal then line_field(base, amendment, g.mode, base ->> 'actor') else actor end as actor,
      case when modal then line_points(base, amendment, g.mode) else points end as points
    from (
      select modal, actor, points, base, amendment from lines as l
      where g.released and l.tenant = $1 and l.game = g.game and l.evt > g.floor and base_kv >= 0 and not retracted
      union all
      select modal, actor, points, base, amendment from lines as l
      where not g.released and l.tenant = $1 and l.game = g.game and l.evt > g.floor and public and not retracted
    ) as l
  ),
  players as materialized (select actor, count(*) as lines, max(points) as best from told group by actor),
  best as (
    select actor, best from players where actor <> '' and best is not null
    order by best desc, actor collate "C" limit 20
  )
  select coalesce(sum(lines), 0)::bigint as lines, count(*) filter (where actor <> '') as players,
    (select json_agg(json_build_object('player', actor, 'score', best) order by best desc, actor collate "C") from best) as board
  from players
) as tally`

const gameSQL = `with g as materialized (select * from games where tenant = $1 and game = $2)` + tallySQL

// Game reads the header of a game with counts and board.
func (r *Reader) Game(ctx context.Context, key feed.GameKey) (feed.Game, error) {
	var game gameRow
	if err := r.ask(ctx, claimant{tenant: key.Tenant}, gameSQL, []any{string(key.Tenant), string(key.Game)}, game.read); err != nil {
		return feed.Game{}, fmt.Errorf("game %s: %w", key, err)
	}
	return game.view(), nil
}

// GamesQuery selects games of a tenant.
type GamesQuery struct {
	Status feed.Status // "" for any
	After  feed.GameID // games behind this one; "" from the newest
	Limit  int
}

const gamesSQL = `
with g as materialized (
  select * from games where tenant = $1 and game < $2 and ($3 = '' or status = $3) order by game desc limit $4
)` + tallySQL + ` order by g.game desc`

// aboveAllGames is behind the id of every game.
const aboveAllGames = "~"

// Games reads headers from the greatest id down: where games are named by ids in order of time, as GAM ids are, the newest
// first.
func (r *Reader) Games(ctx context.Context, tenant feed.TenantID, q GamesQuery) ([]feed.Game, error) {
	var games []feed.Game
	args := []any{string(tenant), cmp.Or(string(q.After), aboveAllGames), string(q.Status), q.Limit}
	err := r.ask(ctx, claimant{tenant, true}, gamesSQL, args, func(rows pgx.Rows) error {
		defer rows.Close()
		for rows.Next() {
			var row gameRow
			if err := row.scan(rows.Scan); err != nil {
				return err
			}
			games = append(games, row.view())
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("games of %s: %w", tenant, err)
	}
	return games, nil
}

// gameRow is a row of tallySQL.
type gameRow struct {
	game      feed.Game
	statusBy  int64
	endsAt    string
	startedBy *int64
}

func (g *gameRow) read(rows pgx.Rows) error { return one(rows, g.targets()...) }

func (g *gameRow) scan(scan func(...any) error) error { return scan(g.targets()...) }

func (g *gameRow) targets() []any {
	v := &g.game
	return []any{
		&v.Game, &v.Title, &v.Status, &g.statusBy, &v.Mode, &v.Pool, &g.endsAt, &g.startedBy, &v.Released,
		&v.Cursor.Epoch, &v.Cursor.Ver, &v.Counts.Lines, &v.Counts.Players, &v.Board,
	}
}

func (g *gameRow) view() feed.Game {
	v := g.game
	if ms, err := strconv.ParseInt(g.endsAt, 10, 64); err == nil {
		v.EndsAt = instant(time.UnixMilli(ms))
	}
	if g.startedBy != nil {
		v.StartedAt = instant(feed.ID(*g.startedBy).Time())
	}
	if v.Status.Final() {
		v.EndedAt = instant(feed.ID(g.statusBy).Time())
	}
	if v.Board == nil {
		v.Board = []feed.BoardEntry{} // an empty list in JSON, not null
	}
	return v
}

func instant(t time.Time) *feed.Instant {
	i := feed.Instant(t.UTC())
	return &i
}
