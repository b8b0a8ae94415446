package timeline

import (
	"context"
	"net"
	"testing"
	"time"
)

// A server that vanished, or is stuck, accepts and says nothing. Whoever waits for it goes sooner, and takes nothing along.
func TestAServerThatSaysNothingHoldsNoPlaceInThePool(t *testing.T) {
	t.Parallel()
	var dialer net.ListenConfig
	listener, err := dialer.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // of a test that is over
	pool, err := Open(t.Context(), "postgres://"+listener.Addr().String()+"/x?sslmode=disable&connect_timeout=1", RoleWeb, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	hurried, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer leave()
	if err := pool.Ping(hurried); err == nil || pool.Stat().TotalConns() != 1 {
		t.Fatalf("got %v with %d connections on their way", err, pool.Stat().TotalConns())
	}
	deadline := time.Now().Add(patience)
	for pool.Stat().TotalConns() > 0 {
		if time.Now().After(deadline) {
			t.Fatal("the place is held as long as the operating system waits")
		}
		<-time.After(10 * time.Millisecond)
	}
}

func TestTheURLMaySayHowLongToWaitForAConnection(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]time.Duration{"": connectTime, "?connect_timeout=7": 7 * time.Second} {
		pool, err := Open(t.Context(), "postgres://127.0.0.1:1/x"+query, RoleWeb, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := pool.Config().ConnConfig.ConnectTimeout; got != want {
			t.Errorf("with %q it is %v, want %v", query, got, want)
		}
		pool.Close()
	}
}
