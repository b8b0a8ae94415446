package render

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/codemojex/feedrenderer/consumer"
	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

// applied and rung stand in for the store and the doorbell where a test is about what Step makes of their answers.
type (
	applied func(ctx context.Context, lines []feed.Line) (timeline.Applied, error)
	rung    func(ctx context.Context, changes []feed.Change) error
)

func (f applied) Apply(ctx context.Context, lines []feed.Line) (timeline.Applied, error) {
	return f(ctx, lines)
}
func (f rung) Publish(ctx context.Context, changes []feed.Change) error { return f(ctx, changes) }

// changed is the answer of a store that wrote all lines.
func changed(_ context.Context, lines []feed.Line) (timeline.Applied, error) {
	return timeline.Applied{Changes: []feed.Change{{Game: lines[0].Game, From: 0, To: int64(len(lines))}}}, nil
}

func silent(context.Context, []feed.Change) error { return nil }

// message is an entry of game g1, the n-th of it.
func message(n int, pairs ...string) consumer.Message {
	m := consumer.Message{Stream: ofGame.Stream(), EntryID: (eventID + feed.ID(n)).EntryID(), Attempts: 1}
	for i := 0; i < len(pairs); i += 2 {
		m.Fields = append(m.Fields, consumer.Field{Name: pairs[i], Value: pairs[i+1]})
	}
	return m
}

// said puts verdicts in words.
func said(verdicts []consumer.Verdict) []string {
	words := make([]string, len(verdicts))
	for i, v := range verdicts {
		words[i] = v.String()
	}
	return words
}

func newWorker(t *testing.T, apply applied, ring rung) *Worker {
	t.Helper()
	return NewWorker(WorkerConfig{Kinds: load(t, nil), Timeline: apply, Doorbell: ring})
}

