-- +goose Up

-- The renderer deletes lines at or below their game's floor, and no others whatever it asks for.
create policy expired on lines as restrictive for delete to feedrenderer_render
  using (evt <= (select g.floor from games as g where g.tenant = lines.tenant and g.game = lines.game));
grant delete on lines to feedrenderer_render;
