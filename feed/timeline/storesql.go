package timeline

import (
	"strconv"
	"strings"
	"text/template"
)

// One statement a batch, over all its games, so the locks it takes never wait for us: a frozen replica holds no game.
//
//	g       the games of the batch as they stand, and whether a register of their headers is newer. What an event at or
//	        below the floor sets is older than all (-2), and a game with a floor began before it
//	fresh   lines with a register that is newer (news 1), or that would hide a line that was public (news 2). This reads
//	        an older snapshot than the writes below; registers only grow, so it errs towards writing, and the conditions
//	        under ON CONFLICT decide under the lock. All of the lookup is by primary key, both registers at once
//	locked  the games that get a new version, in sorted order: this takes their locks. A version rises by the number of
//	        the game's events, never as a function of what they say. A line that was public and would be hidden
//	        changes the epoch, or watchers would keep it
//	stored  the lines that changed
//
// Every game of the batch answers with its range of versions, every changed line with its own; both registers come back
// where the row now has both, since the caller may hold only one of them. What a line says of actor and points is worked
// out by the caller, or here where the row has a register that the caller does not hold.
//
// It stands in two forms: most batches do nothing but open lines, and without what headers and amendments need the
// execution of a statement of few rows begins in half the time. Those of which all is new take [appendSQL].
var (
	storeSQL = storeText(true)  // of batches that may hold anything
	openSQL  = storeText(false) // of batches that hold bases alone
)

func storeText(all bool) string {
	args := 0
	numbered := template.FuncMap{"arg": func() string { args++; return "$" + strconv.Itoa(args) }}
	var sql strings.Builder
	if err := template.Must(template.New("").Funcs(numbered).Parse(storeTemplate)).Execute(&sql, all); err != nil {
		panic(err) // it stands below
	}
	return sql.String()
}

