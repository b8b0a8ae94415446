package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

// readiness is the answer of /readyz.
type readyAnswer struct {
	Ready    bool
	Checks   map[string]string
	Warnings []string
}

func (p *program) readyz() (status int, said readyAnswer) {
	p.t.Helper()
	status, body := get(p.t, "http://"+p.private+"/readyz")
	if status != 0 {
		if err := json.Unmarshal([]byte(body), &said); err != nil {
			p.t.Fatalf("%d %q: %v", status, body, err)
		}
	}
	return status, said
}

func TestServeStartsBeforeItsServersAndOutlivesThem(t *testing.T) {
	t.Parallel()
	valkey := serverstest.OwnValkey(t)
	s := newSystem(t, valkey.URL)
	if err := valkey.Kill(); err != nil {
		t.Fatal(err)
	}
	p := s.serve("render,web", "--tenants", "acme")
	until(t, "it says that valkey is away", func() bool {
		status, said := p.readyz()
		return status == http.StatusServiceUnavailable && !said.Ready && strings.Contains(said.Checks["valkey"], "refused")
	})
	if err := valkey.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.ready()

	game := feed.GameKey{Tenant: "acme", Game: "g1"}
	notice := feed.Fields{{Name: "kind", Value: "notice"}, {Name: "text", Value: "hello"}}
	shows := func(n int) {
		t.Helper()
		until(t, "all lines are there", func() bool {
			_, body := get(t, gameURL(p, game)+"/timeline")
			return strings.Count(body, `"hello"`) == 2*n // as text and as field
		})
	}
	appendNotice := func() {
		t.Helper()
		until(t, "an event is appended", func() bool {
			_, err := s.producer.Append(t.Context(), game, notice)
			return err == nil
		})
	}
	appendNotice()
	shows(1)

	if err := valkey.Kill(); err != nil {
		t.Fatal(err)
	}
	until(t, "it says again that valkey is away", func() bool {
		status, said := p.readyz()
		return status == http.StatusServiceUnavailable && said.Checks["valkey"] != "ok"
	})
	if status, _ := get(t, "http://"+p.public+"/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("the public address says %d", status)
	}
	if status, _ := get(t, "http://"+p.private+"/healthz"); status != http.StatusOK {
		t.Errorf("alive: %d", status)
	}
	if err := valkey.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	appendNotice()
	shows(2)
	p.ready()
	if n := strings.Count(p.stderr.String(), "\n"); n > 25 {
		t.Errorf("%d log lines", n)
	}
}

func TestServeWaitsForTheSchema(t *testing.T) {
	t.Parallel()
	s := newSystem(t, serverstest.Valkey(t))
	s.database = serverstest.EmptyDatabase(t)
	p := s.serve("web", "--tenants", "waits")
	until(t, "it says that the database is not ready", func() bool {
		status, said := p.readyz()
		return status == http.StatusServiceUnavailable && said.Checks["valkey"] == "ok" && said.Checks["postgres"] != "ok" && said.Checks["postgres"] != errNotYet.Error()
	})
	s.run("migrate")
	p.ready()
	if text := s.run("health", "--private-listen", p.private); !strings.Contains(text, `"ready":true`) {
		t.Errorf("health says %s", text)
	}
}

func TestServeWaitsForTheMigrationsOfItsVersion(t *testing.T) {
	t.Parallel()
	s := newSystem(t, serverstest.Valkey(t))
	lacks := func(lacking bool) {
		t.Helper()
		const newest = `update goose_db_version set is_applied = not $1 where version_id = (select max(version_id) from goose_db_version)`
		if _, err := s.owner().Exec(t.Context(), newest, lacking); err != nil {
			t.Fatal(err)
		}
	}
	lacks(true)
	p := s.serve("render,web", "--tenants", "lags")
	until(t, "it says what the database lacks", func() bool {
		status, said := p.readyz()
		return status == http.StatusServiceUnavailable && strings.HasSuffix(said.Checks["postgres"], "run feedrenderer migrate")
	})
	lacks(false)
	p.ready()
}

