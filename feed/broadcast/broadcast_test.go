package broadcast

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

func TestMain(m *testing.M) { serverstest.Main(m) }

const patience = 20 * time.Second

var acme = feed.GameKey{Tenant: "acme", Game: "g1"}

func dial(t *testing.T, url string, shape func(valkey.ClientOption) valkey.ClientOption) valkey.Client {
	t.Helper()
	option, err := valkey.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client, err := valkey.NewClient(shape(option))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func plain(o valkey.ClientOption) valkey.ClientOption { return o }

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// ear is a listener that keeps what it hears.
type ear struct {
	stands chan struct{}
	rung   chan Message
	counts chan Count
}

func newEar() *ear {
	return &ear{make(chan struct{}, 1000), make(chan Message, 1000), make(chan Count, 1000)}
}

func (e *ear) Subscribed()     { e.stands <- struct{}{} }
func (e *ear) Rang(m Message)  { e.rung <- m }
func (e *ear) Counted(c Count) { e.counts <- c }

func hear[T any](t *testing.T, from chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(patience):
		t.Fatal("nothing is heard")
		panic("unreachable")
	}
}

// follow listens until the test ends.
func follow(t *testing.T, s *Subscriber, game feed.GameKey) *ear {
	t.Helper()
	e := newEar()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { s.Follow(ctx, game, e) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	hear(t, e.stands)
	return e
}

func change(game feed.GameKey, from, to int64, lines ...feed.ChangedLine) feed.Change {
	return feed.Change{Game: game, Epoch: "e1", From: from, To: to, Released: true, Mode: feed.ModeClassic, Lines: lines}
}

func changed(evt feed.ID, ver int64, text string, visibility feed.Visibility) feed.ChangedLine {
	return feed.ChangedLine{Evt: evt, Ver: ver, Base: &feed.Base{Kind: "notice", Text: text, Visibility: visibility}}
}

func TestDoorbell(t *testing.T) {
	t.Parallel()
	url := serverstest.Valkey(t)
	// Games of this test alone: the server is shared.
	key := func(game feed.GameID) feed.GameKey { return feed.GameKey{Tenant: "broadcast", Game: game} }

	t.Run("AChangeIsHeardWithTheLinesThatMayBeSeen", func(t *testing.T) {
		t.Parallel()
		game := key("heard")
		publisher := NewPublisher(dial(t, url, plain))
		e := follow(t, NewSubscriber(dial(t, url, SubscriberOption), quiet), game)
		hidden := change(game, 2, 5, changed(7, 3, "public", feed.Public), changed(8, 4, "secret", feed.Score))
		hidden.Released = false
		err := publisher.Publish(t.Context(), []feed.Change{
			change(game, 0, 2, changed(6, 1, "one", feed.Public), changed(5, 2, "late", feed.Score)), hidden, change(game, 5, 5),
		})
		if err != nil {
			t.Fatal(err)
		}
		first := hear(t, e.rung)
		if first.From != 0 || first.To != 2 || first.Epoch != "e1" || first.Game != game || first.Bare || len(first.Lines) != 2 {
			t.Errorf("heard %+v", first)
		}
		var view feed.View
		if err := json.Unmarshal(first.Lines[1].JSON, &view); err != nil || view.Text != "late" || view.Ver != 2 || view.Evt != 5 {
			t.Errorf("heard %s, %v", first.Lines[1].JSON, err)
		}
		second := hear(t, e.rung)
		if len(second.Lines) != 1 || second.Lines[0].Ver != 3 || second.To != 5 || strings.Contains(string(second.Lines[0].JSON), "secret") {
			t.Errorf("heard %+v", second)
		}
		if third := hear(t, e.rung); third.From != 5 || third.To != 5 || third.Bare || len(third.Lines) != 0 {
			t.Errorf("heard %+v", third)
		}
	})

	t.Run("ListenersInThePublishersProcessHearAtOnceAndOnce", func(t *testing.T) {
		t.Parallel()
		game := key("near")
		near, far := NewSubscriber(dial(t, url, SubscriberOption), quiet), NewSubscriber(dial(t, url, SubscriberOption), quiet)
		here, there := follow(t, near, game), follow(t, far, game)
		publisher := NewPublisher(dial(t, url, plain)).Near(near)
		if err := publisher.Publish(t.Context(), []feed.Change{change(game, 0, 1, changed(6, 1, "one", feed.Public)), change(game, 1, 2)}); err != nil {
			t.Fatal(err)
		}
		if len(here.rung) != 2 {
			t.Errorf("%d of 2 messages heard by the time they are published", len(here.rung))
		}
		if err := far.Tell(t.Context(), []Count{{Game: game, Watchers: 1}}); err != nil { // behind the messages, on the same channel
			t.Fatal(err)
		}
		hear(t, here.counts)
		for range 2 {
			if diff := cmp.Diff(hear(t, here.rung), hear(t, there.rung), cmpopts.EquateApproxTime(time.Millisecond)); diff != "" {
				t.Errorf("-here +there\n%s", diff)
			}
		}
		if len(here.rung) != 0 {
			t.Error("a message is heard twice")
		}
	})

	t.Run("WhereNobodyElseListensNothingIsPublishedForAWhile", func(t *testing.T) {
		t.Parallel()
		now := 30 * time.Millisecond
		near := NewSubscriber(dial(t, url, SubscriberOption), quiet)
		for name, publisher := range map[string]*Publisher{"far": NewPublisher(dial(t, url, plain)), "near": NewPublisher(dial(t, url, plain)).Near(near)} {
			publisher.clock = func() time.Duration { return now }
			game := key(feed.GameID("unheard-" + name))
			publish := func(from, to int64) {
				t.Helper()
				if err := publisher.Publish(t.Context(), []feed.Change{change(game, from, to)}); err != nil {
					t.Fatal(err)
				}
			}
			var here *ear
			if name == "near" {
				here = follow(t, near, game)
			}
			publish(0, 1)
			there := follow(t, NewSubscriber(dial(t, url, SubscriberOption), quiet), game)
			now += askAgain / 2
			publish(1, 2) // it is not known yet that somebody came
			now += askAgain / 2
			publish(2, 3)
			publish(3, 4)
			publish(4, 5)
			for to := int64(3); to <= 5; to++ {
				if got := hear(t, there.rung); got.From != to-1 || got.To != to {
					t.Errorf("%s: heard %d..%d, want the message up to %d", name, got.From, got.To, to)
				}
			}
			if here != nil && len(here.rung) != 5 {
				t.Errorf("the publisher's process heard %d of 5 messages", len(here.rung))
			}
		}
	})

	t.Run("AChangeOfManyLinesRingsBare", func(t *testing.T) {
		t.Parallel()
		game := key("bare")
		e := follow(t, NewSubscriber(dial(t, url, SubscriberOption), quiet), game)
		if err := NewPublisher(dial(t, url, plain)).Publish(t.Context(), []feed.Change{
			change(game, 0, 1, changed(1, 1, strings.Repeat("x", InlineBytes), feed.Public)),
		}); err != nil {
			t.Fatal(err)
		}
		if got := hear(t, e.rung); !got.Bare || got.To != 1 || len(got.Lines) != 0 {
			t.Errorf("heard %+v", got)
		}
	})

	t.Run("TwoTenantsWithTheSameGameDoNotHearEachOther", func(t *testing.T) {
		t.Parallel()
		ours, theirs := feed.GameKey{Tenant: "broadcast-a", Game: "g1"}, feed.GameKey{Tenant: "broadcast-b", Game: "g1"}
		s := NewSubscriber(dial(t, url, SubscriberOption), quiet)
		a, b := follow(t, s, ours), follow(t, s, theirs)
		if err := NewPublisher(dial(t, url, plain)).Publish(t.Context(), []feed.Change{change(ours, 0, 1), change(theirs, 0, 2)}); err != nil {
			t.Fatal(err)
		}
		if got := hear(t, a.rung); got.To != 1 || got.Game != ours || len(a.rung) != 0 {
			t.Errorf("a heard %+v", got)
		}
		if got := hear(t, b.rung); got.To != 2 || got.Game != theirs || len(b.rung) != 0 {
			t.Errorf("b heard %+v", got)
		}
	})

	t.Run("OtherProcessesAreCountedAndOursIsNot", func(t *testing.T) {
		t.Parallel()
		game := key("counts")
		ours, theirs := NewSubscriber(dial(t, url, SubscriberOption), quiet), NewSubscriber(dial(t, url, SubscriberOption), quiet)
		e := follow(t, ours, game)
		if err := ours.Tell(t.Context(), []Count{{Game: game, Watchers: 3}}); err != nil {
			t.Fatal(err)
		}
		if err := theirs.Tell(t.Context(), []Count{{Game: game, Watchers: 41}}); err != nil {
			t.Fatal(err)
		}
		if got := hear(t, e.counts); got.Watchers != 41 || got.Process == "" || got.Game != game {
			t.Errorf("heard %+v", got)
		}
	})

	t.Run("WhatIsNotUnderstoodIsCountedAndTheNextIsHeard", func(t *testing.T) {
		t.Parallel()
		game := key("noise")
		client := dial(t, url, plain)
		s := NewSubscriber(dial(t, url, SubscriberOption), quiet)
		e := follow(t, s, game)
		if err := client.Do(t.Context(), client.B().Spublish().Channel(channel(game)).Message("noise").Build()).Error(); err != nil {
			t.Fatal(err)
		}
		if err := NewPublisher(client).Publish(t.Context(), []feed.Change{change(game, 0, 1)}); err != nil {
			t.Fatal(err)
		}
		if got := hear(t, e.rung); got.To != 1 || s.Undecodable() != 1 {
			t.Errorf("heard %+v, counted %d", got, s.Undecodable())
		}
	})

	t.Run("OneConnectionCarriesAllGamesAndLetsGoOfThemOneByOne", func(t *testing.T) {
		t.Parallel()
		server := serverstest.OwnValkey(t)
		client := dial(t, server.URL, plain)
		s := NewSubscriber(dial(t, server.URL, SubscriberOption), quiet)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for _, name := range []feed.GameID{"a", "b", "c"} {
			e := newEar()
			running.Go(func() { s.Follow(ctx, key(name), e) })
			hear(t, e.stands)
		}
		e := follow(t, s, key("d"))
		list, err := client.Do(t.Context(), client.B().ClientList().Build()).ToString()
		if err != nil || strings.Count(list, "ssub=4") != 1 {
			t.Errorf("connections, %v:\n%s", err, list)
		}
		cancel()
		running.Wait()
		list, err = client.Do(t.Context(), client.B().ClientList().Build()).ToString()
		if err != nil || strings.Count(list, "ssub=1") != 1 {
			t.Errorf("connections, %v:\n%s", err, list)
		}
		if err := NewPublisher(client).Publish(t.Context(), []feed.Change{change(key("d"), 0, 1)}); err != nil {
			t.Fatal(err)
		}
		hear(t, e.rung)
	})

	t.Run("AfterTheServerReturnsTheListenerIsToldAndHearsAgain", func(t *testing.T) {
		t.Parallel()
		server := serverstest.OwnValkey(t)
		client := dial(t, server.URL, plain)
		e := follow(t, NewSubscriber(dial(t, server.URL, SubscriberOption), quiet), acme)
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		hear(t, e.stands)
		t.Logf("subscribed %v after the server's return", time.Since(start))
		for NewPublisher(client).Publish(t.Context(), []feed.Change{change(acme, 0, 1)}) != nil { // its connection broke too
			if time.Since(start) > patience {
				t.Fatal("nothing can be published")
			}
		}
		hear(t, e.rung)
	})

	t.Run("AKilledConnectionIsReplaced", func(t *testing.T) {
		t.Parallel()
		server := serverstest.OwnValkey(t)
		client := dial(t, server.URL, plain)
		e := follow(t, NewSubscriber(dial(t, server.URL, SubscriberOption), quiet), acme)
		for range 3 {
			if err := client.Do(t.Context(), client.B().Arbitrary("CLIENT", "KILL", "TYPE", "pubsub").Build()).Error(); err != nil {
				t.Fatal(err)
			}
			hear(t, e.stands)
		}
	})

	t.Run("APublisherWithoutAServerSaysSo", func(t *testing.T) {
		t.Parallel()
		server := serverstest.OwnValkey(t)
		publisher := NewPublisher(dial(t, server.URL, plain))
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := publisher.Publish(ctx, []feed.Change{change(acme, 0, 1), change(acme, 1, 2)}); err == nil {
			t.Error("published into nothing")
		}
	})
}

func TestDecode(t *testing.T) {
	t.Parallel()
	const head = `{"tenant":"acme","game":"g1",`
	for name, data := range map[string]string{
		"NoJSON":         `{`,
		"AnotherGame":    `{"tenant":"acme","game":"g2","epoch":"e","from":1,"to":2}`,
		"AnotherTenant":  `{"tenant":"globex","game":"g1","epoch":"e","from":1,"to":2}`,
		"Backwards":      head + `"epoch":"e","from":2,"to":1}`,
		"Negative":       head + `"epoch":"e","from":-1,"to":1}`,
		"NoEpoch":        head + `"from":1,"to":2}`,
		"BadEpoch":       head + `"epoch":"<script>","from":1,"to":2}`,
		"LinesUnordered": head + `"epoch":"e","from":1,"to":3,"lines":[{"evt":"EVT00000000001","ver":3},{"evt":"EVT00000000002","ver":2}]}`,
		"LineTwice":      head + `"epoch":"e","from":1,"to":3,"lines":[{"evt":"EVT00000000001","ver":2},{"evt":"EVT00000000001","ver":2}]}`,
		"LineOutOfRange": head + `"epoch":"e","from":1,"to":3,"lines":[{"evt":"EVT00000000001","ver":4}]}`,
		"LineWithoutID":  head + `"epoch":"e","from":1,"to":3,"lines":[{"evt":"GAM00000000001","ver":2}]}`,
		"LineNoObject":   head + `"epoch":"e","from":1,"to":3,"lines":[7]}`,
		"NegativeCount":  head + `"process":"p","n":-1}`,
		"LineBreaks":     head + `"epoch":"e","from":1,"to":3,"lines":[{"evt":"EVT00000000001",` + "\n" + `"ver":2}]}`,
		"TooLarge":       head + `"epoch":"` + strings.Repeat("e", maxMessageBytes) + `","from":1,"to":2}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if m, c, err := decode(acme, []byte(data)); err == nil {
				t.Errorf("read as %+v, %+v", m, c)
			}
		})
	}
	t.Run("WhatIsEncodedIsDecoded", func(t *testing.T) {
		t.Parallel()
		in := change(acme, 1, 4, changed(3, 2, "a", feed.Public), changed(2, 4, "b\n<c>", feed.Public))
		at := time.UnixMilli(1_796_052_639_694)
		told, data := encode(&in, at, openOf("p1"))
		got, count, err := decode(acme, data)
		if err != nil || count != nil || !got.At.Equal(at) {
			t.Fatal(got.At, err)
		}
		var views []feed.View
		for _, line := range got.Lines {
			var view feed.View
			if err := json.Unmarshal(line.JSON, &view); err != nil {
				t.Fatal(err)
			}
			views = append(views, view)
		}
		if diff := cmp.Diff(in.Views(), views, cmp.Transformer("text", feed.Instant.String)); diff != "" {
			t.Errorf("-said +heard\n%s", diff)
		}
		if diff := cmp.Diff(told, got); diff != "" {
			t.Errorf("-told +heard\n%s", diff)
		}
	})
}

// FuzzDecode: whatever stands on a channel is a message that chains, a count, or an error.
func FuzzDecode(f *testing.F) {
	in := change(acme, 1, 4, changed(3, 2, "a", feed.Public), changed(2, 4, "b", feed.Public))
	_, seed := encode(&in, time.Now(), "{")
	f.Add(seed)
	for _, seed := range []string{`{"tenant":"acme","game":"g1","process":"p","n":3}`, `{"tenant":"acme","game":"g1","epoch":"e","from":1,"to":1}`, `null`, `[]`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, count, err := decode(acme, data)
		if err != nil {
			return
		}
		if count != nil {
			if count.Watchers < 0 || count.Process == "" {
				t.Errorf("count %+v", count)
			}
			return
		}
		above := m.From
		for _, line := range m.Lines {
			if line.Ver <= above || line.Ver > m.To || !json.Valid(line.JSON) || strings.ContainsAny(string(line.JSON), "\r\n") {
				t.Errorf("line %+v in (%d, %d]", line, m.From, m.To)
			}
			above = line.Ver
		}
		if m.From < 0 || m.To < m.From || m.Game != acme || m.Epoch == "" {
			t.Errorf("message %+v", m)
		}
	})
}