const storeTemplate = `
with server as materialized (select epoch from server_epoch),
g as materialized (
  select g.no, g.tenant, g.game, g.events, t.ver, t.seed, t.released, t.mode as current_mode, coalesce(t.floor, -1) as floor,
{{- if .}}
    h.*, g.status, g.status_kv, g.mode, g.mode_kv, g.pool, g.pool_kv, g.ends_at, g.ends_at_kv, g.title, g.title_kv,
{{- end}}
    t.ver is null
{{- if .}}
    or (h.status_by, g.status_kv) > (t.status_by, t.status_kv)
    or (h.mode_by, g.mode_kv) > (t.mode_by, t.mode_kv)
    or (h.pool_by, g.pool_kv) > (t.pool_by, t.pool_kv)
    or (h.ends_at_by, g.ends_at_kv) > (t.ends_at_by, t.ends_at_kv)
    or (h.title_by, g.title_kv) > (t.title_by, t.title_kv)
    or h.started_by < coalesce(t.started_by, 9223372036854775807)
{{- end}} as news
  from rows from (unnest({{arg}}::text[]), unnest({{arg}}::text[]), unnest({{arg}}::bigint[])
{{- if .}}, unnest({{arg}}::bigint[]),
      unnest({{arg}}::text[]), unnest({{arg}}::bigint[]), unnest({{arg}}::integer[]), unnest({{arg}}::text[]), unnest({{arg}}::bigint[]), unnest({{arg}}::integer[]),
      unnest({{arg}}::text[]), unnest({{arg}}::bigint[]), unnest({{arg}}::integer[]), unnest({{arg}}::text[]), unnest({{arg}}::bigint[]), unnest({{arg}}::integer[]),
      unnest({{arg}}::text[]), unnest({{arg}}::bigint[]), unnest({{arg}}::integer[])
{{- end}}) with ordinality
    as g (tenant, game, events
{{- if .}}, started_by, status, status_by, status_kv, mode, mode_by, mode_kv,
      pool, pool_by, pool_kv, ends_at, ends_at_by, ends_at_kv, title, title_by, title_kv
{{- end}}, no)
  left join lateral (select * from games as t where t.tenant = g.tenant and t.game = g.game limit 1) as t on true
{{- if .}}
  cross join lateral (select
    case when t.floor >= 0 then 9223372036854775807 else g.started_by end as started_by,
    case when g.status_by <= t.floor then -2 else g.status_by end as status_by,
    case when g.mode_by <= t.floor then -2 else g.mode_by end as mode_by,
    case when g.pool_by <= t.floor then -2 else g.pool_by end as pool_by,
    case when g.ends_at_by <= t.floor then -2 else g.ends_at_by end as ends_at_by,
    case when g.title_by <= t.floor then -2 else g.title_by end as title_by) as h
{{- end}}
),
fresh as materialized (
  select * from (
    select l.*, g.tenant, g.game, g.events, coalesce(
      (select case
          when l.base_kv > t.base_kv and t.public and not l.public then 2
          when l.base_kv > t.base_kv {{if .}}or (l.amend_by, l.amend_kv) > (t.amend_by, t.amend_kv) {{end}}then 1
          else 0 end
        from lines as t where t.tenant = g.tenant and t.game = g.game and t.evt = l.evt), 1) as news
    from rows from (unnest({{arg}}::integer[]), unnest({{arg}}::bigint[]), unnest({{arg}}::bigint[]), unnest({{arg}}::integer[]), unnest({{arg}}::boolean[]),
        unnest({{arg}}::boolean[]), unnest({{arg}}::text[]), unnest({{arg}}::double precision[]), unnest({{arg}}::text[]), unnest({{arg}}::bytea[])
{{- if .}},
        unnest({{arg}}::bigint[]), unnest({{arg}}::integer[]), unnest({{arg}}::boolean[]), unnest({{arg}}::text[]), unnest({{arg}}::bytea[])
{{- end}})
      as l (no, ordinal, evt, base_kv, public, modal, actor, points, base, base_raw
{{- if .}}, amend_by, amend_kv, retracted, amendment, amend_raw{{end}})
    join g on g.no = l.no
    where l.evt > g.floor offset 0
  ) as l where news > 0
),
hiding as materialized (select distinct tenant, game from fresh where news = 2),
locked as (
  insert into games as t (tenant, game, ver
{{- if .}}, started_by, status, status_by, status_kv, mode, mode_by, mode_kv,
    pool, pool_by, pool_kv, ends_at, ends_at_by, ends_at_kv, title, title_by, title_kv
{{- end}})
  select tenant, game, events
{{- if .}}, nullif(started_by, 9223372036854775807), status, status_by, status_kv, mode, mode_by, mode_kv,
    pool, pool_by, pool_kv, ends_at, ends_at_by, ends_at_kv, title, title_by, title_kv
{{- end}}
  from g where news or no in (select no from fresh) order by no
  on conflict (tenant, game) do update set
    ver = t.ver + excluded.ver,
    seed = case when not t.released and exists (select from hiding as h where h.tenant = t.tenant and h.game = t.game)
      then excluded.seed else t.seed end
{{- if .}},
    started_by = least(t.started_by, excluded.started_by),
    status = case when (excluded.status_by, excluded.status_kv) > (t.status_by, t.status_kv) then excluded.status else t.status end,
    status_kv = case when (excluded.status_by, excluded.status_kv) > (t.status_by, t.status_kv) then excluded.status_kv else t.status_kv end,
    status_by = greatest(excluded.status_by, t.status_by),
    mode = case when (excluded.mode_by, excluded.mode_kv) > (t.mode_by, t.mode_kv) then excluded.mode else t.mode end,
    mode_kv = case when (excluded.mode_by, excluded.mode_kv) > (t.mode_by, t.mode_kv) then excluded.mode_kv else t.mode_kv end,
    mode_by = greatest(excluded.mode_by, t.mode_by),
    pool = case when (excluded.pool_by, excluded.pool_kv) > (t.pool_by, t.pool_kv) then excluded.pool else t.pool end,
    pool_kv = case when (excluded.pool_by, excluded.pool_kv) > (t.pool_by, t.pool_kv) then excluded.pool_kv else t.pool_kv end,
    pool_by = greatest(excluded.pool_by, t.pool_by),
    ends_at = case when (excluded.ends_at_by, excluded.ends_at_kv) > (t.ends_at_by, t.ends_at_kv) then excluded.ends_at else t.ends_at end,
    ends_at_kv = case when (excluded.ends_at_by, excluded.ends_at_kv) > (t.ends_at_by, t.ends_at_kv) then excluded.ends_at_kv else t.ends_at_kv end,
    ends_at_by = greatest(excluded.ends_at_by, t.ends_at_by),
    title = case when (excluded.title_by, excluded.title_kv) > (t.title_by, t.title_kv) then excluded.title else t.title end,
    title_kv = case when (excluded.title_by, excluded.title_kv) > (t.title_by, t.title_kv) then excluded.title_kv else t.title_kv end,
    title_by = greatest(excluded.title_by, t.title_by)
{{- end}}
  returning tenant, game, ver, seed, released, mode, floor
),
stored as (
  insert into lines as t (tenant, game, evt, ver, base_kv, public, modal, actor, points, base, base_raw
{{- if .}}, amend_by, amend_kv, retracted, amendment, amend_raw{{end}})
  select f.tenant, f.game, f.evt, g.ver - f.events + f.ordinal, f.base_kv, f.public, f.modal, nullif(f.actor, ''),
    nullif(f.points, 'NaN'), nullif(f.base, '')::jsonb, f.base_raw
{{- if .}},
    f.amend_by, f.amend_kv, f.retracted, nullif(f.amendment, '')::jsonb, f.amend_raw
{{- end}}
  from fresh as f join locked as g on g.tenant = f.tenant and g.game = f.game
  where f.evt > g.floor order by f.no, f.ordinal
  on conflict (tenant, game, evt) do update set
    ver = excluded.ver,
{{- if .}}
    base_kv = greatest(excluded.base_kv, t.base_kv),
    public = case when excluded.base_kv > t.base_kv then excluded.public else t.public end,
    modal = case when excluded.base_kv > t.base_kv then excluded.modal else t.modal end,
    actor = case when excluded.amend_by < 0 and t.amend_by < 0 then excluded.actor
      else (select line_field(base, amendment, '', base ->> 'actor') from (select
          case when excluded.base_kv > t.base_kv then excluded.base else t.base end as base,
          case when (excluded.amend_by, excluded.amend_kv) > (t.amend_by, t.amend_kv) then excluded.amendment else t.amendment end as amendment) as m) end,
    points = case when excluded.amend_by < 0 and t.amend_by < 0 then excluded.points
      else (select line_points(base, amendment, '') from (select
          case when excluded.base_kv > t.base_kv then excluded.base else t.base end as base,
          case when (excluded.amend_by, excluded.amend_kv) > (t.amend_by, t.amend_kv) then excluded.amendment else t.amendment end as amendment) as m) end,
    base = case when excluded.base_kv > t.base_kv then excluded.base else t.base end,
    base_raw = case when excluded.base_kv > t.base_kv then excluded.base_raw else t.base_raw end,
    amend_by = greatest(excluded.amend_by, t.amend_by),
    amend_kv = case when (excluded.amend_by, excluded.amend_kv) > (t.amend_by, t.amend_kv) then excluded.amend_kv else t.amend_kv end,
    retracted = case when (excluded.amend_by, excluded.amend_kv) > (t.amend_by, t.amend_kv) then excluded.retracted else t.retracted end,
    amendment = case when (excluded.amend_by, excluded.amend_kv) > (t.amend_by, t.amend_kv) then excluded.amendment else t.amendment end,
    amend_raw = case when (excluded.amend_by, excluded.amend_kv) > (t.amend_by, t.amend_kv) then excluded.amend_raw else t.amend_raw end
  where excluded.base_kv > t.base_kv or (excluded.amend_by, excluded.amend_kv) > (t.amend_by, t.amend_kv)
{{- else}}
    base_kv = excluded.base_kv, public = excluded.public, modal = excluded.modal, base = excluded.base, base_raw = excluded.base_raw,
    actor = case when t.amend_by < 0 then excluded.actor else line_field(excluded.base, t.amendment, '', excluded.base ->> 'actor') end,
    points = case when t.amend_by < 0 then excluded.points else line_points(excluded.base, t.amendment, '') end
  where excluded.base_kv > t.base_kv
{{- end}}
  returning tenant, game, evt, ver, base_kv >= 0 as based, case when base_kv >= 0 and amend_by >= 0 then base end as base,
    case when base_kv >= 0 then amendment end as amendment
)
select g.tenant, g.game, coalesce(t.seed, g.seed) || server.epoch, coalesce(t.ver - g.events, g.ver), coalesce(t.ver, g.ver),
  coalesce(t.released, g.released), coalesce(t.mode, g.current_mode), null::bigint, null::jsonb, null::jsonb
from g left join locked as t on t.tenant = g.tenant and t.game = g.game, server
union all
select tenant, game, null, null, ver, null, null, evt, base, amendment from stored where based`
