package servers

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/valkey-io/valkey-go"
)

func TestValkey(t *testing.T) {
	t.Parallel()
	t.Run("IsGoneWithItsFolderAfterStop", func(t *testing.T) {
		t.Parallel()
		v := startValkey(t, ValkeyConfig{})
		folder, pid := v.folder.path, v.process.pid()
		if err := errors.Join(v.Stop(), v.Stop()); err != nil {
			t.Fatal(err)
		}
		wantGone(t, folder, pid)
	})
	t.Run("EvictsNothing", func(t *testing.T) {
		t.Parallel()
		client := connect(t, startValkey(t, ValkeyConfig{}))
		policy, err := client.Do(t.Context(), client.B().ConfigGet().Parameter("maxmemory-policy").Build()).AsStrMap()
		if err != nil || policy["maxmemory-policy"] != "noeviction" {
			t.Fatal(policy, err)
		}
	})
	t.Run("KeepsPortAndKeysThroughKillAndRestart", func(t *testing.T) {
		t.Parallel()
		v := startValkey(t, ValkeyConfig{AppendOnly: true})
		client := connect(t, v)
		if err := client.Do(t.Context(), client.B().Set().Key("k").Value("kept").Build()).Error(); err != nil {
			t.Fatal(err)
		}
		for _, stop := range []func() error{v.Kill, func() error { return nil }, v.Pause} {
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if err := v.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			got, err := client.Do(t.Context(), client.B().Get().Key("k").Build()).ToString()
			if err != nil || got != "kept" {
				t.Fatal(got, err)
			}
		}
	})
	t.Run("AnswersNothingWhilePaused", func(t *testing.T) {
		t.Parallel()
		v := startValkey(t, ValkeyConfig{})
		if err := errors.Join(v.Pause(), v.Pause()); err != nil {
			t.Fatal(err)
		}
		if err := v.program.answers(t.Context(), v.port, v.process.pid()); err == nil {
			t.Fatal("it answers")
		}
		if err := errors.Join(v.Resume(), v.Resume()); err != nil {
			t.Fatal(err)
		}
		if err := v.program.answers(t.Context(), v.port, v.process.pid()); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("StopsWhilePausedAndAfterKill", func(t *testing.T) {
		t.Parallel()
		for _, before := range []func(*Valkey) error{
			func(v *Valkey) error { return v.Pause() },
			func(v *Valkey) error { return v.Kill() },
			func(v *Valkey) error { return errors.Join(v.Pause(), v.Kill()) },
		} {
			v := startValkey(t, ValkeyConfig{})
			folder, pid := v.folder.path, v.process.pid()
			if err := errors.Join(before(v), v.Stop()); err != nil {
				t.Fatal(err)
			}
			wantGone(t, folder, pid)
		}
	})
	t.Run("TriesAnotherPortWhereOneIsTaken", func(t *testing.T) {
		t.Parallel()
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		v := startValkey(t, ValkeyConfig{})
		if err := v.end(); err != nil {
			t.Fatal(err)
		}
		v.port = taken.Addr().(*net.TCPAddr).Port
		if err := v.run(t.Context()); !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatalf("on a taken port: %v", err)
		}
	})
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	t.Run("IsGoneWithItsFolderAfterStop", func(t *testing.T) {
		t.Parallel()
		p := startPostgres(t, PostgresConfig{NoFsync: true})
		folder, family := p.folder.path, family(t, p)
		if err := errors.Join(p.Stop(), p.Stop()); err != nil {
			t.Fatal(err)
		}
		wantGone(t, folder, family...)
	})
	t.Run("SyncsUnlessTold", func(t *testing.T) {
		t.Parallel()
		p := startPostgres(t, PostgresConfig{})
		for name, want := range map[string]string{"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "unix_socket_directories": ""} {
			if got := ask(t, p, "SHOW "+name); got != want {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
	})
	t.Run("LetsNobodyInWithoutThePassword", func(t *testing.T) {
		t.Parallel()
		p := startPostgres(t, PostgresConfig{NoFsync: true})
		if _, err := pgx.Connect(t.Context(), "postgres://postgres@"+address(p.port)+"/postgres?sslmode=disable"); err == nil {
			t.Fatal("it let us in")
		}
	})
	t.Run("KeepsPortAndRowsThroughKillAndRestart", func(t *testing.T) {
		t.Parallel()
		p := startPostgres(t, PostgresConfig{NoFsync: true})
		ask(t, p, "CREATE TABLE kept AS SELECT 'kept'::text AS word; SELECT ''")
		for _, stop := range []func() error{p.Kill, func() error { return nil }, p.Pause} {
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if err := p.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := ask(t, p, "SELECT word FROM kept"); got != "kept" {
				t.Fatal(got)
			}
		}
	})
	t.Run("FreezesItsSessionsWhilePaused", func(t *testing.T) {
		t.Parallel()
		p := startPostgres(t, PostgresConfig{NoFsync: true})
		conn, err := pgx.Connect(t.Context(), p.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if err := p.Pause(); err != nil {
			t.Fatal(err)
		}
		answer := make(chan error, 1)
		go func() { answer <- conn.Ping(t.Context()) }()
		select {
		case err := <-answer:
			t.Fatalf("it answered: %v", err)
		case <-time.After(200 * time.Millisecond):
		}
		if err := p.Resume(); err != nil {
			t.Fatal(err)
		}
		if err := <-answer; err != nil {
			t.Fatal(err)
		}
	})
	t.Run("TriesAnotherPortWhereOneIsTaken", func(t *testing.T) {
		t.Parallel()
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		p := startPostgres(t, PostgresConfig{NoFsync: true})
		if err := p.end(); err != nil {
			t.Fatal(err)
		}
		p.port = taken.Addr().(*net.TCPAddr).Port
		if err := p.run(t.Context()); !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatalf("on a taken port: %v", err)
		}
	})
}

func TestAServerOfSomebodyElse(t *testing.T) {
	t.Parallel()
	v, err := StartValkey(t.Context(), ValkeyConfig{URL: "redis://elsewhere:1"})
	if err != nil || v.URL != "redis://elsewhere:1" {
		t.Fatal(v, err)
	}
	p, err := StartPostgres(t.Context(), PostgresConfig{URL: "postgres://elsewhere/db"})
	if err != nil || p.URL != "postgres://elsewhere/db" {
		t.Fatal(p, err)
	}
	for _, do := range []func() error{v.Kill, v.Pause, v.Resume, p.Kill, func() error { return p.Restart(t.Context()) }} {
		if err := do(); !errors.Is(err, ErrNotOurs) {
			t.Errorf("got %v", err)
		}
	}
	if err := errors.Join(v.Stop(), p.Stop()); err != nil {
		t.Fatal(err)
	}
}

func startValkey(t *testing.T, config ValkeyConfig) *Valkey {
	t.Helper()
	v, err := StartValkey(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Stop(); err != nil {
			t.Error(err)
		}
	})
	return v
}

func startPostgres(t *testing.T, config PostgresConfig) *Postgres {
	t.Helper()
	p, err := StartPostgres(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func connect(t *testing.T, v *Valkey) valkey.Client {
	t.Helper()
	client, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{address(v.port)}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// ask runs statements and returns the one text that the last of them answers.
func ask(t *testing.T, p *Postgres, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	results, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return string(results[len(results)-1].Rows[0][0])
}

func family(t *testing.T, p *Postgres) []int {
	t.Helper()
	children, err := childrenOf(p.process.pid())
	if err != nil || len(children) == 0 {
		t.Fatal(children, err)
	}
	return append(children, p.process.pid())
}

func wantGone(t *testing.T, folder string, pids ...int) {
	t.Helper()
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", folder, err)
	}
	for _, pid := range pids {
		if state, _ := stat(pid); state != gone {
			t.Errorf("process %d is left", pid)
		}
	}
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	if err := waitFor(condition); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
