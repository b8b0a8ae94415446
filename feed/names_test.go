package feed_test

import (
	"strings"
	"testing"

	"github.com/codemojex/feedrenderer/feed"
)

func TestParseStreamTakesGameStreamsOnly(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 64)
	for key, want := range map[string]string{
		"emq:{acme}:stream:g1":              "acme/g1",
		"emq:{a-1}:stream:G_1-x":            "a-1/G_1-x",
		"emq:{acme}:stream:" + long:         "acme/" + long,
		"emq:{acme}:stream:" + long + "a":   "",
		"emq:{acme}:stream:g1:archived":     "",
		"emq:{acme}:stream:":                "",
		"emq:{acme}:stream:-g":              "",
		"emq:{Acme}:stream:g1":              "",
		"emq:{}:stream:g1":                  "",
		"emq:{" + long + "}:stream:g1":      "",
		"emq:{acme}:dead:g1":                "",
		"emq:acme:stream:g1":                "",
		"emq:{acme}:stream:g1\n":            "",
		"emq:{acme/x}:stream:g1":            "",
		"emq:{acme}:stream:x/y":             "",
		"emq:{acme}:stream:{g}:stream:game": "",
		"emq:{emq}:version":                 "",
		"":                                  "",
	} {
		got, err := feed.ParseStream(key)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q reads as %s", key, got)
		case want != "" && (err != nil || got.String() != want || got.Stream() != key):
			t.Errorf("%q reads as %s, %v; want %s", key, got, err, want)
		}
	}
}

func TestATenantsKeysShareItsHashTag(t *testing.T) {
	t.Parallel()
	k := feed.GameKey{Tenant: "acme", Game: "g1"}
	if got := k.DeadLetters(); got != "emq:{acme}:dead:g1" {
		t.Errorf("dead letters %s", got)
	}
	if back, ok := feed.ParseDeadLetters(k.DeadLetters()); !ok || back != k {
		t.Errorf("dead letters read as of %s, %v", back, ok)
	}
	for _, key := range []string{"emq:{acme}:dead", "emq:{acme}:dead:", "emq:{acme}:dead:a:b", "emq:{A}:dead:g", "emq:{acme}:stream:g1"} {
		if back, ok := feed.ParseDeadLetters(key); ok {
			t.Errorf("%q reads as the dead letters of %s", key, back)
		}
	}
	if got := k.Tenant.RetryStream(); got != "emq:{acme}:retry" {
		t.Errorf("retry stream %s", got)
	}
	if tenant, ok := feed.ParseRetryStream("emq:{acme}:retry"); !ok || tenant != "acme" {
		t.Errorf("retry stream reads as %s, %v", tenant, ok)
	}
	for _, key := range []string{"emq:{acme}:retry2", "emq:{A}:retry", "emq:{acme}:stream:retry", "x"} {
		if tenant, ok := feed.ParseRetryStream(key); ok {
			t.Errorf("%q reads as the retry stream of %s", key, tenant)
		}
	}
}

func TestParseGameKeyNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for text, part := range map[string]string{"acme": "TENANT/GAME", "Acme/g": "tenant", "acme/": "game", "acme/a b": "game"} {
		if _, err := feed.ParseGameKey(text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want a word of %s", text, err, part)
		}
	}
}
