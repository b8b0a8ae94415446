package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/codemojex/feedrenderer/feed"
)

// observer writes down every byte that it is sent of one game, over a socket, an event stream or long polls.
type observer struct {
	way string

	mu   sync.Mutex // guards what follows
	raw  []string   // frames as they came
	at   int64      // version of the game that it has come to
	game string     // the header as it was sent last, masked
}

// theFrame is what every way carries.
type theFrame struct {
	T     string            `json:"t"`
	Epoch string            `json:"epoch"`
	To    int64             `json:"to"`
	Lines []json.RawMessage `json:"lines"`
	Game  json.RawMessage   `json:"game"`
}

// took is called with each frame, from one goroutine.
func (o *observer) took(t *testing.T, data string) {
	var f theFrame
	if err := json.Unmarshal([]byte(data), &f); err != nil {
		t.Errorf("%s: %v: %s", o.way, err, data)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.raw = append(o.raw, data)
	o.at = max(o.at, f.To)
	if f.Game != nil {
		o.game = masked(string(f.Game))
	}
}

var masks = []*regexp.Regexp{
	regexp.MustCompile(`("(?:epoch|cursor|now)":")[^"]*`),
	regexp.MustCompile(`("(?:from|to|ver|watchers)":)\d+`), // how many watch is counted by the clock
	regexp.MustCompile(`(Etag:\[)[^\]]*`),                  // it has the version in it
	regexp.MustCompile(`(data-(?:cursor|epoch|ver)=")[^"]*`),
}

// masked leaves epochs, versions and the time out of a text.
func masked(text string) string {
	for _, mask := range masks {
		text = mask.ReplaceAllString(text, "$1*")
	}
	return text
}

// told is what an observer was sent, by kind of frame and with lines one by one: how frames are cut, how the kinds mix
// and how often the same is repeated are matters of time.
func (o *observer) told(t *testing.T) []string {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	kinds := map[string][]string{}
	add := func(kind, text string) {
		said := kinds[kind]
		if text = masked(text); kind == "line" || len(said) == 0 || said[len(said)-1] != text {
			kinds[kind] = append(said, text)
		}
	}
	for _, data := range o.raw {
		var f theFrame
		if err := json.Unmarshal([]byte(data), &f); err != nil {
			t.Fatal(err)
		}
		for _, line := range f.Lines {
			add("line", string(line))
		}
		if f.Game != nil {
			add("game", string(f.Game))
		}
		switch f.T {
		case "snap", "lines", "delta", "game":
		case "tick": // one more or less of them is a matter of time
			if masked(data) != aTick {
				t.Errorf("a tick tells of more than time: %s", data)
			}
		default:
			add("other", data)
		}
	}
	return slices.Concat([]string{o.way}, kinds["line"], kinds["game"], kinds["other"])
}

const aTick = `{"t":"tick","now":"*","games":[{"g":"g1","to":*,"watchers":*}]}`

// times is how often a text came.
func (o *observer) times(text string) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, data := range o.raw {
		n += strings.Count(data, text)
	}
	return n
}

// observe lets so many observers watch a game until the test ends, each by one of three ways in turn.
func observe(t *testing.T, web *program, game feed.GameKey, n int) []*observer {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	transport := &http.Transport{}
	client := &http.Client{Transport: transport}
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		running.Wait()
		transport.CloseIdleConnections()
	})
	observers := make([]*observer, n)
	for i := range observers {
		watch := []func(*testing.T, context.Context, *http.Client, *program, feed.GameKey, *observer) error{overSocket, overStream, byPolling}[i%3]
		o := &observer{way: []string{"socket", "stream", "poll"}[i%3]}
		observers[i] = o
		running.Go(func() {
			if err := watch(t, ctx, client, web, game, o); ctx.Err() == nil {
				t.Errorf("%s ended: %v", o.way, err)
			}
		})
	}
	return observers
}

func overSocket(t *testing.T, ctx context.Context, _ *http.Client, web *program, game feed.GameKey, o *observer) error {
	conn, _, err := websocket.Dial(ctx, "ws://"+web.public+"/v1/tenants/"+string(game.Tenant)+"/live", nil) //nolint:bodyclose // the library closes it
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(-1)
	if err := conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"t":"sub","g":%q}`, game.Game)); err != nil {
		return err
	}
	for {
		_, data, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		o.took(t, string(data))
	}
}

func overStream(t *testing.T, ctx context.Context, client *http.Client, web *program, game feed.GameKey, o *observer) error {
	answer, err := fetch(ctx, client, gameURL(web, game)+"/stream")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	for said := bufio.NewReader(answer.Body); ; {
		line, err := said.ReadString('\n')
		if err != nil {
			return err
		}
		if data, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "data: "); ok {
			o.took(t, data)
		}
	}
}

func byPolling(t *testing.T, ctx context.Context, client *http.Client, web *program, game feed.GameKey, o *observer) error {
	_, body := get(t, gameURL(web, game))
	var header feed.Game
	if err := json.Unmarshal([]byte(body), &header); err != nil {
		return err
	}
	since := feed.Cursor{Epoch: header.Cursor.Epoch}.String()
	for {
		answer, err := fetch(ctx, client, gameURL(web, game)+"/changes?wait=25s&since="+since)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			return err
		}
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%d: %s", answer.StatusCode, body)
		}
		var f theFrame
		if err := json.Unmarshal(body, &f); err != nil {
			return err
		}
		o.took(t, string(body))
		since = feed.Cursor{Epoch: f.Epoch, Ver: f.To}.String()
	}
}

func fetch(ctx context.Context, client *http.Client, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return client.Do(request)
}
