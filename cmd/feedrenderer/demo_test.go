package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/codemojex/feedrenderer/web/browsertest"
)

// demo starts the demo in a folder of its own for what it leaves behind.
func demo(t *testing.T, folder string, arguments ...string) *program {
	t.Helper()
	return start(t, []string{"TMPDIR=" + folder}, append([]string{"demo", "--rate", "30"}, arguments...)...)
}

var readyLine = regexp.MustCompile(`(?m)^ready (http://\S+)$`)

// readyAt waits for the line that says where to look.
func readyAt(t *testing.T, p *program) string {
	t.Helper()
	var url string
	until(t, "the demo is ready", func() bool {
		select {
		case <-p.child.Ended():
			t.Fatalf("it has ended: %v\n%s", p.child.Err(), p.stderr)
		default:
		}
		found := readyLine.FindStringSubmatch(p.stdout.String())
		if found != nil {
			url = found[1]
		}
		return found != nil
	})
	return url
}

func TestDemo(t *testing.T) {
	t.Parallel()
	// Postgres runs as another user where we are root, and must be able to pass through to its folder.
	folder := t.TempDir()
	if err := os.Chmod(filepath.Dir(folder), 0o755); err != nil {
		t.Fatal(err)
	}

	t.Run("ShowsLinesThatMoveAndLeavesNothingOnCtrlC", func(t *testing.T) {
		begun := time.Now()
		p := demo(t, folder, "--listen", someAddress(t))
		url := readyAt(t, p)
		t.Logf("ready after %v", time.Since(begun).Round(time.Millisecond))

		page := browsertest.Tab(t)
		page.Open(url)
		newest := `document.querySelector("article")?.id ?? ""`
		page.Until(newest)
		for range 3 {
			page.Until(newest + ` !== "` + browsertest.Eval[string](page, newest) + `"`)
		}

		secluded := regexp.MustCompile(`(?m)^  (http://\S+)(#token=\S+)$`).FindStringSubmatch(p.stdout.String())
		if secluded == nil {
			t.Fatalf("no page of a tenant that is not for everybody: %s", p.stdout)
		}
		private := browsertest.Tab(t)
		private.Open(secluded[1])
		private.Until(`document.getElementById("token").checkVisibility()`)
		private.Do(`location.hash = "` + secluded[2] + `"`)
		private.Until(`(` + newest + `) && location.hash === ""`)

		operators := regexp.MustCompile(`(?m)^  (http://\S+/-/operate)\n  (frk_\S+)$`).FindStringSubmatch(p.stdout.String())
		if operators == nil {
			t.Fatalf("no page of operators with its key: %s", p.stdout)
		}
		operate := browsertest.Tab(t)
		operate.Open(operators[1])
		operate.Until(`document.activeElement.id === "key"`)
		operate.Type(operators[2] + kb.Enter)
		operate.Until(`document.getElementById("streams").textContent.includes("g1")`)

		word := regexp.MustCompile(`VALKEY_URL=(\S+) \S+ (append .* text=hello)\n`).FindStringSubmatch(p.stdout.String())
		if word == nil {
			t.Fatalf("no command for a word of one's own: %s", p.stdout)
		}
		if err := run(t.Context(), strings.Fields(word[2]), []string{"VALKEY_URL=" + word[1]}, io.Discard, t.Output()); err != nil {
			t.Fatal(err)
		}
		page.Until(`[...document.querySelectorAll("article")].some((line) => line.textContent.includes("hello"))`)

		family := descendants(t, p.child.PID())
		if len(family) < 8 { // itself, five of its kind, Valkey, Postgres
			t.Errorf("%d processes", len(family))
		}
		begun = time.Now()
		p.signal(syscall.SIGINT)
		if err := p.child.Err(); err != nil {
			t.Errorf("it ended with %v\n%s", err, p.stderr)
		}
		t.Logf("ended within %v", time.Since(begun).Round(time.Millisecond))
		untilGone(t, family)
		if left := left(t, folder); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})

	t.Run("TakesAnotherPortWhereItsOwnIsTaken", func(t *testing.T) {
		taken, err := listen(t.Context(), "listen", "127.0.0.1:0", http.NotFoundHandler(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer taken.close()
		p := demo(t, folder, "--listen", taken.address)
		if url := readyAt(t, p); strings.Contains(url, taken.address) {
			t.Errorf("ready at %s, which is taken", url)
		}
		family := descendants(t, p.child.PID())
		p.signal(syscall.SIGKILL)
		untilGone(t, family)
	})

	t.Run("LeavesNothingAfterSIGKILLOnceTheNextStartHasRun", func(t *testing.T) {
		if len(left(t, folder)) == 0 {
			t.Fatal("the demo that was killed left no folder: this test shows nothing")
		}
		p := demo(t, folder, "--listen", someAddress(t))
		readyAt(t, p)
		p.signal(syscall.SIGINT)
		if err := p.child.Err(); err != nil {
			t.Errorf("it ended with %v\n%s", err, p.stderr)
		}
		if left := left(t, folder); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})

	t.Run("LeavesNothingWhenStoppedWhileItStarts", func(t *testing.T) {
		p := demo(t, folder, "--listen", someAddress(t))
		until(t, "its servers are about to start", func() bool { return len(left(t, folder)) > 0 })
		family := descendants(t, p.child.PID())
		p.signal(syscall.SIGINT)
		if err := p.child.Err(); err != nil {
			t.Errorf("it ended with %v\n%s", err, p.stderr)
		}
		untilGone(t, family)
		if left := left(t, folder); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})

	t.Run("StartsAReplicaAgainThatWasKilled", func(t *testing.T) {
		p := demo(t, folder, "--listen", someAddress(t))
		readyAt(t, p)
		name := regexp.MustCompile(`renderer-1 (\d+)`).FindStringSubmatch(p.stdout.String())
		pid, err := strconv.Atoi(name[1])
		if err != nil {
			t.Fatal(err)
		}
		before := descendants(t, p.child.PID())
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		until(t, "another has taken its place", func() bool {
			now := descendants(t, p.child.PID())
			return !slices.Contains(now, pid) && slices.ContainsFunc(now, func(pid int) bool {
				return !slices.Contains(before, pid) && strings.Contains(commandLineOf(pid), "render")
			})
		})
		p.signal(syscall.SIGTERM)
		if err := p.child.Err(); err != nil {
			t.Errorf("it ended with %v\n%s", err, p.stderr)
		}
	})
}

// descendants are a process and all below it that live.
func descendants(t *testing.T, pid int) []int {
	t.Helper()
	all := []int{pid}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	children := map[int][]int{}
	for _, path := range stats {
		child, parent, zombie := statOf(path)
		if child != 0 && !zombie {
			children[parent] = append(children[parent], child)
		}
	}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// statOf reads /proc/<pid>/stat: the name, in parentheses, may hold anything; state and parent follow it.
func statOf(path string) (pid, parent int, zombie bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, false
	}
	head, _, _ := strings.Cut(string(text), " ")
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	pid, err1 := strconv.Atoi(head)
	parent, err2 := strconv.Atoi(fields[1])
	if err1 != nil || err2 != nil {
		return 0, 0, false
	}
	return pid, parent, fields[0] == "Z"
}

func commandLineOf(pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return ""
	}
	return string(text)
}

func untilGone(t *testing.T, pids []int) {
	t.Helper()
	until(t, "all its processes are gone", func() bool {
		for _, pid := range pids {
			if id, _, zombie := statOf("/proc/" + strconv.Itoa(pid) + "/stat"); id != 0 && !zombie {
				return false
			}
		}
		return true
	})
}

func left(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return entries
}
