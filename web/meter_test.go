package web

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/broadcast"
	"github.com/codemojex/feedrenderer/feed/timeline"
)

// How long a commit takes to a socket is measured from its doorbell, whatever way its lines come.
func TestDeliveryIsMeasuredFromTheDoorbell(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	meter, err := newMeter(registry)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	ago := func(seconds int) time.Time { return now.Add(-time.Duration(seconds) * time.Second) }
	ring := func(from, to int64, bare bool, at time.Time) broadcast.Message {
		m := broadcast.Message{Game: acme, Epoch: "e", From: from, To: to, Bare: bare, At: at}
		if !bare {
			m.Lines = encodeViews([]feed.View{{Evt: evt(int(to)), Ver: to}})
		}
		return m
	}
	for name, c := range map[string]struct {
		move func(h *hub)
		want time.Time
	}{
		"OfAMessage":                     {func(h *hub) { h.Rang(ring(0, 1, false, ago(2))) }, ago(2)},
		"OfTheFirstOfThoseThatWaited":    {func(h *hub) { h.Rang(ring(0, 1, false, ago(3))); h.Rang(ring(1, 2, false, ago(1))) }, ago(3)},
		"OfOneThatWaitedForAGapToClose":  {func(h *hub) { h.Rang(ring(1, 2, false, ago(1))); h.Rang(ring(0, 1, false, ago(2))) }, ago(2)},
		"OfOneWhoseLinesTheTableGave":    {func(h *hub) { h.Rang(ring(0, 1, true, ago(4))); absorb(h, 1) }, ago(4)},
		"NotOfWhatWasFoundByALookAlone":  {func(h *hub) { absorb(h, 1) }, time.Time{}},
		"NotOfAnOlderPublisherSMessages": {func(h *hub) { h.Rang(ring(0, 1, false, time.Time{})) }, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWatcher(acme.Tenant, 1<<20)
			h := &hub{
				key: acme, times: Times{Park: time.Minute, Header: time.Minute}, log: slog.New(slog.DiscardHandler), meter: meter,
				wake: make(chan struct{}, 1), live: map[*sub]struct{}{}, waiting: map[*sub]struct{}{},
			}
			h.recent.open("e", 0)
			s := &sub{hub: h, watcher: w}
			w.subs[acme.Game] = s
			h.live[s] = struct{}{}
			c.move(h)
			frames := w.take().frames
			if len(frames) != 1 || !frames[0].rung.Equal(c.want) {
				t.Fatalf("%d frames, the first rung %v, want %v", len(frames), frames[0].rung, c.want)
			}
		})
	}

	meter.delivered("acme", []frame{{rung: ago(5)}, {}, {rung: now.Add(time.Hour)}})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "feedrenderer_web_delivery_seconds" {
			continue
		}
		h := family.GetMetric()[0].GetHistogram()
		if h.GetSampleCount() != 2 || h.GetSampleSum() < 5 || h.GetSampleSum() > 3600 {
			t.Errorf("%d writes of %v seconds, want 2: one of 5, one of none", h.GetSampleCount(), h.GetSampleSum())
		}
		return
	}
	t.Error("no such metric")
}

// absorb has a hub take the table's answer that the game stands at a version.
func absorb(h *hub, to int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	views := []feed.View{{Evt: evt(int(to)), Ver: to}}
	h.absorb(feed.Cursor{Epoch: "e"}, timeline.Changes{Epoch: "e", To: to, Lines: views}, encodeViews(views), h.arrived)
}
