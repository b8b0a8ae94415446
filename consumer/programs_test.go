package consumer_test

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codemojex/feedrenderer/consumer"
	"github.com/codemojex/feedrenderer/internal/servers"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

// The examples of the package's documentation, as programs of a module outside of this repository.
func TestTheExamplesAreProgramsOfAnyModule(t *testing.T) {
	t.Parallel()
	programs := buildExamples(t)

	t.Run("ThePlainOneInTwentyLines", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.add("order", "seven")
		p := r.program(programs, "Example")
		eventually(t, func() bool { return r.readBy("billing") == 1 && r.pendingOf("billing") == 0 }, "the order is charged")
		p.interrupt()
		if p.said.String() != "charged seven\n" {
			t.Errorf("it said %q", p.said)
		}
	})

	t.Run("ABatchIntoPostgres", func(t *testing.T) {
		t.Parallel()
		url := serverstest.EmptyDatabase(t)
		ctx, cancel := bounded()
		defer cancel()
		db, err := pgx.Connect(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close(context.Background()) }()
		if _, err := db.Exec(ctx, "CREATE TABLE orders (entry text PRIMARY KEY, body text)"); err != nil {
			t.Fatal(err)
		}
		r := newRig(t)
		r.add("body", "one")
		r.add("nothing", "")
		r.add("body", "two")
		p := r.program(programs, "ExampleHandler_postgres", "DATABASE_URL="+url)
		eventually(t, func() bool { return r.readBy("archive") == 3 && r.pendingOf("archive") == 0 }, "all are archived")
		p.interrupt()
		rows, err := db.Query(ctx, "SELECT body FROM orders ORDER BY entry")
		if err != nil {
			t.Fatal(err)
		}
		bodies, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || !slices.Equal(bodies, []string{"one", "two"}) {
			t.Errorf("archived %v, %v", bodies, err)
		}
		if l := r.deadLetters(); len(l) != 1 || l[0].Reason != "it has no body" {
			t.Errorf("dead letters %+v", l)
		}
	})

	t.Run("DeadLetters", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.add("order", "seven")
		var s seen
		c := r.start(each(func(_ context.Context, m consumer.Message) consumer.Verdict {
			if s.note(m); s.len() == 1 {
				return consumer.Reject("no good")
			}
			return consumer.Ack()
		}))
		eventually(t, func() bool { return c.Stats().DeadLettered == 1 }, "there is a dead letter")
		p := r.program(programs, "ExampleDeadLetters")
		p.ends()
		if p.said.String() != "attempt 1 of [{order seven}]: no good\n" {
			t.Errorf("it said %q", p.said)
		}
		eventually(t, func() bool { return s.len() == 2 && len(r.deadLetters()) == 0 }, "it is handled")
	})

	t.Run("ManyStreams", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		streams := []string{r.stream + ":1", r.stream + ":2"}
		for _, stream := range streams {
			r.addTo(stream, "order", "seven")
		}
		p := r.program(programs, "ExampleConsumer_Join")
		eventually(t, func() bool { return p.said.lines() == 2 }, "both are read")
		r.addTo(r.stream+":3", "order", "eight")
		eventually(t, func() bool { return strings.Contains(p.said.String(), r.stream+":3 [{order eight}]\n") }, "the new one too")
		p.interrupt()
	})

	t.Run("AGracefulStop", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.addMany(2)
		p := r.program(programs, "ExampleConsumer_Stop")
		eventually(t, func() bool { return strings.Contains(p.said.String(), "reporting") }, "a report has begun")
		p.interrupt()
		if p.said.String() != "reporting [{n 0}]\nreporting [{n 1}]\nstopped with 2 reported, 0 handed back\n" {
			t.Errorf("it said %q", p.said)
		}
	})
}

