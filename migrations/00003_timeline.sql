-- +goose Up

-- A game: the lock under which its versions are given out, and its header. Each header register stands beside its
-- stamp, the EVT id of the event that wrote it and the version of that event's kind; -1 is before every stamp.
create table games (
  tenant       text collate "C" not null,
  game         text collate "C" not null,
  ver          bigint  not null default 0,     -- of the newest change
  floor        bigint  not null default -1,    -- EVT ids at or below it are gone for good and ignored
  seed         text    not null default right(gen_random_uuid()::text, 12), -- this row's part of the epoch
  released     boolean not null default false, -- a latch, set by release_game alone
  stamped_mode text    not null default '',    -- lines of which fields depend on the mode were last stamped under it
  started_by   bigint,                         -- lowest EVT id that said the game is open
  status       text    not null default '',
  status_by    bigint  not null default -1,
  status_kv    integer not null default -1,
  mode         text    not null default '',    -- '' unknown, classic, golden, blind
  mode_by      bigint  not null default -1,
  mode_kv      integer not null default -1,
  pool         text    not null default '',
  pool_by      bigint  not null default -1,
  pool_kv      integer not null default -1,
  ends_at      text    not null default '',    -- unix milliseconds in decimal
  ends_at_by   bigint  not null default -1,
  ends_at_kv   integer not null default -1,
  title        text    not null default '',
  title_by     bigint  not null default -1,
  title_kv     integer not null default -1,
  primary key (tenant, game)
) with (fillfactor = 50); -- every batch updates its games' rows in place

-- A line: two registers, base and amendment, and the version of its game at which one of them last changed. A row
-- without base is an amendment that waits for its original: nobody is shown it.
create table lines (
  tenant    text collate "C" not null,
  game      text collate "C" not null,
  evt       bigint  not null,
  ver       bigint  not null check (ver > 0),
  points    double precision,                -- feed.Points in a game of unknown mode
  amend_by  bigint  not null default -1,     -- EVT id of the correction or retraction
  amend_kv  integer not null default -1,
  base_kv   integer not null default -1,     -- version of the base's kind; -1 where there is no base
  public    boolean not null default false,  -- there is a base, and it is no score
  modal     boolean not null default false,  -- the base has fields that are shown in one mode only
  retracted boolean not null default false,
  actor     text,                            -- feed.View's actor, likewise
  base      jsonb,
  amendment jsonb,
  base_raw  bytea,                           -- fields of the events as they came: for operators and for rendering anew
  amend_raw bytea,
  primary key (tenant, game, evt)
);

-- Partial although every version is above 0: the search for a line by its key does not say so, and thus can never be
-- planned over this index, whatever the statistics.
create unique index lines_ver on lines (tenant, game, ver) where ver > 0;

-- Pages of games that are not released, where hidden lines may be many.
create index lines_public on lines (tenant, game, evt) where public;

alter table games enable row level security;
alter table games force row level security;
alter table lines enable row level security;
alter table lines force row level security;
create policy renderer on games to feedrenderer_render using (true) with check (true);
create policy renderer on lines to feedrenderer_render using (true) with check (true);
create policy watcher on games for select to feedrenderer_web using (tenant = current_setting('feedrenderer.tenant', true));
create policy watcher on lines for select to feedrenderer_web using (tenant = current_setting('feedrenderer.tenant', true));
grant select, insert, update on games, lines to feedrenderer_render;
grant select on games to feedrenderer_web;
grant select (tenant, game, evt, ver, points, amend_by, base_kv, public, modal, retracted, actor, base, amendment) on lines to feedrenderer_web;