func TestStep(t *testing.T) {
	t.Parallel()

	t.Run("CommitsThenRingsThenAcknowledges", func(t *testing.T) {
		t.Parallel()
		var order []string
		w := newWorker(t, func(ctx context.Context, lines []feed.Line) (timeline.Applied, error) {
			order = append(order, "apply "+lines[0].Evt.EntryID())
			return changed(ctx, lines)
		}, func(_ context.Context, changes []feed.Change) error {
			order = append(order, "ring "+changes[0].Game.String())
			return nil
		})
		got := w.Step(t.Context(), []consumer.Message{message(0, "kind", "joined", "player", "ann")})
		if diff := cmp.Diff([]string{"ack"}, said(got)); diff != "" {
			t.Error(diff)
		}
		if want := []string{"apply " + eventID.EntryID(), "ring acme/g1"}; !slices.Equal(order, want) {
			t.Errorf("%v, want %v", order, want)
		}
	})

	t.Run("EachEntryHasItsOwnFateInOneBatch", func(t *testing.T) {
		t.Parallel()
		w := newWorker(t, func(ctx context.Context, lines []feed.Line) (timeline.Applied, error) {
			if len(lines) != 3 {
				t.Errorf("%d lines", len(lines))
			}
			out, err := changed(ctx, lines)
			out.Rejected = []timeline.Rejection{{Index: 1, Reason: "too long for the index"}}
			return out, err
		}, silent)
		got := w.Step(t.Context(), []consumer.Message{
			message(0, "id", "EVT1", "kind", "joined"),
			message(1, "kind", "joined", "player", "ann"),
			message(2, "kind", "locked"),
			message(3, "kind", "joined", "player", "\x00"),
			message(4, "kind", "joined", "player", "bea"),
			message(5, "kind", "opened", "mode", "classic"),
		})
		want := []string{
			"reject: entry " + eventID.EntryID() + " of emq:{acme}:stream:g1: field id: malformed branded id: 4 bytes, want 14",
			"ack", "ack",
			"reject: field player has a NUL byte",
			"reject: too long for the index",
			"ack",
		}
		if diff := cmp.Diff(want, said(got)); diff != "" {
			t.Error(diff)
		}
		for fate, want := range map[fate]float64{undecodable: 1, unshowable: 1, unwritable: 1, lineless: 1, written: 2} {
			if got := testutil.ToFloat64(w.metrics.entries.WithLabelValues("acme", string(fate))); got != want {
				t.Errorf("%g entries are %s, want %g", got, fate, want)
			}
		}
	})

	t.Run("ADeadLetterThatComesBackIsTheEventItWas", func(t *testing.T) {
		t.Parallel()
		var lines []feed.Line
		w := newWorker(t, func(ctx context.Context, all []feed.Line) (timeline.Applied, error) {
			lines = all
			return changed(ctx, all)
		}, silent)
		back := message(0, "dead.stream", ofGame.Stream(), "dead.entry", eventID.EntryID(), "f:kind", "joined", "f:player", "ann")
		back.Stream, back.EntryID = ofGame.Tenant.RetryStream(), "1796050000000-0"
		if diff := cmp.Diff([]string{"ack"}, said(w.Step(t.Context(), []consumer.Message{back}))); diff != "" {
			t.Error(diff)
		}
		if len(lines) != 1 || lines[0].Evt != eventID || lines[0].Game != ofGame || lines[0].Base.Fields["player"] != "ann" {
			t.Errorf("%+v", lines)
		}
	})

	t.Run("ABatchOfNothingToWriteAsksNobody", func(t *testing.T) {
		t.Parallel()
		w := newWorker(t, nil, nil)
		if diff := cmp.Diff([]string{"ack"}, said(w.Step(t.Context(), []consumer.Message{message(0, "kind", "locked")}))); diff != "" {
			t.Error(diff)
		}
	})

	t.Run("AnErrorOfTheStoreIsRetriedAndRejectionsStand", func(t *testing.T) {
		t.Parallel()
		rang := 0
		w := newWorker(t, func(ctx context.Context, lines []feed.Line) (timeline.Applied, error) {
			out, _ := changed(ctx, lines) // some of it was written
			out.Rejected = []timeline.Rejection{{Index: 0, Reason: "bad"}}
			return out, errors.New("odd")
		}, func(context.Context, []feed.Change) error { rang++; return nil })
		got := w.Step(t.Context(), []consumer.Message{message(0), message(1), message(2, "kind", "locked")})
		if diff := cmp.Diff([]string{"reject: bad", "retry after 0s: odd", "ack"}, said(got)); diff != "" {
			t.Error(diff)
		}
		if rang != 1 {
			t.Errorf("rang %d times for what was written", rang)
		}
	})

	t.Run("AStoreThatDoesNotAnswerCountsAsDown", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorker(t, func(ctx context.Context, _ []feed.Line) (timeline.Applied, error) {
				<-ctx.Done()
				return timeline.Applied{}, ctx.Err()
			}, silent)
			begun := time.Now()
			got := w.Step(t.Context(), []consumer.Message{message(0)})
			if diff := cmp.Diff([]string{"unavailable: context deadline exceeded"}, said(got)); diff != "" {
				t.Error(diff)
			}
			if took := time.Since(begun); took != 30*time.Second {
				t.Errorf("after %s", took)
			}
		})
	})

	t.Run("BeingStoppedCountsAgainstNoEntry", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		w := newWorker(t, func(context.Context, []feed.Line) (timeline.Applied, error) {
			cancel()
			return timeline.Applied{}, errors.New("conn closed")
		}, silent)
		if diff := cmp.Diff([]string{"unavailable: conn closed"}, said(w.Step(ctx, []consumer.Message{message(0)}))); diff != "" {
			t.Error(diff)
		}
	})

	t.Run("WhatIsCommittedIsToldEvenWhileWeAreStopped", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		w := newWorker(t, func(ctx context.Context, lines []feed.Line) (timeline.Applied, error) {
			cancel()
			return changed(ctx, lines)
		}, func(ctx context.Context, _ []feed.Change) error { return ctx.Err() })
		w.Step(ctx, []consumer.Message{message(0)})
		if got := testutil.ToFloat64(w.metrics.unrung); got != 0 {
			t.Error("it was not told")
		}
	})

	t.Run("ADeafDoorbellHoldsNothingUpAndIsLoggedOnce", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			deaf := true
			w := newWorker(t, changed, func(ctx context.Context, _ []feed.Change) error {
				if !deaf {
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			})
			w.mute.log = slog.New(slog.NewTextHandler(&log, nil))
			for range 3 {
				if diff := cmp.Diff([]string{"ack"}, said(w.Step(t.Context(), []consumer.Message{message(0)}))); diff != "" {
					t.Error(diff)
				}
			}
			deaf = false
			w.Step(t.Context(), []consumer.Message{message(0)})
			w.Step(t.Context(), []consumer.Message{message(0)})
			if got := testutil.ToFloat64(w.metrics.unrung); got != 3 {
				t.Errorf("%g failures counted", got)
			}
			if lines := strings.Count(log.String(), "\n"); lines != 2 {
				t.Errorf("%d lines, want one for the beginning and one for the end:\n%s", lines, &log)
			}
		})
	})

	t.Run("TheTimeToTheCommitIsObserved", func(t *testing.T) {
		t.Parallel()
		w := newWorker(t, changed, silent)
		ahead := message(0)
		ahead.EntryID = feed.IDAt(time.Now().Add(time.Hour)).EntryID()
		past := message(0)
		past.EntryID = feed.IDAt(time.Now().Add(-8 * time.Second)).EntryID()
		w.Step(t.Context(), []consumer.Message{ahead, past})
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(w)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[float64]uint64)
		for _, family := range families {
			if family.GetName() == "feedrenderer_render_commit_seconds" {
				for _, bucket := range family.GetMetric()[0].GetHistogram().GetBucket() {
					got[bucket.GetUpperBound()] = bucket.GetCumulativeCount()
				}
			}
		}
		if got[.002] != 1 || got[5] != 1 || got[10] != 2 {
			t.Errorf("got %v", got)
		}
		if problems, err := testutil.CollectAndLint(w); err != nil || len(problems) > 0 {
			t.Error(problems, err)
		}
	})
}

// What is ours of a batch: decoding and rendering, without the servers.
func BenchmarkStepWithoutServers(b *testing.B) {
	kinds, err := LoadKinds("")
	if err != nil {
		b.Fatal(err)
	}
	w := NewWorker(WorkerConfig{Kinds: kinds, Timeline: applied(changed), Doorbell: rung(silent)})
	batch := make([]consumer.Message, 500)
	for i := range batch {
		batch[i] = message(i, "id", (eventID + feed.ID(i)).String(), "kind", "scored", "player", "ann", "pct", "87", "eff", "522", "guess", "GES0SUoNEEXNia")
	}
	b.ReportAllocs()
	for b.Loop() {
		w.Step(b.Context(), batch)
	}
	b.ReportMetric(float64(b.N*len(batch))/b.Elapsed().Seconds(), "entries/s")
}
