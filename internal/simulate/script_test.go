package simulate

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codemojex/feedrenderer/feed"
)

var tenants = []feed.TenantID{"acme", "globex"}

func script1(seed uint64, endless feed.GameID) *script {
	return newScript(seed, tenants, 3, endless, map[feed.TenantID]int{"acme": 1, "globex": 1})
}

func played(s *script, steps int) []step {
	out := make([]step, steps)
	for i := range out {
		out[i] = s.next()
	}
	return out
}

func TestScript(t *testing.T) {
	t.Parallel()
	steps := played(script1(7, ""), 20_000)

	t.Run("TheSameSeedPlaysTheSame", func(t *testing.T) {
		t.Parallel()
		if diff := cmp.Diff(told(steps[:2000]), told(played(script1(7, ""), 2000))); diff != "" {
			t.Error(diff)
		}
		if cmp.Equal(told(steps[:2000]), told(played(script1(8, ""), 2000))) {
			t.Error("another seed plays the same")
		}
	})

	t.Run("AllKindsModesAndWaysAreMet", func(t *testing.T) {
		t.Parallel()
		met := map[string]bool{}
		for _, s := range steps {
			met["kind "+kindOf(s)] = true
			met[fmt.Sprint("way ", s.way)] = true
			if mode, ok := s.fields.Lookup("mode"); ok {
				met["mode "+mode] = true
			}
		}
		for _, want := range append([]string{
			"mode classic", "mode golden", "mode blind", "way 0", "way 1", "way 2", "way 3",
			"kind opened", "kind joined", "kind gathered", "kind guessed", "kind scored", "kind golden_win", "kind revealed",
			"kind settled", "kind voided", "kind corrected", "kind retracted", "kind notice",
		}, "kind "+strange[0]) {
			if !met[want] {
				t.Errorf("%s never comes", want)
			}
		}
	})

	t.Run("TenantsPlayGamesOfTheSameNames", func(t *testing.T) {
		t.Parallel()
		games := map[feed.GameID]map[feed.TenantID]bool{}
		for _, s := range steps {
			if games[s.game.Game] == nil {
				games[s.game.Game] = map[feed.TenantID]bool{}
			}
			games[s.game.Game][s.game.Tenant] = true
		}
		if len(games) < 20 || len(games["g1"]) != 2 {
			t.Errorf("%d games, g1 in %d tenants", len(games), len(games["g1"]))
		}
	})

	t.Run("AGameEndsOnceAndOnlyLateEventsFollow", func(t *testing.T) {
		t.Parallel()
		final := map[feed.GameKey]bool{}
		for _, s := range steps {
			if kind := kindOf(s); final[s.game] && s.way != delivered {
				t.Fatalf("%s of %s after its end", kind, s.game)
			} else if kind == "settled" || kind == "voided" {
				final[s.game] = true
			}
		}
	})

	t.Run("AmendmentsNameALineThatWasWrittenOrReservedBefore", func(t *testing.T) {
		t.Parallel()
		known, overtaken := map[*entry]feed.GameKey{}, 0
		written := map[*entry]bool{}
		for _, s := range steps {
			if s.target != nil {
				if known[s.target] != s.game {
					t.Fatalf("%s of %s names no line of its game", kindOf(s), s.game)
				}
				if !written[s.target] {
					overtaken++
				}
			}
			known[s.entry] = s.game
			written[s.entry] = s.way != reserved
		}
		if overtaken == 0 {
			t.Error("no amendment overtakes its line")
		}
	})

	t.Run("ARevealedCommitmentIsTrue", func(t *testing.T) {
		t.Parallel()
		for _, s := range steps {
			if kindOf(s) != "revealed" {
				continue
			}
			said, _ := s.fields.Lookup("commitment")
			secret, _ := s.fields.Lookup("secret")
			nonce, _ := s.fields.Lookup("nonce")
			if want := commitment(strings.Fields(secret), nonce); said != want || len(strings.Fields(secret)) != 6 {
				t.Fatalf("commitment %s of %q, want %s", said, secret, want)
			}
		}
	})

	t.Run("AnEndlessGameIsNeverOver", func(t *testing.T) {
		t.Parallel()
		first := map[feed.TenantID]int{}
		for _, s := range played(script1(7, "g1"), 20_000) {
			if s.game.Game != "g1" {
				continue
			}
			first[s.game.Tenant]++
			if kind := kindOf(s); kind == "settled" || kind == "voided" {
				t.Fatalf("g1 of %s is %s", s.game.Tenant, kind)
			}
		}
		if first["acme"] < 2000 || first["globex"] < 2000 {
			t.Errorf("events of g1: %v, want a third of 20000", first)
		}
	})
}

func TestCommitment(t *testing.T) {
	t.Parallel()
	// printf '1\0362\0363\0364\0365\0366\036n' | sha256sum
	want := "e72d14dc6154bf29d1a7f4020cc17242e7ab57d86715f6ba4f81ad46e74c792b"
	if got := commitment([]string{"1", "2", "3", "4", "5", "6"}, "n"); got != want {
		t.Errorf("commitment %s, want %s", got, want)
	}
}

func TestPace(t *testing.T) {
	t.Parallel()
	t.Run("IsTheRateInTheLongRunAndUneven", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := New(Config{Rate: 50, Seed: 3}, nil, nil)
			start, due := time.Now(), time.Now()
			short, before := 0, start
			for range 5000 {
				due = s.wait(t.Context(), due)
				if time.Since(before) < 5*time.Millisecond {
					short++
				}
				before = time.Now()
			}
			if took := time.Since(start); took < 95*time.Second || took > 105*time.Second {
				t.Errorf("5000 events at 50/s took %v", took)
			}
			if short < 500 || short > 2000 {
				t.Errorf("%d of 5000 pauses below a quarter of the mean", short)
			}
		})
	})

	t.Run("MakesUpForNoMoreThanASecondOfAStandstill", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := New(Config{Rate: 50}, nil, nil)
			start := time.Now()
			due := s.wait(t.Context(), start.Add(-time.Minute))
			n := 0
			for ; due.Before(start); n++ {
				due = s.wait(t.Context(), due)
			}
			if n > 100 {
				t.Errorf("%d events at once, want about 50", n)
			}
		})
	})
}

func kindOf(s step) string { return s.fields[0].Value }

// told is what is played, without the ids.
func told(steps []step) []string {
	out := make([]string, len(steps))
	for i, s := range steps {
		out[i] = fmt.Sprint(s.game, s.way, s.fields, s.endsIn, s.target != nil)
	}
	return out
}
