package web

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

// description is openapi.yaml as a test asks it.
type description struct {
	t          *testing.T
	document   any
	schemas    *jsonschema.Compiler
	operations map[string]bool // "GET /path", and whether an answer of it was looked at
}

func newDescription(t *testing.T) *description {
	t.Helper()
	var document any
	if err := yaml.Unmarshal(openapiYAML, &document); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(document) // numbers as JSON has them
	if err != nil {
		t.Fatal(err)
	}
	d := &description{t: t, document: jsonOf(t, string(data)), schemas: jsonschema.NewCompiler(), operations: map[string]bool{}}
	d.schemas.DefaultDraft(jsonschema.Draft2020)
	if err := d.schemas.AddResource("openapi.yaml", d.document); err != nil {
		t.Fatal(err)
	}
	for path, item := range d.at("/paths").(map[string]any) {
		for method := range item.(map[string]any) {
			if method != "parameters" {
				d.operations[strings.ToUpper(method)+" "+path] = false
			}
		}
	}
	return d
}

func jsonOf(t *testing.T, data string) any {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(data))
	if err != nil {
		t.Fatalf("%v: %.200s", err, data)
	}
	return value
}

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// at finds a part of the document, nil where there is none.
func (d *description) at(place string) any {
	value := d.document
	for _, part := range strings.Split(place, "/")[1:] {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		object, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = object[part]
	}
	return value
}

// is holds a value against the schema at a place of the document.
func (d *description) is(what, place, data string) {
	d.t.Helper()
	schema, err := d.schemas.Compile("openapi.yaml#" + (&url.URL{Fragment: place}).EscapedFragment())
	if err != nil {
		d.t.Fatal(err)
	}
	if err := schema.Validate(jsonOf(d.t, data)); err != nil {
		d.t.Errorf("%s: %v\n%.300s", what, err, data)
	}
}

// answers holds an answer against the operation that it is of.
func (d *description) answers(operation string, answer *http.Response, body string) {
	d.t.Helper()
	method, path, _ := strings.Cut(operation, " ")
	d.operations[operation] = true
	place := "/paths/" + pointer.Replace(path) + "/" + strings.ToLower(method) + "/responses/" + strconv.Itoa(answer.StatusCode)
	response, ok := d.at(place).(map[string]any)
	if !ok {
		d.t.Errorf("%s answers %d, which is not described: %s", operation, answer.StatusCode, body)
		return
	}
	if ref, ok := response["$ref"].(string); ok {
		place = ref[1:]
	}
	kind, _, _ := strings.Cut(answer.Header.Get("Content-Type"), ";")
	content := place + "/content/" + pointer.Replace(kind)
	switch {
	case kind == "" && body == "" && d.at(place+"/content") == nil:
	case d.at(content) == nil:
		d.t.Errorf("%s answers %d with %s, which is not described", operation, answer.StatusCode, kind)
	case strings.HasSuffix(kind, "json"):
		d.is(operation, content+"/schema", body)
	}
}

// tagged reports whether an operation stands under a tag.
func (d *description) tagged(operation, tag string) bool {
	method, path, _ := strings.Cut(operation, " ")
	tags, _ := d.at("/paths/" + pointer.Replace(path) + "/" + strings.ToLower(method) + "/tags").([]any)
	return slices.Contains(tags, any(tag))
}

// takes reports parameters of a query that an operation does not describe.
func (d *description) takes(operation string, query url.Values) {
	d.t.Helper()
	method, path, _ := strings.Cut(operation, " ")
	known := map[string]bool{}
	parameters, _ := d.at("/paths/" + pointer.Replace(path) + "/" + strings.ToLower(method) + "/parameters").([]any)
	for _, each := range parameters {
		parameter := each.(map[string]any)
		if ref, ok := parameter["$ref"].(string); ok {
			parameter = d.at(ref[1:]).(map[string]any)
		}
		if parameter["in"] == "query" {
			known[parameter["name"].(string)] = true
		}
	}
	for name := range query {
		if !known[name] {
			d.t.Errorf("%s takes %s, which is not described", operation, name)
		}
	}
}

