-- +goose Up

create table tenants (
  id         text collate "C" primary key check (id ~ '^[a-z0-9][a-z0-9-]{0,39}$'),
  public     boolean not null default false, -- anyone may watch its games
  suspended  boolean not null default false,
  created_at timestamptz not null default now()
);

-- The second wall: a query of the web role sees one tenant, the one that its transaction names, and none if it names
-- none. Row security is forced, so it binds the owner of the tables too, who is a member of the renderer's role.
alter table tenants enable row level security;
alter table tenants force row level security;
create policy renderer on tenants to feedrenderer_render using (true) with check (true);
create policy watcher on tenants for select to feedrenderer_web using (id = current_setting('feedrenderer.tenant', true));
grant select, insert, update on tenants to feedrenderer_render;
grant select on tenants to feedrenderer_web;
