-- +goose Up

-- How long what is a tenant's is kept, in days; 0 is for ever. And when a renderer last saw to that: each takes the
-- tenants whose turn it is, and no two the same one.
alter table tenants
  add column retention_days integer not null default 0 check (retention_days between 0 and 36500), -- lines, after their game's end
  add column stream_days    integer not null default 0 check (stream_days between 0 and 36500),    -- settled entries of streams
  add column tended_at      timestamptz not null default '-infinity';
grant update (tended_at) on tenants to feedrenderer_render;