// TestOpenAPI holds the document against the handlers, both ways: what is served is described, what is described is
// served, and answers and frames are what their schemas say, without a field more.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	d := newDescription(t)
	m := newModel(acme)
	for i := range 3 {
		m.say(acme, evt(i), text(i))
	}
	m.say(acme, evt(1), "corrected")
	s := serve(t, m, func(c *Config) {
		c.SetMode = func(context.Context, feed.GameKey, feed.Mode) error { return nil }
		c.Group, c.DeadLetters = &groupModel{}, &groupModel{}
		c.Checks = map[string]func(context.Context) error{"store": func(context.Context) error { return nil }}
	})
	private := httptest.NewServer(s.Private())
	t.Cleanup(private.Close)

	t.Run("TheDocumentIsOne", func(t *testing.T) {
		meta, err := os.ReadFile("testdata/openapi-3.1-schema.json") // of the OpenAPI initiative, 2022-10-07
		if err != nil {
			t.Fatal(err)
		}
		schemas := jsonschema.NewCompiler()
		if err := schemas.AddResource("meta", jsonOf(t, string(meta))); err != nil {
			t.Fatal(err)
		}
		schema, err := schemas.Compile("meta")
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(d.document); err != nil {
			t.Error(err)
		}
		for name := range d.at("/components/schemas").(map[string]any) {
			if _, err := d.schemas.Compile("openapi.yaml#/components/schemas/" + name); err != nil {
				t.Error(err)
			}
		}
	})

	t.Run("EveryRouteIsDescribedAndNothingElse", func(t *testing.T) {
		variable := regexp.MustCompile(`:(\w+)`)
		served := map[string]bool{}
		for _, r := range slices.Concat(s.public(), s.private()) {
			page := r.path == "/" || strings.HasPrefix(r.path, "/:tenant") || strings.HasPrefix(r.path, "/static/")
			if !page && !strings.HasPrefix(r.path, "/debug/") {
				served[r.method+" "+variable.ReplaceAllString(r.path, "{$1}")] = true
			}
		}
		for operation := range served {
			if _, ok := d.operations[operation]; !ok {
				t.Errorf("%s is served and not described", operation)
			}
		}
		for operation := range d.operations {
			if !served[operation] {
				t.Errorf("%s is described and not served", operation)
			}
		}
	})

	t.Run("EveryAnswerIsWhatItSays", func(t *testing.T) {
		const game = "/v1/tenants/acme/games/g1"
		ask := func(base, method, path, body string, sound bool) {
			t.Helper()
			request, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			answer, err := http.DefaultTransport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			data := []byte("a stream")
			if answer.Header.Get("Content-Type") != "text/event-stream" {
				if data, err = io.ReadAll(answer.Body); err != nil {
					t.Fatal(err)
				}
			}
			operation := method + " " + pattern(request.URL.Path)
			if sound {
				d.takes(operation, request.URL.Query())
				if answer.StatusCode >= 400 && answer.StatusCode != http.StatusUpgradeRequired {
					t.Errorf("%s %s: %d %s", method, path, answer.StatusCode, data)
				}
			}
			d.answers(operation, answer, string(data))
		}
		for _, path := range []string{
			"/v1/tenants/acme/games", "/v1/tenants/acme/games?status=open&limit=1&after=a", "/v1/tenants/acme/live", game, game + "/board",
			game + "/timeline", game + "/timeline?limit=2&kind=notice&q=line&from=2024-01-01T00:00:00Z&to=2099-01-01T00:00:00.5%2B02:00", game + "/timeline?before=" + evt(2).String(),
			game + "/changes?since=e1:1", game + "/changes?since=e1:4&wait=10ms&limit=5", game + "/lines/" + evt(1).String(), game + "/stream",
			"/healthz", "/readyz", "/openapi.yaml", "/docs",
		} {
			ask(s.http.URL, http.MethodGet, path, "", true)
		}
		ask(private.URL, http.MethodPost, game+"/mode", `{"mode":"classic"}`, true)

		const streams = "/v1/tenants/acme/streams"
		for _, path := range []string{streams, streams + "?limit=1&after=a", streams + "/g1/dead-letters?limit=1&after=1-1&kind=a&reason=b&older_than=1h"} {
			ask(private.URL, http.MethodGet, path, "", true)
		}
		ask(private.URL, http.MethodGet, streams+"/g1/dead-letters/1-1", "", true)
		ask(private.URL, http.MethodPost, streams+"/g1/dead-letters/1-1/retry", "", true)
		ask(private.URL, http.MethodDelete, streams+"/g1/dead-letters/1-1", "", true)
		ask(private.URL, http.MethodPost, streams+"/g1/dead-letters/retry?all=true", "", true)
		ask(private.URL, http.MethodDelete, streams+"/g1/dead-letters?kind=a&reason=b&older_than=1h", "", true)
		ask(private.URL, http.MethodDelete, streams+"/g1/dead-letters", "", false)
		for _, path := range []string{streams + "?limit=x", "/v1/tenants/nobody/streams", streams + "/g1/dead-letters?after=none", streams + "/down/dead-letters"} {
			ask(private.URL, http.MethodGet, path, "", false)
		}
		ask(private.URL, http.MethodDelete, streams+"/g1/dead-letters/none", "", false)
		ask(private.URL, http.MethodPost, streams+"/down/dead-letters/1-1/retry", "", false)

		ask(private.URL, http.MethodPost, game+"/mode", `{"mode":"odd"}`, false)
		for _, path := range []string{
			"/v1/tenants/nobody/games", "/v1/tenants/acme/games?limit=501", "/v1/tenants/acme/games/none", game + "/timeline?before=x",
			game + "/changes", game + "/changes?since=e0:1", game + "/lines/" + evt(99).String(), game + "/stream?limit=0", "/v1/tenants/BAD/live",
		} {
			ask(s.http.URL, http.MethodGet, path, "", false)
		}
		for _, fail := range []error{context.DeadlineExceeded, timeline.ErrBusy} {
			m.set(func(m *model) { m.fail = fail })
			for _, path := range []string{"/v1/tenants/acme/games", game, game + "/board", game + "/timeline", game + "/changes?since=e1:1", game + "/lines/" + evt(1).String(), game + "/stream"} {
				ask(s.http.URL, http.MethodGet, path, "", false)
			}
		}
		m.set(func(m *model) { m.fail = nil })
		for operation, seen := range d.operations {
			if !seen && !d.tagged(operation, "access") && !d.tagged(operation, "producers") { // those are looked at by the test of access
				t.Errorf("no answer of %s was looked at", operation)
			}
		}
	})

	t.Run("EveryFrameIsWhatItSays", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		d.is("client", "/components/schemas/ClientFrame", `{"t":"auth","token":"x"}`) // which is nobody's here
		conn, _ := s.upgrade(t)
		kind := regexp.MustCompile(`^\{"t":"(\w+)"`)
		for _, step := range []struct{ send, comes string }{
			{`{"t":"ping"}`, "pong"},
			{`{"t":"sub","g":"g1"}`, "snap"},
			{`{"t":"sub","g":"g1","since":"e1:1","limit":5}`, "delta"},
			{`{"t":"sub","g":"g1","since":"rubbish"}`, "reset"},
			{`{"t":"sub","g":"none"}`, "err"},
			{`{"t":"operate"}`, "err"}, // which nobody may here
			{`{"t":"unsub","g":"none"}`, "tick"},
			{"a line", "lines"},
			{"a title", "game"},
			{"a drain", "bye"},
		} {
			switch step.send {
			case "a line":
				m.say(acme, evt(50), "live")
			case "a title":
				m.set(func(m *model) { m.games[acme].title = "finals" })
				m.say(acme, evt(51), "live")
			case "a drain":
				drained := make(chan error, 1)
				go func() { drained <- s.Drain(ctx) }()
				defer func() {
					_ = conn.CloseNow()
					if err := <-drained; err != nil {
						t.Error(err)
					}
				}()
			default:
				d.is("client", "/components/schemas/ClientFrame", step.send)
				if err := conn.Write(ctx, websocket.MessageText, []byte(step.send)); err != nil {
					t.Fatal(err)
				}
			}
			for came := ""; came != step.comes; {
				_, data, err := conn.Read(ctx)
				if err != nil {
					t.Fatalf("%v, and %s never came", err, step.comes)
				}
				d.is("server", "/components/schemas/ServerFrame", string(data))
				came = kind.FindStringSubmatch(string(data))[1]
			}
		}
	})
}

