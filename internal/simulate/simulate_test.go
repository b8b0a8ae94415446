package simulate_test

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
	"github.com/codemojex/feedrenderer/internal/simulate"
)

func TestMain(m *testing.M) { serverstest.Main(m) }

func connect(t *testing.T, url string) valkey.Client {
	t.Helper()
	option, err := valkey.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client, err := valkey.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func simulator(t *testing.T, client valkey.Client, config simulate.Config) *simulate.Simulator {
	t.Helper()
	mint, err := feed.NewMint(3)
	if err != nil {
		t.Fatal(err)
	}
	config.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	return simulate.New(config, client, mint)
}

// events reads what was written to a key, decoded.
func events(t *testing.T, client valkey.Client, key string) []feed.Event {
	t.Helper()
	entries, err := client.Do(t.Context(), client.B().Xrange().Key(key).Start("-").End("+").Build()).AsXRangeSlices()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]feed.Event, len(entries))
	for i, entry := range entries {
		fields := make(feed.Fields, len(entry.FieldValues))
		for j, pair := range entry.FieldValues {
			fields[j] = feed.Field{Name: pair.Field, Value: pair.Value}
		}
		if out[i], err = feed.Decode(key, entry.ID, fields.All()); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestRun(t *testing.T) {
	t.Parallel()
	client := connect(t, serverstest.Valkey(t))
	const tenant, wanted = feed.TenantID("sim-run"), 3000
	config := simulate.Config{Tenants: []feed.TenantID{tenant}, Games: 3, Rate: 20_000, Seed: 5, Events: wanted}
	written, err := simulator(t, client, config).Run(t.Context())
	if err != nil || written != wanted {
		t.Fatalf("wrote %d: %v", written, err)
	}
	keys, err := client.Do(t.Context(), client.B().Keys().Pattern("emq:{sim-run}:stream:*").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}

	late := events(t, client, tenant.RetryStream())
	streams := map[feed.GameKey][]feed.Event{}
	total, foreign := len(late), 0
	for _, key := range keys {
		game, err := feed.ParseStream(key)
		if err != nil {
			t.Fatal(err)
		}
		streams[game] = events(t, client, key)
		total += len(streams[game])
		for _, event := range streams[game] {
			if _, ok := event.Fields.Lookup("event"); ok {
				foreign++
			}
		}
	}

	t.Run("WritesEachEventOnce", func(t *testing.T) {
		if total != wanted {
			t.Errorf("%d entries", total)
		}
		if foreign < wanted/50 || len(late) < wanted/100 {
			t.Errorf("%d foreign, %d late", foreign, len(late))
		}
	})
	t.Run("LateEventsAreOlderThanWhatTheirGameHasAlready", func(t *testing.T) {
		for _, event := range late {
			newer := slices.ContainsFunc(streams[event.Game], func(e feed.Event) bool { return e.ID > event.ID })
			same := slices.ContainsFunc(streams[event.Game], func(e feed.Event) bool { return e.ID == event.ID })
			if !newer || same {
				t.Errorf("%s of %s: newer %v, same %v", event.ID, event.Game, newer, same)
			}
		}
	})
	t.Run("AmendmentsNameLinesBelowThem", func(t *testing.T) {
		type line struct {
			game feed.GameKey
			id   feed.ID
		}
		known := map[line]bool{}
		for _, event := range slices.Concat(append(slices.Collect(maps.Values(streams)), late)...) {
			known[line{event.Game, event.ID}] = true
		}
		amendments, pending := 0, 0
		for _, event := range slices.Concat(slices.Collect(maps.Values(streams))...) {
			text, ok := event.Fields.Lookup("target")
			if !ok {
				continue
			}
			amendments++
			target, err := feed.ParseID(text)
			if err != nil || target >= event.ID {
				t.Errorf("%s names %s: %v", event.ID, text, err)
			}
			if !known[line{event.Game, target}] {
				pending++ // its line is still to come: the play was cut off
			}
		}
		if amendments < wanted/30 || pending > 5 {
			t.Errorf("%d amendments, %d of lines that never came", amendments, pending)
		}
	})
	t.Run("GoesOnAfterTheGamesThatAreThere", func(t *testing.T) {
		again := config
		again.Events = 10
		if _, err := simulator(t, client, again).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for game, stream := range streams {
			if now := events(t, client, game.Stream()); len(now) != len(stream) {
				t.Errorf("%s has grown from %d to %d events", game, len(stream), len(now))
			}
		}
	})
	t.Run("AGamesEndSaysWhenItWasExpected", func(t *testing.T) {
		for _, event := range streams[feed.GameKey{Tenant: tenant, Game: "g1"}] {
			if ends, ok := event.Fields.Lookup("ends_ms"); event.Kind == "opened" && (!ok || strings.Trim(ends, "0123456789") != "") {
				t.Errorf("ends_ms %q", ends)
			}
		}
	})
}

func TestRunOutlivesTheServer(t *testing.T) {
	t.Parallel()
	server := serverstest.OwnValkey(t)
	client := connect(t, server.URL)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() {
		_, err := simulator(t, client, simulate.Config{Tenants: []feed.TenantID{"acme"}, Games: 1, Rate: 200}).Run(ctx)
		done <- err
	}()
	grown := func(from int64) int64 {
		deadline := time.After(30 * time.Second)
		for {
			n, err := client.Do(ctx, client.B().Xlen().Key("emq:{acme}:stream:g1").Build()).ToInt64()
			if err == nil && n > from {
				return n
			}
			select {
			case <-deadline:
				t.Fatalf("not above %d events: %d, %v", from, n, err)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	before := grown(10)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	grown(before)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestRunRefusesAKeyThatIsNoStream(t *testing.T) {
	t.Parallel()
	client := connect(t, serverstest.Valkey(t))
	if err := client.Do(t.Context(), client.B().Set().Key(feed.TenantID("sim-string").RetryStream()).Value("x").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	config := simulate.Config{Tenants: []feed.TenantID{"sim-string"}, Games: 1, Rate: 20_000}
	if _, err := simulator(t, client, config).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("got %v", err)
	}
}
