package web

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"path"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
	"go.yaml.in/yaml/v3"
)

// openapiYAML describes every route but the pages and the profiles. A test holds it against the handlers, both ways.
//
//go:embed openapi.yaml
var openapiYAML []byte

//go:embed docs.html
var docsHTML string

// documents are the description of the API, for programs and for people.
func documents() (map[string]asset, error) {
	var api apiDocument
	if err := yaml.Unmarshal(openapiYAML, &api); err != nil {
		return nil, fmt.Errorf("read openapi.yaml: %w", err)
	}
	page, err := template.New("docs").Parse(docsHTML)
	if err != nil {
		return nil, fmt.Errorf("parse docs.html: %w", err)
	}
	var html bytes.Buffer
	if err := page.Execute(&html, &api); err != nil {
		return nil, fmt.Errorf("render docs.html: %w", err)
	}
	return map[string]asset{
		"/openapi.yaml": newAsset(openapiYAML, "application/yaml"),
		"/docs":         newAsset(html.Bytes(), "text/html; charset=utf-8"),
	}, nil
}

// document serves one of them.
func (s *Server) document(c echo.Context) error { return serveAsset(c, s.documents[c.Path()]) }

// apiDocument is what the page shows of an OpenAPI document.
type apiDocument struct {
	Info struct {
		Title, Version, Summary, Description string
	}
	Tags []struct {
		Name, Description string
	}
	Paths      ordered[apiPath]
	Components struct {
		Parameters map[string]apiParameter
		Responses  map[string]apiResponse
		Schemas    ordered[apiSchema]
	}
}

type apiPath struct {
	Parameters            []apiParameter
	Get, Post, Put, Patch *apiOperation
	Delete                *apiOperation
}

type apiOperation struct {
	ID                   string `yaml:"operationId"`
	Tags                 []string
	Summary, Description string
	Parameters           []apiParameter
	Body                 *struct {
		Content ordered[apiContent]
	} `yaml:"requestBody"`
	Responses ordered[apiResponse]

	Method, Path string `yaml:"-"`
}

type apiParameter struct {
	Ref                   string `yaml:"$ref"`
	Name, In, Description string
	Required              bool
	Schema                apiSchema
}

type apiResponse struct {
	Ref         string `yaml:"$ref"`
	Description string
	Content     ordered[apiContent]
}

type apiContent struct{ Schema apiSchema }

type apiSchema struct {
	Ref         string `yaml:"$ref"`
	Type        string
	Description string
	Pattern     string
	Format      string
	Const       any
	Enum        []any
	Minimum     *int
	Maximum     *int
	MaxLength   *int `yaml:"maxLength"`
	Items       *apiSchema
	Properties  ordered[apiSchema]
	Required    []string
	OneOf       []apiSchema `yaml:"oneOf"`
}

// ordered is a map of the document, in its order.
type ordered[T any] []entry[T]

type entry[T any] struct {
	Name  string
	Value T
}

// UnmarshalYAML reads a mapping.
func (o *ordered[T]) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: want a mapping", node.Line)
	}
	for i := 0; i < len(node.Content); i += 2 {
		e := entry[T]{Name: node.Content[i].Value}
		if err := node.Content[i+1].Decode(&e.Value); err != nil {
			return err
		}
		*o = append(*o, e)
	}
	return nil
}

// Operations lists those of a tag, references resolved.
func (d *apiDocument) Operations(tag string) []apiOperation {
	var out []apiOperation
	for _, p := range d.Paths {
		for _, each := range p.Value.operations() {
			op := *each.Value
			if op.Tags[0] != tag {
				continue
			}
			op.Method, op.Path = each.Name, p.Name
			op.Parameters = slices.Concat(p.Value.Parameters, op.Parameters)
			for i, parameter := range op.Parameters {
				if parameter.Ref != "" {
					op.Parameters[i] = d.Components.Parameters[path.Base(parameter.Ref)]
				}
			}
			op.Responses = slices.Clone(op.Responses)
			for i, response := range op.Responses {
				if response.Value.Ref != "" {
					op.Responses[i].Value = d.Components.Responses[path.Base(response.Value.Ref)]
				}
			}
			out = append(out, op)
		}
	}
	return out
}

// operations lists what a path can do, by method.
func (p *apiPath) operations() []entry[*apiOperation] {
	all := []entry[*apiOperation]{{"GET", p.Get}, {"POST", p.Post}, {"PUT", p.Put}, {"PATCH", p.Patch}, {"DELETE", p.Delete}}
	return slices.DeleteFunc(all, func(e entry[*apiOperation]) bool { return e.Value == nil })
}

// Paragraphs of the introduction.
func (d *apiDocument) Paragraphs() []string { return strings.Split(d.Info.Description, "\n") }

// Needs reports whether a property has to be there.
func (s apiSchema) Needs(property string) bool { return slices.Contains(s.Required, property) }

// Name is that of the schema referred to, "" where it stands here itself.
func (s apiSchema) Name() string {
	if s.Ref == "" {
		return ""
	}
	return path.Base(s.Ref)
}

// Brief says in a few words what a value may be.
func (s apiSchema) Brief() string {
	out := s.Type
	switch {
	case s.Const != nil:
		out = fmt.Sprintf("%q", fmt.Sprint(s.Const))
	case len(s.Enum) > 0:
		texts := make([]string, len(s.Enum))
		for i, value := range s.Enum {
			texts[i] = fmt.Sprintf("%q", fmt.Sprint(value))
		}
		out = strings.Join(texts, ", ")
	case s.Type == "array" && s.Items != nil && s.Items.Ref == "":
		out = "list of " + s.Items.Brief()
	case s.Type == "array":
		out = "list of"
	case s.Format != "":
		out += ", " + s.Format
	}
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		out += fmt.Sprintf(", %d to %d", *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		out += fmt.Sprintf(", from %d", *s.Minimum)
	case s.MaxLength != nil:
		out += fmt.Sprintf(", at most %d bytes", *s.MaxLength)
	}
	return out
}
