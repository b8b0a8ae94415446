package render

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// table is a table of a kinds file: its values as the TOML library gives them, and the path to it, by which lines are found.
type table struct {
	file   *kindsFile
	path   []string
	values map[string]any // nil where there is no such table
}

func (t table) has(key string) bool {
	_, ok := t.values[key]
	return ok
}

func (t table) keys() []string { return slices.Sorted(maps.Keys(t.values)) }

// fault notes what is wrong with a key.
func (t table) fault(key, format string, args ...any) {
	at := keyOf(append(slices.Clone(t.path), key)...)
	line, ok := t.file.lines[at]
	if !ok { // an element that has no position of its own
		line = t.file.lines[at[:strings.LastIndex(at, elementMark)]]
	}
	problem := fmt.Sprintf(format, args...)
	if len(t.path) > 1 {
		problem = "kind " + t.path[1] + ": " + problem
	}
	t.file.faults = append(t.file.faults, fault{t.file.name, line, problem})
}

// allow refuses every key that is in none of the lists.
func (t table) allow(because string, lists ...[]string) {
	allowed := slices.Concat(lists...)
	for _, key := range t.keys() {
		switch {
		case slices.Contains(allowed, key):
		case because != "" && slices.Contains(keysOfOpener, key):
			t.fault(key, "%s%s", key, because)
		default:
			t.fault(key, "unknown key %q, want %s", key, either(allowed))
		}
	}
}

// valueOf reads a value of a TOML type: string, int64, []any, map[string]any. Of another type it is a fault.
func valueOf[T any](t table, key, want string) (value T, ok bool) {
	if !t.has(key) {
		return value, false
	}
	if value, ok = t.values[key].(T); !ok {
		t.fault(key, "%s is %s, want %s", key, describe(t.values[key]), want)
	}
	return value, ok
}

func (t table) table(key string) table {
	values, _ := valueOf[map[string]any](t, key, "a table")
	return table{t.file, append(slices.Clone(t.path), key), values}
}

func (t table) text(key, otherwise string) string {
	value, ok := valueOf[string](t, key, "text")
	if !ok {
		return otherwise
	}
	if problem := textFault(value); problem != "" {
		t.fault(key, "%s %s", key, problem)
	}
	return value
}

func oneOf[T ~string](t table, key string, otherwise T, allowed []T) T {
	value := T(t.text(key, string(otherwise)))
	if value != otherwise && !slices.Contains(allowed, value) {
		t.fault(key, "%s is %q, want %s", key, value, either(allowed))
	}
	return value
}

// list reads a list of texts, none of them empty or twice.
func (t table) list(key string) (texts []string) {
	values, _ := valueOf[[]any](t, key, "a list of texts")
	for i, value := range values {
		at := element(key, i)
		text, ok := value.(string)
		switch {
		case !ok:
			t.fault(at, "%s holds %s, want texts", key, describe(value))
		case text == "":
			t.fault(at, "%s holds an empty text", key)
		case slices.Contains(texts, text):
			t.fault(at, "%s holds %q twice", key, text)
		case textFault(text) != "":
			t.fault(at, "%s holds %q, which %s", key, text, textFault(text))
		default:
			texts = append(texts, text)
		}
	}
	return texts
}

func describe(value any) string {
	switch value.(type) {
	case string:
		return "text"
	case int64:
		return "a whole number"
	case float64:
		return "a number"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	}
	return "a date or time"
}

func either[T ~string](allowed []T) string {
	names := make([]string, len(allowed))
	for i, a := range allowed {
		names[i] = string(a)
	}
	return strings.Join(names, ", ")
}

// keyOf joins a path to one map key.
func keyOf(path ...string) string { return strings.Join(path, "\x00") }

const elementMark = "\x00"

// element names an element of a list below its key.
func element(key string, i int) string { return key + elementMark + strconv.Itoa(i) }

// linesOf finds the line, from 1, of every key and list element of a sound document. The library's decoder tells the positions
// of its own errors only, its syntax tree those of everything.
func linesOf(text []byte) map[string]int {
	var parser unstable.Parser
	parser.Reset(text)
	lines := linesFinder{parser: &parser, found: make(map[string]int)}
	var within []string
	for parser.NextExpression() {
		switch node := parser.Expression(); node.Kind {
		case unstable.Table, unstable.ArrayTable:
			within = lines.note(nil, node.Key())
		case unstable.KeyValue:
			lines.value(lines.note(within, node.Key()), node.Value())
		}
	}
	return lines.found
}

type linesFinder struct {
	parser *unstable.Parser
	found  map[string]int
}

// note puts down where a key stands, and each table on the way to it that is met for the first time; it returns the whole path.
func (l linesFinder) note(within []string, key unstable.Iterator) []string {
	path := slices.Clone(within)
	for key.Next() {
		path = append(path, string(key.Node().Data))
		l.at(keyOf(path...), key.Node())
	}
	return path
}

func (l linesFinder) at(key string, node *unstable.Node) {
	if _, ok := l.found[key]; !ok {
		l.found[key] = l.parser.Shape(node.Raw).Start.Line
	}
}

func (l linesFinder) value(path []string, value *unstable.Node) {
	children := value.Children()
	for i := 0; children.Next(); i++ {
		switch node := children.Node(); value.Kind {
		case unstable.InlineTable:
			l.value(l.note(path, node.Key()), node.Value())
		case unstable.Array:
			if node.Raw.Length > 0 { // a nested list has no range of its own
				l.at(element(keyOf(path...), i), node)
			}
		}
	}
}
