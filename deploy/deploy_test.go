// Package deploy_test checks what is shipped for those who run the product: alerts, dashboard, their configuration.
package deploy_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// promtool runs Prometheus's own checker, which `make setup` installs.
func promtool(t *testing.T, arguments ...string) {
	t.Helper()
	if out, err := exec.Command("promtool", arguments...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
}

func TestPromtoolFindsNothing(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "config", "prometheus/prometheus.yml")
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", "prometheus/rules.yml")
	promtool(t, "test", "rules", "prometheus/rules_test.yml")
}

type alert struct {
	Name        string            `yaml:"alert"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func alerts(t *testing.T) (all []alert) {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []alert }
	}
	if err := yaml.Unmarshal([]byte(read(t, "prometheus/rules.yml")), &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// runbooks are the paragraphs of docs/operations.md by their anchors.
func runbooks(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, part := range regexp.MustCompile(`(?m)^#+ `).Split(read(t, "../docs/operations.md"), -1)[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		anchor := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(heading), "")
		out[strings.ReplaceAll(anchor, " ", "-")] = text
	}
	return out
}

func TestEachAlertHasItsParagraphAndItsTest(t *testing.T) {
	t.Parallel()
	paragraphs := runbooks(t)
	tested := read(t, "prometheus/rules_test.yml")
	for _, a := range alerts(t) {
		if !slices.Contains([]string{"critical", "warning"}, a.Labels["severity"]) || a.Annotations["summary"] == "" {
			t.Errorf("%s: severity %q, summary %q", a.Name, a.Labels["severity"], a.Annotations["summary"])
		}
		page, anchor, _ := strings.Cut(a.Annotations["runbook_url"], "#")
		if page != "https://github.com/codemojex/feedrenderer/blob/main/docs/operations.md" {
			t.Errorf("%s: its runbook is %q", a.Name, page)
		}
		paragraph, ok := paragraphs[anchor]
		if !ok || anchor != strings.ToLower(a.Name) {
			t.Errorf("%s: docs/operations.md has no heading for #%s of its own", a.Name, anchor)
		}
		for _, part := range []string{"**Means**", "**Confirm**", "**Do**", "**Do not**"} {
			if !strings.Contains(paragraph, part) {
				t.Errorf("%s: its paragraph lacks %s", a.Name, part)
			}
		}
		// Told to fire with all it says, and told to be silent before and after.
		if n := strings.Count(tested, "alertname: "+a.Name+" }"); n < 2 || strings.Count(tested, "alertname: "+a.Name+"\n        exp_alerts:\n") < 1 {
			t.Errorf("%s: rules_test.yml has it silent %d times, want twice, and firing once", a.Name, n)
		}
	}
}

// TestTheDashboardLoadsUnedited: what Grafana asks of a dashboard in a file. That its queries give data is tested where the
// whole system runs, with the command line.
func TestTheDashboardLoadsUnedited(t *testing.T) {
	t.Parallel()
	type source struct{ Type, UID string }
	type panel struct {
		ID         int
		Type       string
		Title      string
		Datasource source
		GridPos    struct{ X, Y, W, H int }
		Targets    []struct {
			RefID      string `json:"refId"`
			Datasource source
			Expr       string
		}
	}
	var board struct {
		ID            *int
		UID, Title    string
		SchemaVersion int
		Templating    struct{ List []struct{ Name, Type string } }
		Panels        []panel
	}
	text := read(t, "grafana/dashboards/feedrenderer.json")
	if err := json.Unmarshal([]byte(text), &board); err != nil {
		t.Fatal(err)
	}
	if board.ID != nil || board.UID == "" || board.Title == "" || board.SchemaVersion < 36 {
		t.Errorf("id %v, uid %q, title %q, schema %d", board.ID, board.UID, board.Title, board.SchemaVersion)
	}
	if v := board.Templating.List; len(v) == 0 || v[0].Name != "datasource" || v[0].Type != "datasource" {
		t.Errorf("the first variable is %+v, want the data source", v)
	}
	ids := map[int]bool{}
	taken := map[[2]int]int{}
	for _, p := range board.Panels {
		if p.ID == 0 || ids[p.ID] || p.Title == "" {
			t.Errorf("panel %q has the id %d, which is none or another's", p.Title, p.ID)
		}
		ids[p.ID] = true
		at := p.GridPos
		if at.X < 0 || at.Y < 0 || at.W < 1 || at.H < 1 || at.X+at.W > 24 {
			t.Errorf("panel %q is off the grid: %+v", p.Title, at)
		}
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other := taken[[2]int{x, y}]; other != 0 {
					t.Fatalf("panel %q lies over panel %d", p.Title, other)
				}
				taken[[2]int{x, y}] = p.ID
			}
		}
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 {
			t.Errorf("panel %q asks nothing", p.Title)
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if target.RefID == "" || refs[target.RefID] || target.Expr == "" {
				t.Errorf("panel %q asks %q as %q", p.Title, target.Expr, target.RefID)
			}
			refs[target.RefID] = true
			if want := (source{"prometheus", "${datasource}"}); p.Datasource != want || target.Datasource != want {
				t.Errorf("panel %q asks %+v and %+v", p.Title, p.Datasource, target.Datasource)
			}
		}
	}
	var sources struct {
		Datasources []struct{ Name, UID, Type, URL string }
	}
	if err := yaml.Unmarshal([]byte(read(t, "grafana/provisioning/datasources/prometheus.yml")), &sources); err != nil {
		t.Fatal(err)
	}
	if len(sources.Datasources) != 1 || sources.Datasources[0].Type != "prometheus" {
		t.Errorf("data sources %+v", sources.Datasources)
	}
}
