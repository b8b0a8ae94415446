package consumer_test

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/internal/servers"
)

// The program of the package's own documentation, in a module outside of this repository.
func TestTheExampleIsAProgramOfAnyModule(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := t.TempDir()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	program := exampleProgram(t)
	if n := strings.Count(program, "\n"); n > 50 {
		t.Errorf("the example has %d lines", n)
	}
	program = strings.ReplaceAll(program, "127.0.0.1:6379", strings.TrimPrefix(r.url, "redis://"))
	program = strings.ReplaceAll(program, `"orders"`, `"`+r.stream+`"`)
	ours, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, requires, _ := strings.Cut(string(ours), "\n\n") // their versions are the only ones sure to be here
	mod := "module outside\n\n" + requires + "\nrequire github.com/codemojex/feedrenderer v0.0.0\n\nreplace github.com/codemojex/feedrenderer => " + root + "\n"
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"go.mod": mod, "go.sum": string(sums), "main.go": program} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-mod=mod", "-o", "outside", ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s\n%s", err, out, program)
	}

	r.add("order", "seven")
	var out bytes.Buffer
	cmd := exec.Command(filepath.Join(dir, "outside"))
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	child, err := servers.StartChild(cmd)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		n, err := r.do("XINFO", "GROUPS", r.stream).ToArray()
		return err == nil && len(n) == 1 && r.pendingOf("billing") == 0 && r.readBy("billing") == 1
	}, "the order is charged")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	receive(t, child.Ended())
	if err := child.Err(); err != nil {
		t.Errorf("it ends with %v", err)
	}
	if err := child.Stop(time.Second); err != nil {
		t.Error(err)
	}
	if out.String() != "charged seven\n" {
		t.Errorf("it said %q", out.String())
	}
}

// exampleProgram makes a program of the package's Example.
func exampleProgram(t *testing.T) string {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "example_test.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var body bytes.Buffer
	used := map[string]bool{}
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

// pendingOf and readBy look at another group of the stream.
func (r *rig) pendingOf(group string) int64 {
	r.t.Helper()
	parts, err := r.do("XPENDING", r.stream, group).ToArray()
	if err != nil {
		return -1
	}
	n, err := parts[0].AsInt64()
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

func (r *rig) readBy(group string) int64 {
	r.t.Helper()
	list, err := r.do("XINFO", "GROUPS", r.stream).ToArray()
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range list {
		g, err := list[i].AsMap()
		if err != nil {
			r.t.Fatal(err)
		}
		name, read := g["name"], g["entries-read"]
		if text, _ := name.ToString(); text == group {
			n, _ := read.AsInt64()
			return n
		}
	}
	return -1
}
