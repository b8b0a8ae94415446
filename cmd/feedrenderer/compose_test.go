package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v3"
)

// composeProject reads the file as Docker Compose does, with the services of all profiles.
func composeProject(t *testing.T) *types.Project {
	t.Helper()
	file, err := filepath.Abs("../../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	options, err := cli.NewProjectOptions([]string{file}, cli.WithProfiles([]string{"*"}))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// TestComposeFile: the file is a Compose project, and each service that runs our image is told nothing that the program
// does not know, and all it needs.
func TestComposeFile(t *testing.T) {
	t.Parallel()
	project := composeProject(t)
	help := helpText(t, "--help")
	ours := 0
	for name, service := range project.Services {
		if service.Image != "feedrenderer" {
			continue
		}
		ours++
		var environ []string
		for variable, value := range service.Environment {
			if !strings.Contains(help, " "+variable+" ") {
				t.Errorf("service %s: --help does not list %s", name, variable)
			}
			if value != nil {
				environ = append(environ, variable+"="+*value)
			}
		}
		if _, _, err := parse(service.Command, environ, io.Discard); err != nil {
			t.Errorf("service %s: %v", name, err)
		}
	}
	if ours < 4 {
		t.Errorf("%d services run our image, want migrate, renderer, web and simulator at least", ours)
	}
}

// TestComposeFileObserves: Prometheus and Grafana are there when asked for, read what deploy/ has, and find every process
// that serves.
func TestComposeFileObserves(t *testing.T) {
	t.Parallel()
	project := composeProject(t)
	for _, name := range []string{"prometheus", "grafana"} {
		service, err := project.GetService(name)
		if err != nil || !slices.Equal(service.Profiles, []string{"observability"}) {
			t.Errorf("service %s has the profiles %v, %v", name, service.Profiles, err)
		}
		for _, volume := range service.Volumes {
			if _, err := os.Stat(volume.Source); volume.Type == types.VolumeTypeBind && (err != nil || !volume.ReadOnly) {
				t.Errorf("service %s mounts %+v, %v", name, volume, err)
			}
		}
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("service %s answers on %q", name, port.HostIP)
			}
		}
	}

	var scraped struct {
		ScrapeConfigs []struct {
			DNS []struct {
				Names []string
				Port  int
			} `yaml:"dns_sd_configs"`
		} `yaml:"scrape_configs"`
	}
	text, err := os.ReadFile("../../deploy/prometheus/prometheus.yml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &scraped); err != nil {
		t.Fatal(err)
	}
	if len(scraped.ScrapeConfigs) != 1 || len(scraped.ScrapeConfigs[0].DNS) != 1 || scraped.ScrapeConfigs[0].DNS[0].Port != 9090 {
		t.Fatalf("it scrapes %+v", scraped)
	}
	names := scraped.ScrapeConfigs[0].DNS[0].Names
	for name, service := range project.Services {
		serves := service.Image == "feedrenderer" && slices.Contains(service.Command, "serve")
		if serves != slices.Contains(names, name) {
			t.Errorf("service %s: it serves %v, Prometheus looks for %v", name, serves, names)
		}
		if at := service.Environment["FEEDRENDERER_PRIVATE_LISTEN"]; serves && (at == nil || *at != ":9090") {
			t.Errorf("service %s: its metrics are not on port 9090", name)
		}
	}
}
