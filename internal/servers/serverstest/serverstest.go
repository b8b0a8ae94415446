// Package serverstest gives tests the servers they need. A package's tests share one Valkey, in which each test keeps to keys of
// its own, and one Postgres, in which each test has a database of its own. Both start on first use. Where VALKEY_URL or
// DATABASE_URL is set, that server is shared instead.
//
// Postgres runs without fsync here: tests make hundreds of databases, and none of them outlives a crash of the machine.
package serverstest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/codemojex/feedrenderer/internal/servers"
)

// patience bounds each step that has to do with a server.
const patience = 2 * time.Minute

// shared are the servers of this test binary.
var shared struct {
	sync.Mutex
	valkey   *servers.Valkey
	postgres *postgres
}

// Main is the TestMain of every package whose tests use servers: it runs the tests, stops what they started, fails if a goroutine
// is left, and exits.
func Main(m *testing.M) {
	// A cluster's client waits up to a second before it asks anew where the slots are, and nothing ends that, not its Close either.
	goleak.VerifyTestMain(suite{m}, goleak.IgnoreAnyFunction("github.com/valkey-io/valkey-go.(*call).DelayDo.func1"))
}

type suite struct{ *testing.M }

func (s suite) Run() int {
	code := s.M.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, "serverstest:", err)
		return max(code, 1)
	}
	return code
}

func stopShared() error {
	shared.Lock()
	defer shared.Unlock()
	var errs []error
	if shared.postgres != nil {
		errs = append(errs, shared.postgres.stop())
	}
	if shared.valkey != nil {
		errs = append(errs, shared.valkey.Stop())
	}
	return errors.Join(errs...)
}

// Valkey is the URL of the Valkey that the tests of this package share: keep to keys of your own. It loses all on a restart.
func Valkey(t testing.TB) string {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.valkey == nil {
		valkey, err := servers.StartValkey(t.Context(), servers.ValkeyConfig{URL: os.Getenv("VALKEY_URL")})
		if err != nil {
			t.Fatal(err)
		}
		shared.valkey = valkey
	}
	return shared.valkey.URL
}

// Database is the URL of a migrated database of this test alone, dropped when the test ends. The login owns it and is a superuser,
// or who DATABASE_URL names.
func Database(t testing.TB) string {
	t.Helper()
	return database(t, (*postgres).fromTemplate)
}

// EmptyDatabase is Database before the first migration.
func EmptyDatabase(t testing.TB) string {
	t.Helper()
	return database(t, (*postgres).empty)
}

func database(t testing.TB, create func(*postgres, context.Context) (name string, err error)) string {
	t.Helper()
	p := sharedPostgres(t)
	name, err := create(p, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := p.drop(ctx, name); err != nil {
			t.Error(err)
		}
	})
	return p.url(name)
}

func sharedPostgres(t testing.TB) *postgres {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.postgres == nil {
		p, err := startPostgres(t.Context(), os.Getenv("DATABASE_URL"))
		if err != nil {
			t.Fatal(err)
		}
		shared.postgres = p
	}
	return shared.postgres
}

// OwnValkey is a private server of this test alone, which may be stopped, killed, paused and restarted and keeps its data then. It
// is started even where VALKEY_URL is set.
func OwnValkey(t testing.TB) *servers.Valkey {
	t.Helper()
	valkey, err := servers.StartValkey(t.Context(), servers.ValkeyConfig{AppendOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := valkey.Stop(); err != nil {
			t.Error(err)
		}
	})
	return valkey
}

// OwnPostgres is a private server of this test alone, which may be stopped, killed, paused and restarted and keeps its data then.
// Its database has no schema yet. It is started even where DATABASE_URL is set.
func OwnPostgres(t testing.TB) *servers.Postgres {
	t.Helper()
	postgres, err := servers.StartPostgres(t.Context(), servers.PostgresConfig{NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := postgres.Stop(); err != nil {
			t.Error(err)
		}
	})
	return postgres
}
