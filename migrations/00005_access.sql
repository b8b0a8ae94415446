-- +goose Up

-- A third role manages tenants and their keys. The renderer keeps only what it needs: to see tenants and to make those
-- that it is started with.
-- +goose StatementBegin
do $$
begin
  begin
    if not exists (select from pg_roles where rolname = 'feedrenderer_admin') then
      create role feedrenderer_admin nologin;
    end if;
  exception when duplicate_object or unique_violation then null;
  end;
  begin
    if not pg_has_role(current_user, 'feedrenderer_admin', 'member') then
      grant feedrenderer_admin to current_user;
    end if;
  exception when unique_violation then null;
  end;
  execute format('grant usage on schema %I to feedrenderer_admin', current_schema());
end $$;
-- +goose StatementEnd
revoke update on tenants from feedrenderer_render;

-- Limits of a tenant in each web process; 0 is the default of the program.
alter table tenants
  add column max_sockets         integer not null default 0 check (max_sockets >= 0),
  add column joins_per_second    integer not null default 0 check (joins_per_second >= 0),
  add column requests_per_second integer not null default 0 check (requests_per_second >= 0),
  add column events_per_second   integer not null default 0 check (events_per_second >= 0),
  add column max_games           integer not null default 0 check (max_games >= 0),
  add column max_event_bytes     integer not null default 0 check (max_event_bytes >= 0);

-- A key: the hash of its secret part, which nobody has but the one it was shown to.
create table api_keys (
  tenant     text collate "C" not null references tenants,
  id         text collate "C" not null check (id ~ '^[A-Z2-7]{12}$'),
  hash       bytea not null check (octet_length(hash) = 32),  -- SHA-256
  role       text not null check (role in ('watch', 'produce', 'operate')),
  label      text not null default '' check (length(label) <= 100),
  created_at timestamptz not null default now(),
  expires_at timestamptz,  -- null: never
  revoked_at timestamptz,  -- null: not yet
  primary key (tenant, id)
);

-- What watch tokens are signed with. One is in use; the ones before it are good until they retire.
create table token_secrets (
  tenant     text collate "C" not null references tenants,
  id         text collate "C" not null check (id ~ '^[A-Z2-7]{12}$'),
  secret     bytea not null check (octet_length(secret) >= 32),
  created_at timestamptz not null default now(),
  retires_at timestamptz,
  primary key (tenant, id)
);
create unique index token_secrets_in_use on token_secrets (tenant) where retires_at is null;

alter table api_keys enable row level security;
alter table api_keys force row level security;
alter table token_secrets enable row level security;
alter table token_secrets force row level security;
create policy admin on tenants to feedrenderer_admin using (true) with check (true);
create policy admin on api_keys to feedrenderer_admin using (true) with check (true);
create policy admin on token_secrets to feedrenderer_admin using (true) with check (true);
create policy watcher on api_keys for select to feedrenderer_web using (tenant = current_setting('feedrenderer.tenant', true));
create policy watcher on token_secrets for select to feedrenderer_web using (tenant = current_setting('feedrenderer.tenant', true));
grant select, insert, update on tenants, api_keys, token_secrets to feedrenderer_admin;
grant select on api_keys, token_secrets to feedrenderer_web;
