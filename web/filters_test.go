package web

import (
	"net/url"
	"testing"
	"time"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
)

// TestTimelineFilters asks the table through every parameter of a timeline, alone and together.
func TestTimelineFilters(t *testing.T) {
	t.Parallel()
	key := feed.GameKey{Tenant: "filters", Game: "g1"}
	r := newReal(t, serverstest.Database(t), serverstest.Valkey(t), key.Tenant)
	s := r.serve()
	begun := feed.Epoch.Add(time.Hour)
	at := func(n int) feed.ID { return feed.IDAt(begun.Add(time.Duration(n) * time.Second)) }
	said := func(n int, player, word string) feed.Line {
		line := notice(key, at(n), "{player}: {word}")
		line.Base.Kind, line.Base.Actor, line.Base.Show = "said", "player", []string{"player", "word"}
		line.Base.Fields = map[string]string{"player": player, "word": word, "hidden": "apple"}
		return line
	}
	r.must(opened(key, at(0), feed.ModeClassic), said(1, "ann", "apple"), said(2, "bob", "pear"), said(3, "ann", "plum"), notice(key, at(4), "apple"))
	r.must(amend(key, at(5), at(3), feed.Amendment{Text: "an Apple after all"}))
	moment := func(n int) string {
		return url.QueryEscape(begun.Add(time.Duration(n) * time.Second).Format("2006-01-02T15:04:05.000Z07:00"))
	}
	for query, want := range map[string][]string{
		"":                                       {"apple", "an Apple after all", "bob: pear", "ann: apple", "opened"},
		"limit=2":                                {"apple", "an Apple after all"},
		"before=" + at(2).String():               {"ann: apple", "opened"},
		"after=" + at(1).String() + "&limit=2":   {"an Apple after all", "bob: pear"}, // the nearest above
		"kind=said":                              {"an Apple after all", "bob: pear", "ann: apple"},
		"actor=ann":                              {"an Apple after all", "ann: apple"},
		"q=apple":                                {"an Apple after all", "ann: apple"}, // no field that is not shown, no wording of a pattern
		"q=PEAR":                                 {"bob: pear"},
		"from=" + moment(3):                      {"apple", "an Apple after all"},
		"to=" + moment(1):                        {"ann: apple", "opened"},
		"from=" + moment(1) + "&to=" + moment(2): {"bob: pear", "ann: apple"},
		"kind=said&actor=ann&q=apple&before=" + at(3).String(): {"ann: apple"},
		"kind=none": {},
	} {
		_, body := s.get(t, "/v1/tenants/filters/games/g1/timeline?"+query)
		got := []string{}
		for _, line := range decodePage(t, body).Lines {
			got = append(got, line.Text)
		}
		t.Run("By/"+query, func(t *testing.T) { equal(t, got, want) })
	}
}
