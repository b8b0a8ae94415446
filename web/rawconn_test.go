package web

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// countedConn keeps what each write to it said.
type countedConn struct {
	net.Conn
	writes [][]byte
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.writes = append(c.writes, bytes.Clone(p))
	return len(p), nil
}

func (c *countedConn) SetWriteDeadline(time.Time) error { return nil }

func TestRawConn(t *testing.T) {
	t.Parallel()
	t.Run("WhatIsHeldGoesOutByOneWrite", func(t *testing.T) {
		t.Parallel()
		under := &countedConn{}
		raw := &rawConn{Conn: under}
		write(t, raw, "a")
		raw.hold()
		write(t, raw, "b")
		write(t, raw, "c")
		if err := raw.release(); err != nil {
			t.Fatal(err)
		}
		write(t, raw, "d")
		if got := fmt.Sprintf("%s", under.writes); got != "[a bc d]" {
			t.Errorf("written %s", got)
		}
	})
	t.Run("ALargeWriteIsNotCopiedAndKeepsItsPlace", func(t *testing.T) {
		t.Parallel()
		under := &countedConn{}
		raw := &rawConn{Conn: under}
		large := strings.Repeat("x", rawDirect)
		raw.hold()
		write(t, raw, "a")
		write(t, raw, large)
		write(t, raw, "b")
		if err := raw.release(); err != nil {
			t.Fatal(err)
		}
		if got := string(bytes.Join(under.writes, nil)); got != "a"+large+"b" {
			t.Errorf("written %d bytes in %d writes", len(got), len(under.writes))
		}
	})
}

func write(t *testing.T, raw *rawConn, text string) {
	t.Helper()
	if n, err := raw.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatalf("wrote %d of %d bytes: %v", n, len(text), err)
	}
}

func TestAFrameThatComesWithTheUpgradeIsAnswered(t *testing.T) {
	t.Parallel()
	s := serve(t, newModel(acme), nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.http.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	const ping = `{"t":"ping"}`
	_, err = fmt.Fprintf(conn, "GET /v1/tenants/acme/live HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n%s%s", []byte{0x81, 0x80 | byte(len(ping)), 0, 0, 0, 0}, ping)
	if err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(conn)
	response, err := http.ReadResponse(answers, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("answer %v, %v", response, err)
	}
	var got []byte
	for !bytes.Contains(got, pongFrame.bytes) {
		one, err := answers.ReadByte()
		if err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		got = append(got, one)
	}
}
