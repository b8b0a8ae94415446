package consumer_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/consumer"
)

// Names, and what they are held by.
func TestNames(t *testing.T) {
	t.Parallel()

	t.Run("ALiveTwinIsRefused", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		a := r.start()
		eventually(t, func() bool { return a.Stats().Name == "a" }, "it runs")
		twin, err := consumer.New(r.config())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := twin.Run(ctx); !errors.Is(err, consumer.ErrNameTaken) {
			t.Errorf("got %v", err)
		}
	})

	t.Run("ARestartAfterAKillTakesTheNameOverWithinItsTTL", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		id := r.add()
		a := r.child(orders{Name: "a", Do: "hang", MinIdle: time.Hour})
		a.next()
		a.kill()
		left, err := r.do("PTTL", r.stream+":name:a").AsInt64()
		if err != nil || left > nameTTL.Milliseconds() {
			t.Errorf("the name is held for %d ms more, %v", left, err)
		}
		var s seen
		c := r.start(s.acking(), func(cfg *consumer.Config) { cfg.MinIdle = time.Hour })
		r.settled(c, 1)
		if got := s.ids(); !slices.Equal(got, []string{id}) {
			t.Errorf("handled %v", got)
		}
	})

	t.Run("DefaultNamesAreTheLowestFreeSlots", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		start := func() *running {
			c := r.start(named(""))
			eventually(t, func() bool { return c.Stats().Name != "" }, "it has a name")
			return c
		}
		a, b := start(), start()
		if x, y := a.Stats().Name, b.Stats().Name; !strings.HasSuffix(x, "-0") || !strings.HasSuffix(y, "-1") {
			t.Errorf("names %s and %s", x, y)
		}
		a.stop()
		if name := start().Stats().Name; !strings.HasSuffix(name, "-0") {
			t.Errorf("name %s", name)
		}
	})

	t.Run("WhoLosesADefaultNameTakesAnother", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		c := r.start(named(""))
		eventually(t, func() bool { return c.Stats().Name != "" }, "it has a name")
		r.must("SET", r.stream+":name:"+c.Stats().Name, "somebody else")
		eventually(t, func() bool { return strings.HasSuffix(c.Stats().Name, "-1") }, "it has another")
		r.add()
		r.settled(c, 1)
	})

	t.Run("WhoLosesAGivenNameEnds", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		c, err := consumer.New(r.config())
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- c.Run(context.Background()) }()
		eventually(t, func() bool { return c.Stats().Name == "a" }, "it runs")
		r.must("SET", r.stream+":name:a", "somebody else")
		if err := receive(t, done); !errors.Is(err, consumer.ErrNameTaken) {
			t.Errorf("got %v", err)
		}
	})
}