// buildExamples makes a module of two programs: the plain example's body alone, and all examples, chosen by name. Where they
// say the server's address and the stream's name they take the test's. It returns the programs' folder.
func buildExamples(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	_, requires, _ := strings.Cut(read(filepath.Join(root, "go.mod")), "\n\n") // their versions are the only ones sure to be here
	plain, all := plainProgram(t), "package main\n"+strings.TrimPrefix(read("example_test.go"), "package consumer_test\n")
	_, body, _ := strings.Cut(plain, "func main() {\n")
	if n := strings.Count(body, "\n") - 1; n > 20 {
		t.Errorf("the plain example has %d lines", n)
	}
	all += "\nfunc main() { map[string]func(){"
	for _, name := range exampleNames(t) {
		all += fmt.Sprintf("%q: %s, ", name, name)
	}
	all += "}[os.Args[1]]() }\n"
	theTests := strings.NewReplacer(`"127.0.0.1:6379"`, `os.Getenv("ADDRESS")`, `"orders"`, `os.Getenv("STREAM")`,
		`"orders:*"`, `os.Getenv("STREAM")+":*"`)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module outside\n\n" + requires + "\nrequire github.com/codemojex/feedrenderer v0.0.0\n\n" +
			"replace github.com/codemojex/feedrenderer => " + root + "\n",
		"go.sum":        read(filepath.Join(root, "go.sum")),
		"plain/main.go": theTests.Replace(plain),
		"all/main.go":   theTests.Replace(all),
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-mod=mod", "-o", "bin"+string(filepath.Separator), "./plain", "./all")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off") // all that is needed is here: these tests were built of it
	build.WaitDelay = time.Second
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s\n%s", err, out, plain)
	}
	return filepath.Join(dir, "bin")
}

// parsed is the file of the examples.
func parsed(t *testing.T) (*token.FileSet, *ast.File) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "example_test.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return set, file
}

func exampleNames(t *testing.T) (names []string) {
	t.Helper()
	_, file := parsed(t)
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Example") {
			names = append(names, f.Name.Name)
		}
	}
	return names
}

// plainProgram makes a program of the package's Example.
func plainProgram(t *testing.T) string {
	t.Helper()
	set, file := parsed(t)
	var body bytes.Buffer
	used := map[string]bool{"os": true}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != "Example" {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok {
					used[x.Name] = true
				}
			}
			return true
		})
		if err := format.Node(&body, set, f.Body); err != nil {
			t.Fatal(err)
		}
	}
	var imports strings.Builder
	for _, i := range file.Imports {
		path := strings.Trim(i.Path.Value, `"`)
		if used[strings.TrimSuffix(filepath.Base(path), "-go")] {
			imports.WriteString("\t" + i.Path.Value + "\n")
		}
	}
	return "package main\n\nimport (\n" + imports.String() + ")\n\nfunc main() " + body.String() + "\n"
}

// program is an example that runs.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	child *servers.Child
	said  *logs
}

// program starts an example on the rig's server and stream.
func (r *rig) program(dir, example string, env ...string) *program {
	r.t.Helper()
	p := &program{t: r.t.(*testing.T), cmd: exec.Command(filepath.Join(dir, "all"), example), said: &logs{}}
	if example == "Example" {
		p.cmd = exec.Command(filepath.Join(dir, "plain"))
	}
	p.cmd.Env = append(append(os.Environ(), "ADDRESS="+r.opt.InitAddress[0], "STREAM="+r.stream), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.said, os.Stderr
	child, err := servers.StartChild(p.cmd)
	if err != nil {
		r.t.Fatal(err)
	}
	p.child = child
	r.t.Cleanup(func() {
		if err := child.Stop(time.Second); err != nil {
			r.t.Error(err)
		}
	})
	return p
}

// interrupt stops the program as its user would.
func (p *program) interrupt() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		p.t.Fatal(err)
	}
	p.ends()
}

// ends waits for the program's end. One that hangs shows its goroutines.
func (p *program) ends() {
	p.t.Helper()
	select {
	case <-p.child.Ended():
	case <-time.After(patience):
		p.t.Errorf("it does not end: %v", p.cmd.Process.Signal(syscall.SIGQUIT))
	}
	receive(p.t, p.child.Ended())
	if err := p.child.Err(); err != nil {
		p.t.Errorf("it ends with %v", err)
	}
}
