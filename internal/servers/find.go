package servers

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// findValkey finds valkey-server 7.2 or newer, else redis-server 7.0 or newer, in PATH.
func findValkey() (string, error) {
	for _, candidate := range []struct {
		name         string
		major, minor int
	}{{"valkey-server", 7, 2}, {"redis-server", 7, 0}} {
		path, err := exec.LookPath(candidate.name)
		if err != nil {
			continue
		}
		major, minor := version(path)
		if major > candidate.major || major == candidate.major && minor >= candidate.minor {
			return path, nil
		}
	}
	return "", fmt.Errorf("no valkey-server >= 7.2 nor redis-server >= 7.0 in PATH: %s", howToInstall)
}

// findPostgres finds the folder of the newest Postgres programs, 15 or newer. Debian keeps them out of PATH.
func findPostgres() (string, error) {
	var folders []string
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin", "/opt/homebrew/opt/postgresql@*/bin"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		folders = append(folders, found...)
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		// Where PATH has a link, initdb beside the program that it leads to is of the same version.
		if path, err = filepath.EvalSymlinks(path); err == nil {
			folders = append(folders, filepath.Dir(path))
		}
	}
	best, newest := "", 0
	for _, folder := range folders {
		if _, err := exec.LookPath(filepath.Join(folder, "initdb")); err != nil {
			continue
		}
		if major, _ := version(filepath.Join(folder, "postgres")); major >= 15 && major > newest {
			best, newest = folder, major
		}
	}
	if best == "" {
		return "", fmt.Errorf("no PostgreSQL >= 15 (programs initdb and postgres) found: %s", howToInstall)
	}
	return best, nil
}

const howToInstall = "`make setup` installs it"

var versionPattern = regexp.MustCompile(`(?: v=|PostgreSQL\) )(\d+)(?:\.(\d+))?`)

// version asks a program; 0 says that it does not tell.
func version(path string) (major, minor int) {
	text, err := exec.Command(path, "--version").Output() //nolint:gosec // one of the programs above
	if err != nil {
		return 0, 0
	}
	parts := versionPattern.FindSubmatch(text)
	if parts == nil {
		return 0, 0
	}
	major, _ = strconv.Atoi(string(parts[1])) // digits by the pattern
	minor, _ = strconv.Atoi(string(parts[2])) // digits or nothing: 0
	return major, minor
}
