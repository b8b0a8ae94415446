package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
	"github.com/codemojex/feedrenderer/migrations"
)

// soon is how long lines may take to flow again once what was away is back. Field reports call for two seconds; a busy
// test machine gets five times that, and the figure is logged.
const soon = 10 * time.Second

// notices appends n notices to a game, each of another text, whatever happens to the server meanwhile.
func (s *system) notices(game feed.GameKey, prefix string, n int) {
	s.t.Helper()
	for i := range n {
		until(s.t, "an event is appended", func() bool {
			_, err := s.producer.Append(s.t.Context(), game, feed.Fields{{Name: "kind", Value: "notice"}, {Name: "text", Value: fmt.Sprint(prefix, i)}})
			return err == nil
		})
	}
}

// sees waits until a watcher holds a line with the text, and says how long that took.
func (w *watcher) sees(t *testing.T, text string) time.Duration {
	t.Helper()
	begun := time.Now()
	until(t, fmt.Sprintf("the watcher sees %q", text), func() bool {
		held, _ := w.holds()
		for _, line := range held {
			if line.Text == text {
				return true
			}
		}
		return false
	})
	return time.Since(begun)
}

func TestLinesFlowAgainToThoseWhoWatchOnceValkeyIsBack(t *testing.T) {
	t.Parallel()
	valkey := serverstest.OwnValkey(t)
	s := newSystem(t, valkey.URL)
	renderer := s.serve("render", "--tenants", "acme").ready()
	web := s.serve("web", "--tenants", "acme").ready()
	game := feed.GameKey{Tenant: "acme", Game: "g1"}
	s.notices(game, "first", 1)
	w := follow(t, web, game)
	w.sees(t, "first0")

	for name, outage := range map[string]func() error{
		"ARestart": func() error { return valkey.Restart(t.Context()) },
		"ACrash": func() error {
			if err := valkey.Kill(); err != nil {
				return err
			}
			until(t, "it is missed", func() bool {
				status, _ := renderer.readyz()
				return status == http.StatusServiceUnavailable
			})
			return valkey.Restart(t.Context())
		},
		"AFreeze": func() error {
			if err := valkey.Pause(); err != nil {
				return err
			}
			until(t, "it is missed", func() bool {
				status, _ := renderer.readyz()
				return status == http.StatusServiceUnavailable
			})
			return valkey.Resume()
		},
		"LosingAllStreams": func() error { return s.client.Do(t.Context(), s.client.B().Flushall().Build()).Error() },
	} {
		t.Run(name, func(t *testing.T) {
			if err := outage(); err != nil {
				t.Fatal(err)
			}
			s.notices(game, name, 3)
			took := w.sees(t, name+"0")
			w.sees(t, name+"2")
			t.Logf("seen %v after the append", took.Round(time.Millisecond))
			if took > soon {
				t.Errorf("the first line after it took %v", took)
			}
			renderer.ready()
		})
	}
	for _, p := range []*program{renderer, web} {
		if n := strings.Count(p.stderr.String(), "\n"); n > 60 { // twenty for each outage that is one
			t.Errorf("%d log lines:\n%s", n, p.stderr)
		}
	}
}

func TestAnOutageOfPostgresCostsNoLineAndNoAttempt(t *testing.T) {
	t.Parallel()
	postgres := serverstest.OwnPostgres(t)
	s := newSystem(t, serverstest.Valkey(t))
	s.database = postgres.URL
	if err := migrations.Up(t.Context(), s.database); err != nil {
		t.Fatal(err)
	}
	const tenant = feed.TenantID("pgdown")
	p := s.serve("render,web", "--tenants", string(tenant), "--min-idle", "1s", "--max-attempts", "2", "--log-format", "json").ready()
	game := feed.GameKey{Tenant: tenant, Game: "g1"}
	s.notices(game, "before", 100)
	w := follow(t, p, game)
	w.sees(t, "before99")

	if err := postgres.Kill(); err != nil {
		t.Fatal(err)
	}
	s.notices(game, "during", 500)
	until(t, "it says that postgres is away", func() bool {
		status, said := p.readyz()
		return status == http.StatusServiceUnavailable && said.Checks["postgres"] != "ok"
	})
	down := time.Now()
	until(t, "it was away far longer than two attempts would last", func() bool { return time.Since(down) > outageTime })
	pending, err := s.client.Do(t.Context(), s.client.B().Xpending().Key(game.Stream()).Group("feedrenderer").Start("-").End("+").Count(1000).Build()).ToArray()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range pending {
		row, err := one.ToArray()
		if err != nil {
			t.Fatal(err)
		}
		if attempts, err := row[3].AsInt64(); err != nil || attempts > 1 {
			t.Errorf("%d attempts, %v", attempts, err)
			break
		}
	}
	if err := postgres.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.notices(game, "after", 100)
	took := w.sees(t, "after99")
	t.Logf("the last line is seen %v after the return", took.Round(time.Millisecond))
	until(t, "nothing is pending", func() bool {
		pending, lag := s.standing(game)
		return pending == 0 && lag == 0
	})
	if n := len(lines(t, s.reader(), game)); n != 700 {
		t.Errorf("%d lines of 700", n)
	}
	if n, err := s.client.Do(t.Context(), s.client.B().Xlen().Key(game.DeadLetters()).Build()).ToInt64(); err != nil || n != 0 {
		t.Errorf("%d dead letters, %v", n, err)
	}
	p.ready()
	p.saidLittle()
}

