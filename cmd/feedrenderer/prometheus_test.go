package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/internal/servers"
)

// monitor is a Prometheus with the shipped rules that scrapes serve processes of a system.
type monitor struct {
	t     *testing.T
	s     *system
	url   string
	seats []net.Listener // hold the private addresses of processes to come
}

// The shipped durations, for and windows alike, are divided by hurried, and scrapes come more often: what takes minutes in
// the field takes seconds here. Nothing else of the rules is changed.
const (
	hurried     = 30
	scrapeEvery = 2 * time.Second
)

// startMonitor starts one for so many processes, whose addresses it knows from the start: it takes up new ones only every
// five seconds.
func startMonitor(t *testing.T, s *system, processes int) *monitor {
	t.Helper()
	m := &monitor{t: t, s: s}
	dir := t.TempDir()
	var targets []string
	for range processes {
		seat, err := new(net.ListenConfig).Listen(t.Context(), "tcp", someAddress(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = seat.Close() }) // of one that is taken it was closed before
		m.seats = append(m.seats, seat)
		targets = append(targets, strconv.Quote(seat.Addr().String()))
	}
	rules, err := os.ReadFile("../../deploy/prometheus/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`
global: { scrape_interval: %v, scrape_timeout: %v, evaluation_interval: 500ms }
rule_files: [rules.yml]
scrape_configs:
  - job_name: feedrenderer
    static_configs: [{ targets: [%s] }]
`, scrapeEvery, scrapeEvery, strings.Join(targets, ", "))
	for name, text := range map[string]string{"rules.yml": hurry(t, string(rules)), "prometheus.yml": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address := someAddress(t)
	m.url = "http://" + address
	said := &output{}
	cmd := exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn")
	cmd.Stdout, cmd.Stderr = said, said
	child, err := servers.StartChild(cmd)
	if err != nil {
		t.Fatalf("prometheus, which `make setup` installs: %v", err)
	}
	t.Cleanup(func() {
		if err := child.Stop(10 * time.Second); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("prometheus said:\n%s", said)
		}
	})
	until(t, "prometheus is ready", func() bool {
		status, _ := get(t, m.url+"/-/ready")
		return status == http.StatusOK
	})
	return m
}

// hurry divides the durations of rules.
func hurry(t *testing.T, rules string) string {
	t.Helper()
	return regexp.MustCompile(`(?m)(for: |\[)(\d+[smh])`).ReplaceAllStringFunc(rules, func(found string) string {
		i := strings.IndexAny(found, "0123456789")
		long, err := time.ParseDuration(found[i:])
		if err != nil {
			t.Fatal(err)
		}
		return found[:i] + strconv.Itoa(int((long / hurried).Milliseconds())) + "ms"
	})
}

// serve starts a process and returns when it was scraped.
func (m *monitor) serve(roles string, arguments ...string) *program {
	m.t.Helper()
	seat := m.seats[0]
	m.seats = m.seats[1:]
	if err := seat.Close(); err != nil {
		m.t.Fatal(err)
	}
	p := m.s.serve(roles, append(arguments, "--private-listen", seat.Addr().String())...)
	p.private = seat.Addr().String()
	p.ready()
	until(m.t, "it is scraped", func() bool { return len(m.values(fmt.Sprintf("up{instance=%q} == 1", p.private))) > 0 })
	return p
}

// firing are the alerts that fire, each by its name and the tenant that it is about, if any: Name or Name/tenant; with the
// moment since which its condition holds.
func (m *monitor) firing() map[string]time.Time {
	m.t.Helper()
	var said struct {
		Alerts []struct {
			State    string
			ActiveAt time.Time
			Labels   map[string]string
		}
	}
	m.ask("/api/v1/alerts", &said)
	out := map[string]time.Time{}
	for _, a := range said.Alerts {
		if a.State == "firing" {
			out[strings.TrimSuffix(a.Labels["alertname"]+"/"+a.Labels["tenant"], "/")] = a.ActiveAt
		}
	}
	return out
}

// fires waits until an alert fires, and says since when its condition holds.
func (m *monitor) fires(t *testing.T, alert string) (since time.Time) {
	t.Helper()
	until(t, alert+" fires", func() (fires bool) {
		since, fires = m.firing()[alert]
		return fires
	})
	return since
}

// clears waits until an alert no longer fires, and says how long that took.
func (m *monitor) clears(t *testing.T, alert string) time.Duration {
	t.Helper()
	begun := time.Now()
	until(t, alert+" clears", func() bool { return m.firing()[alert].IsZero() })
	return time.Since(begun)
}

// values are the values of an instant query that are numbers. A query that cannot be parsed fails the test.
func (m *monitor) values(query string) []float64 {
	m.t.Helper()
	var said struct {
		Result []struct{ Value [2]any }
	}
	m.ask("/api/v1/query?query="+url.QueryEscape(query), &said)
	var out []float64
	for _, r := range said.Result {
		text, _ := r.Value[1].(string)
		if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(v) {
			out = append(out, v)
		}
	}
	return out
}

// ask asks the HTTP API.
func (m *monitor) ask(path string, into any) {
	m.t.Helper()
	status, body := get(m.t, m.url+path)
	answer := struct {
		Status, Error string
		Data          any
	}{Data: into}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Status != "success" {
		m.t.Fatalf("%s: %d %s %v", path, status, body, err)
	}
}
