package main

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

// TestAPrivateTenantIsWatchedAndProducedForWithItsKeys is about the running system, from the making of a tenant on.
func TestAPrivateTenantIsWatchedAndProducedForWithItsKeys(t *testing.T) {
	t.Parallel()
	s := newSystem(t, serverstest.Valkey(t))
	const master = "a-master-key-of-a-test-0123456789"
	game := feed.GameKey{Tenant: "private-a", Game: "g1"}
	s.run("tenant", "create", "private-a")
	watch, produce := s.run("key", "create", "private-a", "watch"), s.run("key", "create", "private-a", "produce", "--label", "engine")
	serving := s.serve("render,web", "--master-key", master).ready()

	ask := func(method, url, key, body string, header ...string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			request.Header.Set("Authorization", "Bearer "+key)
		}
		for i := 0; i < len(header); i += 2 {
			request.Header.Set(header[i], header[i+1])
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		out, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(out)
	}
	until(t, "the public address answers", func() bool {
		status, _ := get(t, "http://"+serving.public+"/healthz")
		return status == http.StatusOK
	})
	batch := `[{"kind":"opened","mode":"classic"},{"kind":"scored","player":"ann","pct":87,"eff":522}]`
	status, first := ask(http.MethodPost, gameURL(serving, game)+"/events", produce, batch, "Idempotency-Key", "1")
	if status != http.StatusCreated {
		t.Fatalf("got %d %s", status, first)
	}
	if status, again := ask(http.MethodPost, gameURL(serving, game)+"/events", produce, batch, "Idempotency-Key", "1"); status != http.StatusCreated || again != first {
		t.Errorf("sent again: %d %s, want %s", status, again, first)
	}
	if status, _ := ask(http.MethodPost, gameURL(serving, game)+"/events", produce, `{"kind":"notice"}`, "Idempotency-Key", "1"); status != http.StatusUnprocessableEntity {
		t.Errorf("another body under the name: %d", status)
	}
	until(t, "both lines are there, once", func() bool {
		status, body := ask(http.MethodGet, gameURL(serving, game)+"/timeline", watch, "")
		return status == http.StatusOK && strings.Contains(body, "ann scored 87 %") && strings.Count(body, `"evt":`) == 2
	})
	if status, _ := ask(http.MethodGet, gameURL(serving, game), "", ""); status != http.StatusNotFound {
		t.Errorf("without a key: %d", status)
	}

	id := strings.Split(watch, "_")[2]
	if listed := s.run("key", "list", "private-a"); !strings.Contains(listed, id) || strings.Contains(listed, strings.Split(watch, "_")[3]) {
		t.Errorf("listed as %s", listed)
	}
	s.run("key", "revoke", "private-a", id)
	until(t, "the revoked key is refused", func() bool {
		status, _ := ask(http.MethodGet, gameURL(serving, game), watch, "")
		return status == http.StatusUnauthorized
	})
	s.run("tenant", "change", "private-a", "--watched-by", "anybody", "--max-requests", "500")
	until(t, "anybody may watch", func() bool {
		status, _ := ask(http.MethodGet, gameURL(serving, game), "", "")
		return status == http.StatusOK
	})
	s.run("tenant", "suspend", "private-a")
	until(t, "nothing of it is served", func() bool {
		status, _ := ask(http.MethodGet, gameURL(serving, game), "", "")
		return status == http.StatusNotFound
	})
	if status, body := ask(http.MethodGet, "http://"+serving.public+"/v1/tenants", master, ""); status != http.StatusOK || !strings.Contains(body, `"suspended":true`) {
		t.Errorf("the manager sees %d %s", status, body)
	}
	s.run("tenant", "resume", "private-a")
	if listed := s.run("tenant", "list"); !strings.Contains(listed, "served") || !strings.Contains(listed, "500") {
		t.Errorf("listed as %s", listed)
	}

	said := serving.stderr.String() + serving.stdout.String()
	for _, secret := range []string{master, watch, produce, strings.Split(produce, "_")[3]} {
		if strings.Contains(said, secret) {
			t.Errorf("a secret stands in the log: %s", said)
		}
	}
}

func TestSecretsAreNotRepeatedInFaults(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"serve --master-key short-secret --trusted-proxies 10.0.0.1/8,proxy",
		"key revoke acme frk_acme_ABCDEFGHIJKL_ABCDEFGHIJKLMNOPQRSTUVWXYZ",
	} {
		var out bytes.Buffer
		err := run(t.Context(), strings.Fields(args), []string{someValkey, someDatabase}, &out, &out)
		if err == nil || strings.Contains(err.Error()+out.String(), "short-secret") || strings.Contains(err.Error(), "KLMNOPQRSTUVWXYZ") {
			t.Errorf("%s: %v", args, err)
		}
	}
}