// saidLittle checks that a process logs one JSON object a line, and that an outage has made it say fewer than twenty.
func (p *program) saidLittle() {
	p.t.Helper()
	said := strings.TrimSpace(p.stderr.String())
	lines := strings.Split(said, "\n")
	if len(lines) >= 20 {
		p.t.Errorf("%d log lines:\n%s", len(lines), said)
	}
	for _, line := range lines {
		var fact struct {
			Time       time.Time
			Level, Msg string
		}
		if err := json.Unmarshal([]byte(line), &fact); err != nil || fact.Time.IsZero() || fact.Level == "" || fact.Msg == "" {
			p.t.Errorf("no fact in JSON, %v: %s", err, line)
		}
	}
}

// processorTime is what a process has used of processors since it began, in seconds.
func (p *program) processorTime() float64 {
	p.t.Helper()
	const name = "\nprocess_cpu_seconds_total "
	_, after, found := strings.Cut(p.metrics(), name)
	text, _, _ := strings.Cut(after, "\n")
	seconds, err := strconv.ParseFloat(text, 64)
	if !found || err != nil {
		p.t.Fatalf("no processor time: %v", err)
	}
	return seconds
}

// An outage of the streams, of whole processes: nothing spins meanwhile.
func TestAnOutageOfValkeyIsToldInAFewLinesAndCostsLittle(t *testing.T) {
	t.Parallel()
	valkey := serverstest.OwnValkey(t)
	s := newSystem(t, valkey.URL)
	game := feed.GameKey{Tenant: "acme", Game: "g1"}
	processes := []*program{s.serve("render", "--tenants", "acme", "--log-format", "json").ready(), s.serve("web", "--tenants", "acme", "--log-format", "json").ready()}
	s.notices(game, "before", 1)
	w := follow(t, processes[1], game)
	w.sees(t, "before0")
	if err := valkey.Kill(); err != nil {
		t.Fatal(err)
	}
	used := map[*program]float64{}
	for _, p := range processes {
		used[p] = p.processorTime()
	}
	down := time.Now()
	until(t, "it was away for long", func() bool {
		for _, p := range processes {
			if status, _ := p.readyz(); status != http.StatusServiceUnavailable {
				t.Errorf("/readyz is %d while it is away", status)
			}
		}
		return time.Since(down) > outageTime
	})
	for _, p := range processes {
		share := (p.processorTime() - used[p]) / time.Since(down).Seconds()
		t.Logf("%.1f %% of a processor while it is away", 100*share)
		if share > .5 {
			t.Errorf("%.0f %% of a processor", 100*share)
		}
	}
	if err := valkey.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	s.notices(game, "after", 1)
	t.Logf("appended %v after its return, seen %v after that", time.Since(back).Round(time.Millisecond), w.sees(t, "after0").Round(time.Millisecond))
	for _, p := range processes {
		p.ready().saidLittle()
	}
}

func TestAKeyThatIsNoStreamIsNamedAndHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	s := newSystem(t, serverstest.OwnValkey(t).URL)
	const key = "emq:{acme}:stream:text"
	if err := s.client.Do(t.Context(), s.client.B().Set().Key(key).Value("x").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	p := s.serve("render,web", "--tenants", "acme").ready()
	game := feed.GameKey{Tenant: "acme", Game: "g1"}
	s.notices(game, "other", 1)
	until(t, "the other game has its line", func() bool {
		_, body := get(t, gameURL(p, game)+"/timeline")
		return strings.Contains(body, "other0")
	})
	until(t, "the key is named", func() bool {
		for _, line := range strings.Split(p.stderr.String(), "\n") {
			if strings.Contains(line, key) && (strings.Contains(line, "level=ERROR") || strings.Contains(line, "level=WARN")) {
				return true
			}
		}
		return false
	})
}
