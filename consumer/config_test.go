package consumer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/consumer"
)

func TestNew(t *testing.T) {
	t.Parallel()
	good := func() consumer.Config {
		return consumer.Config{
			Options: valkey.ClientOption{InitAddress: []string{"127.0.0.1:1"}}, Group: "g", Start: consumer.StartNew,
			Handler: func(context.Context, []consumer.Message) []consumer.Verdict { return nil },
		}
	}

	t.Run("TakesTheZeroValuesAsDefaults", func(t *testing.T) {
		t.Parallel()
		if _, err := consumer.New(good()); err != nil {
			t.Error(err)
		}
	})

	t.Run("NamesEveryFaultInOneError", func(t *testing.T) {
		t.Parallel()
		_, err := consumer.New(consumer.Config{Workers: -1, MinIdle: -time.Second, Beat: time.Hour})
		if err == nil {
			t.Fatal("accepted")
		}
		for _, want := range []string{"InitAddress", "Group", "Start", "Handler", "Workers", "MinIdle", "Beat"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in %q", want, err)
			}
		}
	})

	for name, c := range map[string]struct {
		change func(*consumer.Config)
		want   string
	}{
		"BeatAboveAThirdOfMinIdle":       {func(c *consumer.Config) { c.MinIdle, c.Beat = 3*time.Second, 1001*time.Millisecond }, "third"},
		"BackoffAboveMinIdle":            {func(c *consumer.Config) { c.Backoff = time.Minute }, "Backoff"},
		"WriteTimeoutBelowBlock":         {func(c *consumer.Config) { c.Options.ConnWriteTimeout = 10 * time.Millisecond }, "ConnWriteTimeout"},
		"MaxInFlightBelowTwoAWorker":     {func(c *consumer.Config) { c.Workers, c.MaxInFlight = 4, 7 }, "MaxInFlight"},
		"AReplica":                       {func(c *consumer.Config) { c.Options.ReplicaOnly = true }, "ReplicaOnly"},
		"AStreamTwice":                   {func(c *consumer.Config) { c.Streams = []string{"s", "s"} }, "twice"},
		"AStreamWithoutName":             {func(c *consumer.Config) { c.Streams = []string{""} }, "empty name"},
		"ADeadLetterStreamOfAnotherSlot": {func(c *consumer.Config) { c.Streams, c.DeadLetter = []string{"s"}, constant("dead") }, "slot"},
		"AStreamThatIsItsOwnDeadLetters": {func(c *consumer.Config) { c.Streams, c.DeadLetter = []string{"s"}, constant("s") }, "own dead-letter"},
		"ARetryStreamOfAnotherSlot":      {func(c *consumer.Config) { c.Streams, c.RetryStream = []string{"s"}, constant("again") }, "slot"},
		"ADurationThatLacksItsUnit":      {func(c *consumer.Config) { c.DegradedAfter = 120 }, "DegradedAfter"},
		"AGraceBelowZero":                {func(c *consumer.Config) { c.ConsumerGrace = -1 }, "ConsumerGrace"},
		"ANegativeCapOfDeadLetters":      {func(c *consumer.Config) { c.DeadLetterCap = -1 }, "DeadLetterCap"},
		"AKeyWhoseBracesAreNotAHashTag":  {func(c *consumer.Config) { c.Streams = []string{"a}b"} }, "slot"},
	} {
		t.Run("Refuses"+name, func(t *testing.T) {
			t.Parallel()
			cfg := good()
			c.change(&cfg)
			if _, err := consumer.New(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}

	t.Run("KeepsTheHashTagOfAStreamForItsDeadLetters", func(t *testing.T) {
		t.Parallel()
		cfg := good()
		cfg.Streams = []string{"emq:{acme}:stream:g1", "orders", "{a}b"}
		if _, err := consumer.New(cfg); err != nil {
			t.Error(err)
		}
	})
}

func constant(s string) func(string) string { return func(string) string { return s } }

func TestStop(t *testing.T) {
	t.Parallel()

	t.Run("PastItsDeadlineCancelsTheHandlers", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.addMany(3)
		begun := make(chan struct{}, 3)
		c := r.start(each(func(ctx context.Context, _ consumer.Message) consumer.Verdict {
			begun <- struct{}{}
			<-ctx.Done()
			return consumer.Retry(0, ctx.Err())
		}))
		receive(t, begun)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := c.Stop(ctx); err == nil {
			t.Error("a stop past its deadline is no error")
		}
		c.stop()
		if n := len(r.pending()); n != 3 {
			t.Errorf("%d pending", n)
		}
	})

	t.Run("ByRunsContextIsCleanToo", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.addMany(3)
		c, err := consumer.New(r.config())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		eventually(t, func() bool { return c.Stats().Acked == 3 }, "handled")
		cancel()
		if err := receive(t, done); err != nil {
			t.Error(err)
		}
		if err := c.Stop(t.Context()); err != nil {
			t.Errorf("a stop after the end: %v", err)
		}
		if err := c.Run(t.Context()); err == nil {
			t.Error("it runs twice")
		}
	})

	t.Run("BeforeARunEndsItAtOnce", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.add()
		c, err := consumer.New(r.config())
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := c.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		}
		done := make(chan error, 2)
		go func() { done <- c.Run(context.Background()) }()
		if err := receive(t, done); err != nil {
			t.Error(err)
		}
		if err := c.Run(t.Context()); !errors.Is(err, consumer.ErrRunning) {
			t.Errorf("a second run: %v", err)
		}
		if n := c.Stats().Read; n != 0 {
			t.Errorf("%d read", n)
		}
		if _, err := c.Health(t.Context()); err == nil {
			t.Error("health without a run")
		}
	})
}
