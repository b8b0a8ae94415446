package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// playsFrames is a site that plays frames to each connection and hands on what it asks for.
func playsFrames(t *testing.T, asked chan<- string, frames ...string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		_, data, err := conn.Read(r.Context())
		if err != nil {
			return
		}
		asked <- r.URL.Path + " " + string(data)
		for _, frame := range frames {
			if conn.Write(r.Context(), websocket.MessageText, []byte(frame)) != nil {
				return
			}
		}
		_ = conn.Close(4999, "the end")
	}))
	t.Cleanup(server.Close)
	return server.URL
}

const (
	lineOne   = `{"evt":"EVT00000000001","ver":1,"kind":"notice","at":"2026-11-30T12:00:00.000Z","text":"one <b>\u001b[2J","fields":{},"icon":"bell","tone":"plain","state":"live"}`
	lineTwo   = `{"evt":"EVT00000000002","ver":2,"kind":"scored","at":"2026-11-30T12:00:01.000Z","text":"two","fields":{},"icon":"dart","tone":"good","state":"corrected"}`
	oneAgain  = `{"evt":"EVT00000000001","ver":3,"kind":"notice","at":"2026-11-30T12:00:00.000Z","text":"","fields":{},"icon":"bell","tone":"plain","state":"retracted","reason":"typo"}`
	gameFrame = `{"game":"g1","status":"open","released":true,"counts":{"lines":2,"players":1},"board":[],"cursor":"e:2"}`
)

var played = []string{
	`{"t":"snap","g":"g1","epoch":"e","to":2,"game":` + gameFrame + `,"lines":[` + lineTwo + `,` + lineOne + `],"older":false}`,
	`{"t":"lines","g":"g1","epoch":"e","from":1,"to":2,"lines":[` + lineTwo + `]}`,
	`{"t":"lines","g":"g1","epoch":"e","from":2,"to":3,"lines":[` + oneAgain + `]}`,
}

func TestWatch(t *testing.T) {
	t.Parallel()
	follow := func(t *testing.T, args ...string) (string, error) {
		t.Helper()
		var out, logs bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err := run(ctx, append([]string{"watch", "acme/g1"}, args...), nil, &out, &logs)
		return out.String(), err
	}

	t.Run("LinesAreShownInOrderEachOnceAndNoneCommandsTheTerminal", func(t *testing.T) {
		t.Parallel()
		asked := make(chan string, 1)
		out, err := follow(t, "--url", playsFrames(t, asked, played...))
		if err == nil || !strings.Contains(err.Error(), "4999") {
			t.Errorf("ended with %v", err)
		}
		const want = "2026-11-30T12:00:00.000Z  EVT00000000001  notice      one <b>\uFFFD[2J\n" +
			"2026-11-30T12:00:01.000Z  EVT00000000002  scored      two  (corrected)\n" +
			"2026-11-30T12:00:00.000Z  EVT00000000001  notice      (retracted) typo\n"
		if out != want {
			t.Errorf("got\n%swant\n%s", out, want)
		}
		if got := <-asked; got != `/v1/tenants/acme/live {"t":"sub","g":"g1","limit":20}` {
			t.Errorf("asked %s", got)
		}
	})

	t.Run("ProgramsGetObjectsAndTheCursorToResumeFrom", func(t *testing.T) {
		t.Parallel()
		asked := make(chan string, 1)
		out, _ := follow(t, "--json", "--url", playsFrames(t, asked, played...))
		want := `{"line":` + lineOne + "}\n" + `{"line":` + lineTwo + "}\n" + `{"game":` + gameFrame + "}\n" + `{"cursor":"e:2"}` + "\n" + `{"line":` + oneAgain + "}\n" + `{"cursor":"e:3"}` + "\n"
		if out != want {
			t.Errorf("got\n%swant\n%s", out, want)
		}
	})

	t.Run("ItResumesFromACursor", func(t *testing.T) {
		t.Parallel()
		asked := make(chan string, 1)
		delta := strings.Replace(played[2], "lines", "delta", 1)
		out, _ := follow(t, "--json", "--since", "e:2", "--limit=5", "--url", playsFrames(t, asked, delta))
		if want := `{"line":` + oneAgain + "}\n" + `{"cursor":"e:3"}` + "\n"; out != want {
			t.Errorf("got\n%swant\n%s", out, want)
		}
		if got := <-asked; got != `/v1/tenants/acme/live {"t":"sub","g":"g1","since":"e:2","limit":5}` {
			t.Errorf("asked %s", got)
		}
	})

	t.Run("EveryFaultIsNamedAtOnce", func(t *testing.T) {
		t.Parallel()
		_, err := follow(t, "--url", "feeds.example", "--since", "x", "--limit", "0")
		for _, want := range []string{"--url", "--since", "--limit"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s is not named: %v", want, err)
			}
		}
	})
}
