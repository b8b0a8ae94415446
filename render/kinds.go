package render

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/codemojex/feedrenderer/feed"
)

// Kinds says how each kind of event is rendered. It does not change once loaded, and any number of goroutines may use it.
type Kinds struct{ byName map[string]*kind }

// kind is one entry of a kinds file.
type kind struct {
	version int        // from 1: 0 is the version of kinds that nobody described
	does    effect     // to lines
	base    feed.Base  // of the lines it opens, but for their Fields
	sets    []register // of the game's header
}

// effect is what events of a kind do to lines: the values of the key line.
type effect string

const (
	opens    effect = "opens"
	corrects effect = "corrects"
	retracts effect = "retracts"
	reveals  effect = "reveals" // opens, and releases the game
	none     effect = "none"    // acknowledged and counted
)

// register is a pattern that writes a register of the header, and the fields it names.
type register struct {
	name    feed.Register
	pattern string
	fields  []string
}

//go:embed kinds/*.toml
var embedded embed.FS

// LoadKinds reads the embedded kinds and then, if dir is not "", those of the *.toml files in dir, which add kinds or replace
// embedded ones. The error names every fault of every file on a line of its own, "file:line: what is wrong"; a kind that stands
// twice in dir is one.
func LoadKinds(dir string) (*Kinds, error) {
	kinds := &Kinds{byName: make(map[string]*kind)}
	faults := kinds.add(embedded, "", "kinds")
	if dir != "" {
		faults = append(faults, kinds.add(os.DirFS(dir), filepath.Clean(dir)+"/", ".")...)
	}
	if len(faults) == 0 {
		return kinds, nil
	}
	slices.SortStableFunc(faults, func(a, b fault) int {
		return cmp.Or(strings.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
	})
	errs := make([]error, len(faults))
	for i, f := range faults {
		errs[i] = f
	}
	return nil, errors.Join(errs...)
}

// add takes over the kinds of every *.toml file of a folder; shown stands before the names of its files in faults.
func (k *Kinds) add(files fs.FS, shown, folder string) (faults []fault) {
	entries, err := fs.ReadDir(files, folder)
	if err != nil {
		return []fault{{file: strings.TrimSuffix(shown, "/"), problem: errors.Unwrap(err).Error()}}
	}
	where := make(map[string]fault) // the first entry of each kind
	for _, entry := range entries {
		name := strings.TrimPrefix(folder+"/"+entry.Name(), "./")
		if entry.IsDir() || !strings.HasSuffix(name, ".toml") {
			continue
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			faults = append(faults, fault{file: shown + name, problem: errors.Unwrap(err).Error()})
			continue
		}
		file := kindsFile{name: shown + name}
		for name, kind := range file.parse(text) {
			here := fault{file: file.name, line: file.lines[keyOf(kindTable, name)]}
			if first, ok := where[name]; ok {
				here.problem = fmt.Sprintf("kind %s stands in %s:%d already", name, first.file, first.line)
				faults = append(faults, here)
				continue
			}
			where[name], k.byName[name] = here, kind
		}
		faults = append(faults, file.faults...)
	}
	return faults
}

// fault is one thing wrong with a kinds file.
type fault struct {
	file    string
	line    int // from 1; 0: of no line in particular
	problem string
}

func (f fault) Error() string {
	if f.line == 0 {
		return f.file + ": " + f.problem
	}
	return fmt.Sprintf("%s:%d: %s", f.file, f.line, f.problem)
}
