package consumer_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/codemojex/feedrenderer/consumer"
)

// What a proxy does to a command.
type breakage int

const (
	notExecuted breakage = iota // the connection ends before the server sees the command
	replyLost                   // the server has carried it out, the connection ends instead of the reply
	replyCut                    // the connection ends in the middle of the reply
)

func (b breakage) String() string {
	return [...]string{"NotExecuted", "ExecutedButTheReplyLost", "CutInTheMiddleOfTheReply"}[b]
}

// proxy stands between a consumer and the server, takes commands one by one, and breaks the connection at some.
type proxy struct {
	t      testing.TB
	server string
	url    string
	broken atomic.Int64 // how often it broke one

	mu      sync.Mutex
	match   func(cmd []string) bool // the commands to break; nil: none
	how     breakage
	times   int // how many more
	conns   map[net.Conn]bool
	stopped bool
}

func newProxy(t testing.TB, server string) *proxy {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, server: u.Host, url: "redis://" + l.Addr().String(), conns: map[net.Conn]bool{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		p.stopped = true
		for c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		serving.Wait()
	})
	return p
}

// breakNext breaks the next so many commands that match.
func (p *proxy) breakNext(times int, how breakage, match func(cmd []string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.match, p.how, p.times = match, how, times
}

func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = true
	return !p.stopped
}

// fate says whether, and how, to break a command.
func (p *proxy) fate(cmd []string) (breakage, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.times == 0 || !p.match(cmd) {
		return 0, false
	}
	p.times--
	p.broken.Add(1)
	return p.how, true
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	if !p.keep(client) || !p.keep(server) {
		return
	}
	commands, replies := bufio.NewReader(client), bufio.NewReader(server)
	for {
		raw, cmd, err := readCommand(commands)
		if err != nil {
			return
		}
		how, broken := p.fate(cmd)
		if broken && how == notExecuted {
			return
		}
		if _, err := server.Write(raw); err != nil {
			return
		}
		reply, err := readReply(replies)
		if err != nil || broken && how == replyLost {
			return
		}
		if broken {
			reply = reply[:len(reply)/2]
		}
		if _, err := client.Write(reply); err != nil || broken {
			return
		}
	}
}

// readCommand reads an array of bulk strings, as it came and taken apart.
func readCommand(r *bufio.Reader) (raw []byte, cmd []string, err error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, nil, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(line[1:])))
	if err != nil || line[0] != '*' {
		return nil, nil, fmt.Errorf("command begins with %q", line)
	}
	raw = line
	for range n {
		part, err := readReply(r)
		if err != nil {
			return nil, nil, err
		}
		_, text, _ := strings.Cut(string(part), "\r\n")
		cmd = append(cmd, strings.TrimSuffix(text, "\r\n"))
		raw = append(raw, part...)
	}
	return raw, cmd, nil
}

// readReply reads one reply of RESP2 or RESP3, as it came.
func readReply(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(line[1:])))
	switch line[0] {
	case '$', '=', '!':
		if err != nil || n < 0 {
			return line, err
		}
		body := make([]byte, n+2)
		_, err := io.ReadFull(r, body)
		return append(line, body...), err
	case '*', '~', '>', '%':
		if err != nil {
			return nil, err
		}
		if line[0] == '%' {
			n *= 2
		}
		for range max(0, n) {
			part, err := readReply(r)
			if err != nil {
				return nil, err
			}
			line = append(line, part...)
		}
		return line, nil
	case '+', '-', ':', '_', ',', '#', '(':
		return line, nil
	}
	return nil, errors.New("unknown reply " + string(line))
}

// beats counts the reclaim passes that consumers of one stream begin.
type beats struct {
	*proxy
	n atomic.Int64
}

func newBeats(r *rig) *beats {
	r.t.Helper()
	b := &beats{proxy: newProxy(r.t, r.url)}
	b.breakNext(-1, notExecuted, func(cmd []string) bool {
		if strings.EqualFold(cmd[0], "XAUTOCLAIM") && cmd[5] == "0-0" {
			b.n.Add(1)
		}
		return false
	})
	return b
}

// counted has a consumer go through the proxy.
func (b *beats) counted(cfg *consumer.Config) { cfg.Options = options(b.t, b.url) }
