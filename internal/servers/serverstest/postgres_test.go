package serverstest

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Several test binaries may share the server that DATABASE_URL names.
func TestBinariesThatShareAServer(t *testing.T) {
	t.Parallel()
	server := OwnPostgres(t)
	admin, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(t.Context()) }()
	databases := func() []string {
		rows, err := admin.Query(t.Context(), `SELECT datname FROM pg_database WHERE datname LIKE 'feedrenderer%' ORDER BY 1`)
		if err != nil {
			t.Fatal(err)
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	start := func() (p *postgres, name string) {
		p, err := startPostgres(t.Context(), server.URL)
		if err != nil {
			t.Fatal(err)
		}
		if name, err = p.fromTemplate(t.Context()); err != nil {
			t.Fatal(err)
		}
		return p, name
	}

	killed, _ := start()
	alive, aliveName := start()
	if got := databases(); len(got) != 4 {
		t.Fatalf("want a template and a database of each, got %v", got)
	}

	if err := killed.admin.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The server lets go of its lock a moment after the connection has ended: wait for that, by taking it.
	for _, sql := range []string{`SELECT pg_advisory_lock($1, $2)`, `SELECT pg_advisory_unlock($1, $2)`} {
		if _, err := admin.Exec(t.Context(), sql, runLock, killed.run); err != nil {
			t.Fatal(err)
		}
	}
	next, nextName := start()
	want := []string{alive.template(), aliveName, next.template(), nextName}
	slices.Sort(want)
	if got := databases(); !slices.Equal(got, want) {
		t.Errorf("after one was killed and another started there is %v, want %v", got, want)
	}

	for p, name := range map[*postgres]string{alive: aliveName, next: nextName} {
		if err := p.drop(t.Context(), name); err != nil {
			t.Error(err)
		}
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	}
	if got := databases(); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
}
