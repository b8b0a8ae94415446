-- +goose Up

-- Two roles do all the work: feedrenderer_render writes lines, feedrenderer_web answers watchers. Neither logs in: a
-- connection starts as one of them (startup parameter "role"), so its login must be a member of both.
-- Both may ask which migrations there are: a process waits for those of its version.
-- Roles belong to the cluster, and several databases may be migrated at once: whoever comes second finds them made.
-- +goose StatementBegin
do $$
declare
  name text;
begin
  foreach name in array array['feedrenderer_render', 'feedrenderer_web'] loop
    begin
      if not exists (select from pg_roles where rolname = name) then
        execute format('create role %I nologin', name);
      end if;
    exception when duplicate_object or unique_violation then null;
    end;
    begin
      if not pg_has_role(current_user, name, 'member') then
        execute format('grant %I to current_user', name);
      end if;
    exception when unique_violation then null;
    end;
    execute format('grant usage on schema %I to %I', current_schema(), name);
    execute format('grant select on goose_db_version to %I', name);
  end loop;
end $$;
-- +goose StatementEnd
