package watch

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/coder/websocket"

	"github.com/codemojex/feedrenderer/feed"
)

// Conn is one connection, for programs that keep their own account. [Client] is the whole way.
type Conn struct {
	conn *websocket.Conn
}

// maxFrame bounds a frame of the server, in bytes: a delta may hold a few thousand lines.
const maxFrame = 64 << 20

// Dial connects to the live endpoint of a tenant, ws://host/v1/tenants/{tenant}/live.
func Dial(ctx context.Context, url string) (*Conn, error) {
	conn, _, err := websocket.Dial(ctx, url, nil) //nolint:bodyclose // the library closes it
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", url, err)
	}
	conn.SetReadLimit(maxFrame)
	return &Conn{conn}, nil
}

// Subscribe asks for a game: from a cursor, or by a snapshot of limit lines where since is zero. 0 lines: the server's
// default.
func (c *Conn) Subscribe(ctx context.Context, game feed.GameID, since feed.Cursor, limit int) error {
	out := request{T: "sub", Game: game, Limit: limit}
	if since != (feed.Cursor{}) {
		out.Since = since.String()
	}
	return c.send(ctx, out)
}

// Unsubscribe lets go of a game.
func (c *Conn) Unsubscribe(ctx context.Context, game feed.GameID) error {
	return c.send(ctx, request{T: "unsub", Game: game})
}

// Authenticate presents a watch token.
func (c *Conn) Authenticate(ctx context.Context, token string) error {
	return c.send(ctx, request{T: "auth", Token: token})
}

// Ping asks for a pong frame.
func (c *Conn) Ping(ctx context.Context) error { return c.send(ctx, request{T: "ping"}) }

func (c *Conn) send(ctx context.Context, out request) error {
	data, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("encode %s: %w", out.T, err)
	}
	return c.Send(ctx, data)
}

// Send sends a frame as it is, of whatever kind.
func (c *Conn) Send(ctx context.Context, data []byte) error {
	if err := c.conn.Write(ctx, websocket.MessageText, data); err != nil {
		return fmt.Errorf("send frame: %w", err)
	}
	return nil
}

// Read waits for the next frame. Frames that cannot be read are passed over. A context that ends closes the connection.
func (c *Conn) Read(ctx context.Context) (Frame, error) {
	for {
		_, data, err := c.conn.Read(ctx)
		if err != nil {
			return Frame{}, fmt.Errorf("read frame: %w", err)
		}
		if f, err := ParseFrame(data); err == nil {
			return f, nil
		}
	}
}

// CloseCode is the code that the server closed with, -1 where an error is none of a close.
func CloseCode(err error) int { return int(websocket.CloseStatus(err)) }

// Close says goodbye and closes.
func (c *Conn) Close() error { return c.conn.Close(websocket.StatusNormalClosure, "") }

// CloseNow closes without a word.
func (c *Conn) CloseNow() error { return c.conn.CloseNow() }
