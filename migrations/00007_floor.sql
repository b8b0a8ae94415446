-- +goose Up

-- Whether rows at or below the floor are still to be deleted. They go in small steps, long after the floor has hidden them.
alter table games add column emptying boolean not null default false;
create index games_emptying on games (tenant, game) where emptying;

-- release_game as it was, but for the floor: it takes the highest id of an event that reveals (-1 for none), since one at
-- or below the floor reveals nothing, and leaves alone the lines that are to be deleted.
-- +goose StatementBegin
create function release_game(of_tenant text, of_game text, revealed_by bigint)
returns table (seed text, from_ver bigint, to_ver bigint, released boolean, mode text, evt bigint, ver bigint, base jsonb, amendment jsonb)
language plpgsql
as $$
#variable_conflict use_column
declare
  g games;
  latches boolean;
  turns boolean;
  top bigint;
begin
  select * into g from games where tenant = of_tenant and game = of_game;
  if not found or g.mode = g.stamped_mode and (g.released or revealed_by <= g.floor and g.mode not in ('classic', 'golden')) then
    return;
  end if;
  select * into g from games where tenant = of_tenant and game = of_game for update;
  latches := not g.released and (revealed_by > g.floor or g.mode in ('classic', 'golden'));
  turns := g.mode <> g.stamped_mode;
  top := g.ver;
  -- A statement after the lock, so that its snapshot has the lines that were committed while the lock was waited for.
  if latches then
    update lines set ver = ver + g.ver
    where tenant = of_tenant and game = of_game and evt > g.floor and base_kv >= 0 and (not public or turns and modal);
    select coalesce(max(ver), g.ver + 1) into top from lines where tenant = of_tenant and game = of_game and ver > g.ver and ver > 0;
  elsif turns then
    update lines as l set ver = g.ver + n.no
    from (select evt, row_number() over (order by ver) as no
          from lines where tenant = of_tenant and game = of_game and evt > g.floor and base_kv >= 0 and modal) as n
    where l.tenant = of_tenant and l.game = of_game and l.evt = n.evt;
    get diagnostics top = row_count;
    top := g.ver + top;
  end if;
  if latches or turns then
    update games set ver = top, released = released or latches, stamped_mode = mode where tenant = of_tenant and game = of_game;
  end if;
  if top > g.ver then
    return query
      select g.seed, g.ver, top, g.released or latches, g.mode, l.evt, l.ver, l.base, l.amendment
      from (select) as always
      left join lateral (select * from lines
        where tenant = of_tenant and game = of_game and ver > g.ver and ver > 0 order by ver) as l on true;
  end if;
end $$;
-- +goose StatementEnd
revoke execute on function release_game(text, text, bigint) from public;
grant execute on function release_game(text, text, bigint) to feedrenderer_render;

-- For renderers of the version before, while there are some.
-- +goose StatementBegin
create or replace function release_game(of_tenant text, of_game text, reveals boolean)
returns table (seed text, from_ver bigint, to_ver bigint, released boolean, mode text, evt bigint, ver bigint, base jsonb, amendment jsonb)
language sql
as $$
  select * from release_game(of_tenant, of_game, case when reveals then 9223372036854775807 else -1 end)
$$;
-- +goose StatementEnd
