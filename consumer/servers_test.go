package consumer_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/consumer"
)

// The core of the reader law, on every kind of server that is supported.
func TestServers(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) valkey.ClientOption{
		"Valkey": func(t *testing.T) valkey.ClientOption { return options(t, newRig(t).url) },
		"Redis":  func(t *testing.T) valkey.ClientOption { return startNode(t, "redis-server", nil).opt },
		"TLS":    secured,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opt := start(t)
			for _, resp2 := range []bool{false, true} {
				opt.AlwaysRESP2 = resp2
				law(t, opt)
			}
		})
	}
}

// law has a consumer meet its own backlog and a dead one's, trimmed entries in both, new entries, one that fails once, one
// that is rejected and one that always fails; then the group is destroyed.
func law(t *testing.T, opt valkey.ClientOption) {
	t.Helper()
	r := rigWith(t, opt)
	r.group()
	ids := r.addMany(30)
	r.readAs("a", 10)
	r.readAs("dead", 10)
	r.age(ids[10:20], 2*time.Hour)
	r.must("XDEL", r.stream, ids[0], ids[10])
	ids = append(ids, r.add("do", "retry"), r.add("do", "reject"), r.add("do", "fail"))
	var s seen
	c := r.start(each(func(_ context.Context, m consumer.Message) consumer.Verdict {
		s.note(m)
		switch do, _ := m.Fields.Get("do"); {
		case do == "retry" && m.Attempts == 1, do == "fail":
			return consumer.Retry(0, errSorry)
		case do == "reject":
			return consumer.Reject("bad")
		}
		return consumer.Ack()
	}), func(cfg *consumer.Config) { cfg.MaxAttempts = 3 })
	r.settled(c, 31)
	for i, id := range ids {
		want := []int64{1}
		switch {
		case i == 0 || i == 10: // trimmed
			want = nil
		case i < 20:
			want = []int64{2}
		case i == 30:
			want = []int64{1, 2}
		case i == 32:
			want = []int64{1, 2, 3}
		}
		if attempts, _ := s.of(id); !slices.Equal(attempts, want) {
			t.Errorf("entry %d: attempts %v, want %v", i, attempts, want)
		}
	}
	first := s.ids()[:22]
	if want := append(slices.Clone(ids[1:10]), ids[20:]...); !slices.Equal(first, want) {
		t.Errorf("order %v, want %v", first, want)
	}
	var reasons []string
	for _, l := range r.deadLetters() {
		reasons = append(reasons, fmt.Sprint(l.EntryID == ids[31], l.Reason, l.Attempts))
	}
	if slices.Sort(reasons); !slices.Equal(reasons, []string{"falsesorry3", "truebad1"}) {
		t.Errorf("dead letters %v", reasons)
	}
	if st := c.Stats(); st.Trimmed != 2 || st.Backlog != 9 || st.LeasesLost != 0 || st.Failures != 0 {
		t.Errorf("stats %+v", st)
	}
	h, err := c.Health(t.Context())
	if err != nil || len(h.Streams) != 1 {
		t.Fatalf("health %+v, %v", h, err)
	}
	if st := h.Streams[0]; st.Length != 31 || st.Pending != 0 || st.DeadLetters != 2 || len(st.Consumers) != 2 {
		t.Errorf("health %+v", st)
	}
	r.must("XGROUP", "DESTROY", r.stream, "g")
	eventually(t, func() bool { return s.len() == 2*34 && len(r.pending()) == 0 }, "the group is made again from the head")
	c.stop()
}

// secured starts a server that speaks TLS alone and asks for a certificate. Who does not know the server's does not talk to it.
func secured(t *testing.T) valkey.ClientOption {
	t.Helper()
	dir := t.TempDir()
	cert, pool := certificate(t, dir)
	known := &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	n := startNode(t, "valkey-server", known, "--tls-cert-file", filepath.Join(dir, "cert.pem"), "--tls-key-file", filepath.Join(dir, "key.pem"),
		"--tls-ca-cert-file", filepath.Join(dir, "cert.pem"), "--tls-auth-clients", "yes")
	r := rigWith(t, n.opt)
	c := r.start(func(cfg *consumer.Config) {
		cfg.Options.TLSConfig = &tls.Config{Certificates: known.Certificates, MinVersion: tls.VersionTLS12}
	})
	eventually(t, func() bool { return strings.Contains(r.logs.String(), "unknown authority") }, "the stranger is not trusted")
	c.stop()
	return n.opt
}

// certificate makes one that signs itself, for 127.0.0.1, for servers and clients, and writes it to cert.pem and key.pem.
func certificate(t *testing.T, dir string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	check(err)
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	check(os.WriteFile(filepath.Join(dir, "cert.pem"), certPEM, 0o600))
	check(os.WriteFile(filepath.Join(dir, "key.pem"), keyPEM, 0o600))
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	check(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return cert, pool
}

// A user of the server's who may do no more than a consumer needs.
func TestAnACLUser(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	user := strings.NewReplacer("{", "", "}", "", ":", "").Replace(r.stream)
	r.must("ACL", "SETUSER", user, "on", ">secret", "~"+r.stream+"*", "+@stream", "+@scripting", "+exists", "+get", "+set", "+del",
		"+hello", "+auth", "+client|setinfo", "+ping", "+time")
	t.Cleanup(func() { r.must("ACL", "DELUSER", user) })
	r.addMany(5)
	c := r.start(func(cfg *consumer.Config) {
		cfg.Options.Username, cfg.Options.Password = user, "secret"
		cfg.Options.ForceSingleClient = true
	})
	r.settled(c, 5)
	wrong, err := consumer.New(r.config(named("b"), func(cfg *consumer.Config) {
		cfg.Options.Username, cfg.Options.Password = user, "wrong"
	}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := wrong.Run(ctx); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("got %v", err)
	}
}

// Servers that lack what the package relies on are refused at the start, and it is said why.
func TestAnOldServerIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ info, want string }{
		"Redis62":      {"redis_version:6.2.14\r\n", "Redis 6.2.14 is older than 7.0"},
		"Valkey71":     {"redis_version:7.2.4\r\nvalkey_version:7.1.0\r\n", "Valkey 7.1.0 is older than 7.2"},
		"OneThatHides": {"server_name:mine\r\n", "does not say its version"},
		"OneThatLies":  {"redis_version:seven.zero\r\n", `version "seven.zero"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c1, err := consumer.New(consumer.Config{
				Options: valkey.ClientOption{InitAddress: []string{fakeServer(t, "# Server\r\n"+c.info)}, AlwaysRESP2: true, ForceSingleClient: true},
				Group:   "g", Start: consumer.StartHead, Streams: []string{"s"},
				Handler: func(_ context.Context, batch []consumer.Message) []consumer.Verdict {
					return all(batch, consumer.Ack())
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := c1.Run(ctx); !errors.Is(err, consumer.ErrServer) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// fakeServer answers INFO with a text and everything else with OK. It returns its address.
func fakeServer(t *testing.T, info string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { // until the client hangs up or the test ends
				defer conn.Close()
				defer context.AfterFunc(t.Context(), func() { _ = conn.Close() })()
				for r := bufio.NewReader(conn); ; {
					_, cmd, err := readCommand(r)
					if err != nil {
						return
					}
					reply := "+OK\r\n"
					if cmd[0] == "INFO" {
						reply = fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)
					}
					if _, err := conn.Write([]byte(reply)); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return l.Addr().String()
}