// pattern makes the path of an operation of one that was asked for.
func pattern(path string) string {
	parts := strings.Split(path, "/")
	names := map[int]string{3: "{tenant}", 5: "{game}", 7: "{evt}"}
	if len(parts) > 4 && parts[4] == "streams" && (len(parts) < 8 || parts[7] != "retry") {
		names[7] = "{id}"
	} else if len(parts) > 4 && parts[4] == "streams" {
		delete(names, 7)
	}
	for i, name := range names {
		if parts[1] == "v1" && i < len(parts) {
			parts[i] = name
		}
	}
	return strings.Join(parts, "/")
}

func TestDocs(t *testing.T) {
	t.Parallel()
	s := serve(t, newModel(acme), nil)
	answer, body := s.get(t, "/docs")
	equal(t, answer.Header.Get("Content-Type"), "text/html; charset=utf-8")
	for _, want := range []string{"GET /v1/tenants/{tenant}/games/{game}/timeline", `id="schema-Line"`, `href="#schema-Cursor"`, "openapi.yaml", "retracted"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page says nothing of %s", want)
		}
	}
	for _, target := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(body, -1) {
		if !strings.Contains(body, `id="`+target[1]+`"`) {
			t.Errorf("a link leads to #%s, which is not there", target[1])
		}
	}
	again, _ := s.get(t, "/docs", "If-None-Match", answer.Header.Get("ETag"))
	equal(t, again.StatusCode, http.StatusNotModified)
	answer, body = s.get(t, "/openapi.yaml")
	equal(t, answer.Header.Get("Content-Type"), "application/yaml")
	if !strings.HasPrefix(body, "openapi: 3.1.0\n") {
		t.Errorf("got %.40s", body)
	}
}
