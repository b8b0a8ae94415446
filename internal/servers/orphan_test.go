package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// A test binary that is started with this in its environment is a process that starts both servers and waits to be killed.
const helperVariable = "SERVERS_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperVariable) != "" {
		if err := helper(os.Getenv(helperVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}

func helper(what string) error {
	valkey, err := StartValkey(context.Background(), ValkeyConfig{})
	if err != nil {
		return err
	}
	postgres, err := StartPostgres(context.Background(), PostgresConfig{})
	if err != nil {
		return err
	}
	if what == "paused" {
		if err := errors.Join(valkey.Pause(), postgres.Pause()); err != nil {
			return err
		}
	}
	fmt.Println(valkey.folder.path, postgres.folder.path, valkey.process.pid(), postgres.process.pid())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func TestAKilledProcess(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"serving", "paused"} {
		t.Run("TakesItsServersAlongWhile/"+what, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), helperVariable+"="+what)
			cmd.Stderr = os.Stderr
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var folders [2]string
			var pids [2]int
			_, scanned := fmt.Fscan(stdout, &folders[0], &folders[1], &pids[0], &pids[1])
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil || scanned != nil {
				t.Fatal(err, scanned)
			}
			eventually(t, "its servers end", func() bool {
				for _, pid := range pids {
					if state, _ := stat(pid); state != gone {
						return false
					}
				}
				return true
			})
			eventually(t, "the next start removes its folders", func() bool {
				f, err := newFolder()
				if err != nil {
					t.Fatal(err)
				}
				if err := f.remove(); err != nil {
					t.Fatal(err)
				}
				_, first := os.Stat(folders[0])
				_, second := os.Stat(folders[1])
				return os.IsNotExist(first) && os.IsNotExist(second)
			})
		})
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dead, alive, foreign := filepath.Join(root, folderPrefix+"dead"), filepath.Join(root, folderPrefix+"alive"), filepath.Join(root, "other")
	for _, path := range []string{dead, alive, foreign} {
		if err := os.MkdirAll(filepath.Join(path, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := lockFolder(alive)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := sweep(root); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(root, "*"))
	if err != nil || strings.Join(left, " ") != alive+" "+foreign {
		t.Fatal(left, err)
	}
}

func TestPassable(t *testing.T) {
	t.Parallel()
	closed := t.TempDir()
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if passable(filepath.Join(closed)) || !passable("/usr/bin") || passable("/no such folder") {
		t.Fatal(passable(closed), passable("/usr/bin"))
	}
}
