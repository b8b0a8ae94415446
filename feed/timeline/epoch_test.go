package timeline

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
	"github.com/codemojex/feedrenderer/migrations"
)

func TestTheEpochIsATextForCursors(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.apply(t, g1.notice(at(1), "a"))
	cursor := s.game(t, g1.key()).Cursor
	if parsed, err := feed.ParseCursor(cursor.String()); err != nil || parsed != cursor {
		t.Errorf("got %v, %v", parsed, err)
	}
	if n := len(cursor.Epoch); n > 48 {
		t.Errorf("epoch %s has %d bytes", cursor.Epoch, n)
	}
}

func TestAGameThatWasMadeAnewHasAnotherEpoch(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.apply(t, g1.notice(at(1), "a"))
	before := s.game(t, g1.key()).Cursor
	s.exec(t, `delete from games; delete from lines`)
	s.apply(t, g1.notice(at(1), "a"))
	if after := s.game(t, g1.key()).Cursor; after.Epoch == before.Epoch || after.Ver != before.Ver {
		t.Errorf("got %s after %s", after, before)
	}
}

// A table that was dropped and restored with all its rows, as from a dump, is another table.
func TestARestoredTableHasAnotherEpoch(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.apply(t, g1.notice(at(1), "a"))
	before := s.game(t, g1.key()).Cursor
	owner := s.owner(t)
	var view, function string
	if err := owner.QueryRow(t.Context(), `
select 'create view server_epoch as ' || pg_get_viewdef('server_epoch'::regclass), pg_get_functiondef('game_heads'::regproc)`).Scan(&view, &function); err != nil {
		t.Fatal(err)
	}
	if _, err := owner.Exec(t.Context(), `
drop function game_heads;
drop view server_epoch;
drop policy expired on lines;
alter table games rename to old;
create table games (like old including all);
insert into games select * from old;
grant select, insert, update on games to feedrenderer_render, feedrenderer_web;
drop table old; `+view+`grant select on server_epoch to feedrenderer_render, feedrenderer_web; `+function, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	if after := s.game(t, g1.key()).Cursor; after.Epoch == before.Epoch || after.Ver != before.Ver {
		t.Errorf("got %s after %s", after, before)
	}
}

// A standby cannot tell what will be lost, so it refuses; once promoted it answers at once, in another epoch.
func TestAPromotedStandbyHasAnotherEpoch(t *testing.T) {
	t.Parallel()
	server := serverstest.OwnPostgres(t)
	if err := migrations.Up(t.Context(), server.URL); err != nil {
		t.Fatal(err)
	}
	open := func() *store {
		return &store{url: server.URL, Writer: NewWriter(openPool(t, server.URL, RoleRender)), Reader: NewReader(openPool(t, server.URL, RoleWeb))}
	}
	s := open()
	s.apply(t, g1.notice(at(1), "a"))
	before := s.game(t, g1.key()).Cursor
	var folder string
	if err := s.owner(t).QueryRow(t.Context(), `show data_directory`).Scan(&folder); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "standby.signal"), nil, 0o666); err != nil { //nolint:gosec // the server runs as another user
		t.Fatal(err)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = open()
	if head, err := s.Head(t.Context(), g1.key()); err == nil || errors.Is(err, ErrNotFound) || !Unavailable(err) {
		t.Errorf("a standby answers %+v, %v", head, err)
	}
	var promoted bool
	if err := s.owner(t).QueryRow(t.Context(), `select pg_promote()`).Scan(&promoted); err != nil || !promoted {
		t.Fatal(promoted, err)
	}
	after := s.game(t, g1.key()).Cursor
	common := before.Epoch[:strings.LastIndex(before.Epoch, "-")]
	if after.Epoch == before.Epoch || !strings.HasPrefix(after.Epoch, common) || after.Ver != before.Ver {
		t.Errorf("got %s after %s", after, before)
	}
	if _, err := s.Changes(t.Context(), g1.key(), before, 5); !errors.Is(err, ErrEpoch) {
		t.Errorf("got %v, want ErrEpoch", err)
	}
	s.apply(t, g1.notice(at(2), "b"))
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	t.Run("AStoreThatIsDownIs", func(t *testing.T) {
		t.Parallel()
		server := serverstest.OwnPostgres(t)
		if err := migrations.Up(t.Context(), server.URL); err != nil {
			t.Fatal(err)
		}
		s := &store{url: server.URL, Writer: NewWriter(openPool(t, server.URL, RoleRender)), Reader: NewReader(openPool(t, server.URL, RoleWeb))}
		s.apply(t, g1.notice(at(1), "a"))
		if err := server.Pause(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := s.Apply(ctx, []feed.Line{g1.notice(at(2), "b")}); !Unavailable(err) {
			t.Errorf("paused: %v", err)
		}
		if err := server.Resume(); err != nil {
			t.Fatal(err)
		}
		s.apply(t, g1.notice(at(2), "b"))
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Apply(t.Context(), []feed.Line{g1.notice(at(3), "c")}); !Unavailable(err) {
			t.Errorf("killed: %v", err)
		}
		if _, err := s.Game(t.Context(), g1.key()); !Unavailable(err) {
			t.Errorf("still down: %v", err)
		}
	})
	t.Run("ADatabaseThatIsNotMigratedIs", func(t *testing.T) {
		t.Parallel()
		url := serverstest.EmptyDatabase(t)
		if _, err := NewWriter(openPool(t, url, RoleRender)).Apply(t.Context(), []feed.Line{g1.notice(at(1), "a")}); !Unavailable(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("AFaultOfARowIsNot", func(t *testing.T) {
		t.Parallel()
		s := newStore(t)
		_, err := s.owner(t).Exec(t.Context(), `select 'x'::integer`)
		if err == nil || Unavailable(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("AGameThatIsNotThereIsNot", func(t *testing.T) {
		t.Parallel()
		if Unavailable(ErrNotFound) || Unavailable(ErrEpoch) || Unavailable(nil) {
			t.Error("taken for a store that is down")
		}
	})
}
