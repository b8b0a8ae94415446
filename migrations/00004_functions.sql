-- +goose Up

-- What this server adds to the epoch of every game: the identity of the table (a dump restored in place repeats all the
-- rest), of the cluster, and its timeline, which a promotion raises. Fails on a standby, where no version is final.
-- A view, since the planner takes it in where a function would be planned anew at each call; it reads no table.
create view server_epoch as
  select '-' || to_hex('games'::regclass::oid::bigint) || '-' || to_hex(system_identifier) || '-' ||
         ltrim(substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8), '0') as epoch
  from pg_control_system();
grant select on server_epoch to feedrenderer_render, feedrenderer_web;

-- The value of a field as feed.Fold shows it: null where the line's kind does not show it, or not in this mode. One plain
-- expression, so that the planner takes it in where it is used.
-- +goose StatementBegin
create function line_field(base jsonb, amendment jsonb, mode text, field text) returns text
language sql immutable parallel safe
return case
  when base -> 'show' ? field
    and (base -> 'only' is null or base -> 'only' -> mode ? field or not jsonb_path_query_array(base, '$.only.*[*]') ? field)
  then coalesce(amendment -> 'fields' ->> field, base -> 'fields' ->> field)
end;
-- +goose StatementEnd

-- feed.Points of a line that is not retracted.
-- +goose StatementBegin
create function line_points(base jsonb, amendment jsonb, mode text) returns double precision
language plpgsql immutable parallel safe
as $$
declare
  value text;
begin
  for i in 0 .. coalesce(jsonb_array_length(base -> 'score'), 0) - 1 loop
    value := line_field(base, amendment, mode, base -> 'score' -> i ->> 'field');
    if length(value) <= 15 and value ~ '^-?[0-9]+(\.[0-9]+)?$' then
      return value::double precision * (base -> 'score' -> i ->> 'factor')::double precision;
    end if;
  end loop;
  return null;
end $$;
-- +goose StatementEnd

-- Whether a text is found in what the line shows: the values of its fields, and the text of its amendment.
-- +goose StatementBegin
create function line_says(base jsonb, amendment jsonb, mode text, q text) returns boolean
language plpgsql immutable parallel safe
as $$
begin
  if strpos(lower(amendment ->> 'text'), lower(q)) > 0 then
    return true;
  end if;
  for i in 0 .. coalesce(jsonb_array_length(base -> 'show'), 0) - 1 loop
    if strpos(lower(line_field(base, amendment, mode, base -> 'show' ->> i)), lower(q)) > 0 then
      return true;
    end if;
  end loop;
  return false;
end $$;
-- +goose StatementEnd

-- How far games of any tenants have come: what the sweep of a web process asks each second for all it watches.
-- +goose StatementBegin
create function game_heads(tenants text[], games text[])
returns table (no bigint, epoch text, ver bigint, released boolean, mode text)
language sql stable security definer
begin atomic
  select k.no, g.seed || (select epoch from server_epoch), g.ver, g.released, g.mode
  from rows from (unnest(tenants), unnest(games)) with ordinality as k (tenant, game, no),
       lateral (select g.seed, g.ver, g.released, g.mode from games as g where g.tenant = k.tenant and g.game = k.game limit 1) as g;
end;
-- +goose StatementEnd
revoke execute on function game_heads from public;
grant execute on function game_heads to feedrenderer_web, feedrenderer_render;

-- Brings a game's lines in step with its mode and its release, after a batch with an event that may release it, won or
-- stale: a crash between the two heals on redelivery. The one function that sets the latch.
--
-- Released means: revealed, or of a mode known not to be blind. Then the hidden lines get versions of their own above
-- all given out, in their order, and watchers receive them as changes. Lines of which fields depend on the mode get
-- new versions when the mode is another than the one they were stamped under.
--
-- Answers the range of versions, and with it (in order of version) each line that was stamped and has a base; nothing
-- where nothing was to be done, which costs no lock and no write.
-- +goose StatementBegin
create function release_game(of_tenant text, of_game text, reveals boolean)
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
  if not found or g.mode = g.stamped_mode and (g.released or not reveals and g.mode not in ('classic', 'golden')) then
    return;
  end if;
  select * into g from games where tenant = of_tenant and game = of_game for update;
  latches := not g.released and (reveals or g.mode in ('classic', 'golden'));
  turns := g.mode <> g.stamped_mode;
  top := g.ver;
  -- A statement after the lock, so that its snapshot has the lines that were committed while the lock was waited for.
  if latches then
    update lines set ver = ver + g.ver
    where tenant = of_tenant and game = of_game and base_kv >= 0 and (not public or turns and modal);
    select coalesce(max(ver), g.ver + 1) into top from lines where tenant = of_tenant and game = of_game and ver > g.ver and ver > 0;
  elsif turns then
    update lines as l set ver = g.ver + n.no
    from (select evt, row_number() over (order by ver) as no
          from lines where tenant = of_tenant and game = of_game and base_kv >= 0 and modal) as n
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
revoke execute on function release_game from public;
grant execute on function release_game to feedrenderer_render;
