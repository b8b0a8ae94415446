package serverstest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

func TestMain(m *testing.M) { serverstest.Main(m) }

func TestDatabase(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"first", "second"} {
		t.Run("IsMigratedAndOfTheTestAlone/"+name, func(t *testing.T) {
			t.Parallel()
			conn := open(t, serverstest.Database(t))
			var migrations int
			if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM goose_db_version WHERE version_id > 0`).Scan(&migrations); err != nil {
				t.Fatal(err)
			}
			if migrations == 0 {
				t.Error("no migration was applied")
			}
			if _, err := conn.Exec(t.Context(), `CREATE TABLE mine ()`); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("IsDroppedThoughAConnectionIsLeft", func(t *testing.T) {
		t.Parallel()
		watcher := open(t, serverstest.EmptyDatabase(t))
		var name string
		t.Run("ByTheTest", func(t *testing.T) {
			left, err := pgx.Connect(t.Context(), serverstest.Database(t))
			if err != nil {
				t.Fatal(err)
			}
			name = left.Config().Database // and left stays open
		})
		var there bool
		if err := watcher.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name).Scan(&there); err != nil {
			t.Fatal(err)
		}
		if there {
			t.Errorf("%s is left", name)
		}
	})
}

func TestEmptyDatabaseHasNoTables(t *testing.T) {
	t.Parallel()
	conn := open(t, serverstest.EmptyDatabase(t))
	var tables int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`).Scan(&tables); err != nil {
		t.Fatal(err)
	}
	if tables != 0 {
		t.Errorf("got %d", tables)
	}
}

func TestValkeyIsOneForAll(t *testing.T) {
	t.Parallel()
	if first, second := serverstest.Valkey(t), serverstest.Valkey(t); first != second {
		t.Error(first, second)
	}
}

func open(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) }) // may have been cut off by the drop
	return conn
}
