package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/timeline"
	"github.com/codemojex/feedrenderer/internal/servers"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

// asProgram makes this test binary the program itself: tests run real processes of it, with the race detector where the
// tests have it.
const asProgram = "TEST_BINARY_IS_FEEDRENDERER"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	serverstest.Main(m)
}

// patience bounds every wait. It is long, so that a busy machine fails nothing.
const patience = 90 * time.Second

// system is an installation under test: its servers, and processes of the program.
type system struct {
	t        *testing.T
	valkey   string // URL
	database string // URL
	client   valkey.Client
	producer *feed.Producer
}

func newSystem(t *testing.T, valkeyURL string) *system {
	t.Helper()
	s := &system{t: t, valkey: valkeyURL, database: serverstest.Database(t)}
	option, err := valkey.ParseURL(valkeyURL)
	if err != nil {
		t.Fatal(err)
	}
	if s.client, err = newValkey(option); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	mint, err := newMint()
	if err != nil {
		t.Fatal(err)
	}
	s.producer = feed.NewProducer(s.client, mint)
	return s
}

// run runs a command to its end and gives what it printed.
func (s *system) run(arguments ...string) string {
	s.t.Helper()
	var out bytes.Buffer
	environ := []string{"VALKEY_URL=" + s.valkey, "DATABASE_URL=" + s.database}
	if err := run(s.t.Context(), arguments, environ, &out, s.t.Output()); err != nil {
		s.t.Fatalf("%s: %v", strings.Join(arguments, " "), err)
	}
	return strings.TrimSpace(out.String())
}

// xadd appends as somebody does who knows nothing of ids, and gives the EVT id that readers derive.
func (s *system) xadd(key string, fields ...string) feed.ID {
	s.t.Helper()
	entry, err := s.client.Do(s.t.Context(), s.client.B().Arbitrary("XADD").Keys(key).Args("*").Args(fields...).Build()).ToString()
	if err != nil {
		s.t.Fatal(err)
	}
	id, err := feed.IDOfEntry(entry)
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

// reader reads the table as the web role does.
func (s *system) reader() *timeline.Reader {
	s.t.Helper()
	return timeline.NewReader(s.pool(timeline.RoleWeb))
}

func (s *system) pool(role timeline.Role) *pgxpool.Pool {
	s.t.Helper()
	return s.closed(timeline.Open(s.t.Context(), s.database, role, 4))
}

// owner is who owns the schema.
func (s *system) owner() *pgxpool.Pool {
	s.t.Helper()
	return s.closed(pgxpool.New(s.t.Context(), s.database))
}

// closed closes a pool when the test ends.
func (s *system) closed(pool *pgxpool.Pool, err error) *pgxpool.Pool {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(pool.Close)
	return pool
}

// program is a running process of the program.
type program struct {
	t               *testing.T
	child           *servers.Child
	stdout, stderr  *output
	public, private string // addresses of a serve process
	killed          bool
}

// serve starts a serve process. When the test ends it is stopped, and must end well.
func (s *system) serve(roles string, arguments ...string) *program {
	s.t.Helper()
	public, private := someAddress(s.t), someAddress(s.t)
	p := start(s.t, []string{"VALKEY_URL=" + s.valkey, "DATABASE_URL=" + s.database},
		append([]string{"serve", "--roles", roles, "--listen", public, "--private-listen", private}, arguments...)...)
	p.public, p.private = public, private
	s.t.Cleanup(p.stop)
	return p
}

// start starts the program with nothing of our environment but what programs need anywhere.
func start(t *testing.T, environ []string, arguments ...string) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, stdout: &output{}, stderr: &output{}}
	cmd := exec.Command(self, arguments...)
	cmd.Env = append([]string{asProgram + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, environ...)
	cmd.Stdout, cmd.Stderr = p.stdout, p.stderr
	if p.child, err = servers.StartChild(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s (%d) said:\n%s%s", strings.Join(arguments, " "), p.child.PID(), p.stdout, p.stderr)
		}
	})
	return p
}

// ready waits until the process says that it is.
func (p *program) ready() *program {
	p.t.Helper()
	until(p.t, "a process is ready", func() bool {
		select {
		case <-p.child.Ended():
			p.t.Fatalf("it has ended: %v\n%s", p.child.Err(), p.stderr)
		default:
		}
		status, _ := get(p.t, "http://"+p.private+"/readyz")
		return status == http.StatusOK
	})
	return p
}

func (p *program) signal(signal syscall.Signal) {
	p.t.Helper()
	p.killed = p.killed || signal == syscall.SIGKILL
	if err := syscall.Kill(p.child.PID(), signal); err != nil {
		p.t.Fatal(err)
	}
}

// stop ends the process as an init system does.
func (p *program) stop() {
	p.t.Helper()
	if err := p.child.Stop(20 * time.Second); err != nil {
		p.t.Error(err)
	}
	if err := p.child.Err(); err != nil && !p.killed {
		p.t.Errorf("process %d ended with %v\n%s", p.child.PID(), err, p.stderr)
	}
}

// output is what a process writes, to be read while it does.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// until waits until a condition holds.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
		<-pause.C
	}
}

// get gives the status and the body of an answer, 0 where there is none.
func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	text, err := io.ReadAll(response.Body)
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

func someAddress(t *testing.T) string {
	t.Helper()
	address, err := servers.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// lines reads all lines of a game that may be seen, newest first.
func lines(t *testing.T, reader *timeline.Reader, game feed.GameKey) []feed.View {
	t.Helper()
	var out []feed.View
	query := timeline.PageQuery{Limit: 500}
	for {
		page, err := reader.Page(t.Context(), game, query)
		if err != nil {
			t.Fatal(err)
		}
		out = slices.Concat(out, page.Lines)
		if !page.More {
			return out
		}
		query.Before = &page.Lines[len(page.Lines)-1].Evt
	}
}
