package consumer_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/consumer"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

// A server that takes connections and never answers holds no stop up. No reply and no connection is given up on by itself
// within these tests.
func TestASilentServer(t *testing.T) {
	t.Parallel()
	patient := func(opt valkey.ClientOption) valkey.ClientOption {
		opt.Dialer.Timeout, opt.ConnWriteTimeout = time.Hour, time.Hour
		return opt
	}

	for name, stop := range map[string]func(c *consumer.Consumer, cancel func()) error{
		"AStop": func(c *consumer.Consumer, _ func()) error {
			ctx, done := bounded()
			defer done()
			return c.Stop(ctx)
		},
		"TheEndOfRunsContext": func(_ *consumer.Consumer, cancel func()) error {
			cancel()
			return nil
		},
	} {
		t.Run(name+"WhileItIsDialledEndsRunAtOnce", func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			accepted := make(chan net.Conn, 100)
			go func() {
				defer close(accepted)
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					accepted <- conn
				}
			}()
			c, err := consumer.New(consumer.Config{
				Options: patient(valkey.ClientOption{InitAddress: []string{listener.Addr().String()}}),
				Group:   "g", Name: "a", Start: consumer.StartHead, StopTimeout: time.Hour,
				Handler: func(_ context.Context, batch []consumer.Message) []consumer.Verdict {
					return all(batch, consumer.Ack())
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- c.Run(ctx) }()
			conn := receive(t, accepted)
			if err := stop(c, cancel); err != nil {
				t.Error(err)
			}
			if err := receive(t, done); err != nil {
				t.Error(err)
			}
			if err := errors.Join(conn.Close(), listener.Close()); err != nil {
				t.Error(err)
			}
			for conn := range accepted {
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}

	t.Run("ThatFallsSilentEndsRunAtTheDeadlineOfTheStop", func(t *testing.T) {
		t.Parallel()
		v := serverstest.OwnValkey(t)
		r := rigAt(t, v.URL)
		begun, release := make(chan string), make(chan struct{})
		cfg := r.config(held(t, begun, release), func(cfg *consumer.Config) { cfg.Options = patient(cfg.Options) })
		c, err := consumer.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- c.Run(context.Background()) }()
		r.add()
		receive(t, begun)
		if err := v.Pause(); err != nil {
			t.Fatal(err)
		}
		close(release)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := c.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stop: %v", err)
		}
		if err := receive(t, done); err != nil {
			t.Error(err)
		}
		if err := v.Resume(); err != nil {
			t.Fatal(err)
		}
	})
}