func TestHealthFailsWithTheReasons(t *testing.T) {
	t.Parallel()
	state := newState()
	l, err := listen(t.Context(), "listen", "127.0.0.1:0", state.handler(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	err = run(t.Context(), []string{"health", "--private-listen", l.address}, nil, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "not ready") || !strings.Contains(err.Error(), `"postgres":"not connected yet"`) {
		t.Errorf("got %v", err)
	}
}

func TestAServerThatRefusesUsIsAnErrorAtOnceAndNoSecretIsTold(t *testing.T) {
	t.Parallel()
	const password, wrong = "correct-horse-battery", "staple-of-the-wrong-kind"
	valkey := serverstest.OwnValkey(t)
	s := newSystem(t, valkey.URL)
	if err := s.client.Do(t.Context(), s.client.B().ConfigSet().ParameterValue().ParameterValue("requirepass", password).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	with := func(text, user, secret string) string {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(user, secret)
		return u.String()
	}
	rightValkey, rightDatabase := with(valkey.URL, "default", password), s.database

	for name, c := range map[string]struct{ valkey, database, want string }{
		"AWrongPasswordOfValkey":   {with(valkey.URL, "default", wrong), rightDatabase, "WRONGPASS"},
		"NoPasswordOfValkey":       {valkey.URL, rightDatabase, "NOAUTH"},
		"AWrongPasswordOfPostgres": {rightValkey, with(rightDatabase, "postgres", wrong), "28P01"},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, []string{"VALKEY_URL=" + c.valkey, "DATABASE_URL=" + c.database},
				"serve", "--listen", "127.0.0.1:0", "--private-listen", "127.0.0.1:0", "--log-level", "debug", "--tenants", "acme")
			select {
			case <-p.child.Ended():
			case <-time.After(patience):
				t.Error("it goes on")
				p.stop()
			}
			if said := p.stderr.String(); p.child.Err() == nil || !strings.Contains(said, c.want) {
				t.Errorf("ended with %v, want %s:\n%s", p.child.Err(), c.want, said)
			}
			hasNoSecret(t, p, wrong, password)
		})
	}

	t.Run("WhatRunsTellsNone", func(t *testing.T) {
		s.valkey = rightValkey
		p := s.serve("render,web", "--tenants", "acme", "--log-level", "debug").ready()
		if err := valkey.Kill(); err != nil {
			t.Fatal(err)
		}
		until(t, "valkey is missed", func() bool {
			status, _ := p.readyz()
			return status == http.StatusServiceUnavailable
		})
		secrets := []string{password}
		if u, err := url.Parse(rightDatabase); err == nil {
			if secret, ok := u.User.Password(); ok {
				secrets = append(secrets, secret)
			}
		}
		hasNoSecret(t, p, secrets...)
		for _, path := range []string{"/readyz", "/metrics", "/debug/pprof/cmdline"} {
			_, body := get(t, "http://"+p.private+path)
			for _, secret := range secrets {
				if strings.Contains(body, secret) {
					t.Errorf("%s tells a secret", path)
				}
			}
		}
	})
}

func hasNoSecret(t *testing.T, p *program, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		if strings.Contains(p.stderr.String()+p.stdout.String(), secret) {
			t.Errorf("a secret is told:\n%s", p.stderr)
		}
	}
}

func TestAServerThatEvictsIsWarnedOf(t *testing.T) {
	t.Parallel()
	s := newSystem(t, serverstest.OwnValkey(t).URL)
	if err := s.client.Do(t.Context(), s.client.B().ConfigSet().ParameterValue().ParameterValue("maxmemory-policy", "allkeys-lru").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	p := s.serve("render", "--tenants", "acme").ready()
	until(t, "it warns in its log and in its answer", func() bool {
		_, said := p.readyz()
		return said.Ready && strings.Contains(p.stderr.String(), "level=WARN") && strings.Contains(p.stderr.String(), "allkeys-lru") &&
			slices.ContainsFunc(said.Warnings, func(w string) bool { return strings.Contains(w, "allkeys-lru") })
	})
}

func TestKindsWithFaultsAreRefusedWithTheRest(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "mine.toml"), []byte("[kind.cheered]\ntone = \"shrill\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := run(t.Context(), []string{"serve", "--kinds", folder, "--batch", "0"}, []string{someValkey, someDatabase}, io.Discard, io.Discard)
	for _, want := range []string{"--kinds ($FEEDRENDERER_KINDS): " + folder + "/mine.toml:2: ", "--batch ($FEEDRENDERER_BATCH): "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}

func TestMetricsTellOfBothRoles(t *testing.T) {
	t.Parallel()
	s := newSystem(t, serverstest.Valkey(t))
	p := s.serve("render,web", "--tenants", "measured").ready()
	s.run("append", "measured/g1", "kind=notice", "text=hello")
	until(t, "metrics tell of the line, of the group, of requests and of this process", func() bool {
		get(t, "http://"+p.public+"/v1/tenants/measured/games")
		_, body := get(t, "http://"+p.private+"/metrics")
		for _, want := range []string{
			`feedrenderer_render_entries_total{fate="written",tenant="measured"} 1`, "consumer_", "feedrenderer_web_", "go_goroutines",
		} {
			if !strings.Contains(body, want) {
				return false
			}
		}
		return true
	})
	if status, _ := get(t, "http://"+p.public+"/metrics"); status == http.StatusOK {
		t.Error("the public address tells metrics")
	}
}
