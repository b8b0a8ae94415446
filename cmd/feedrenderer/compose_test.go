package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
)

// TestComposeFile: the file is a Compose project, and each service that runs our image is told nothing that the program
// does not know, and all it needs.
func TestComposeFile(t *testing.T) {
	t.Parallel()
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
