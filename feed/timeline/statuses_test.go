package timeline

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codemojex/feedrenderer/feed"
)

func TestStatusesAreInTheOrderOfTheKeys(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	settled, open := feed.GameKey{Tenant: "acme", Game: "g1"}, feed.GameKey{Tenant: "globex", Game: "g1"}
	for key, status := range map[feed.GameKey]feed.Status{settled: feed.StatusSettled, open: feed.StatusOpen} {
		s.apply(t, feed.Line{Game: key, Event: 7, Evt: 7, KindVersion: 1, Sets: map[feed.Register]string{feed.RegisterStatus: string(status)}})
	}
	got, err := s.Statuses(t.Context(), []feed.GameKey{open, {Tenant: "acme", Game: "none"}, settled, open})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]feed.Status{feed.StatusOpen, feed.StatusUnknown, feed.StatusSettled, feed.StatusOpen}, got); diff != "" {
		t.Error(diff)
	}
	if none, err := s.Statuses(t.Context(), nil); err != nil || len(none) != 0 {
		t.Errorf("of no games: %v, %v", none, err)
	}
}
