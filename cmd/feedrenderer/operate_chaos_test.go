//go:build chaos

package main

import (
	"regexp"
	"testing"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/internal/servers/serverstest"
	"github.com/codemojex/feedrenderer/web/browsertest"
)

// Samples are 15 s apart, so this takes as long.
func TestThePageOfOperatorsDrawsWhatTheRenderersDid(t *testing.T) {
	t.Parallel()
	const tenant = feed.TenantID("drawn")
	s := newSystem(t, serverstest.Valkey(t))
	site := s.serve("web", "--tenants", string(tenant)).ready()
	s.serve("render", "--tenants", string(tenant)).ready()
	stream := feed.GameKey{Tenant: tenant, Game: "g1"}.Stream()
	s.xadd(stream, "kind", "notice", "text", "first")
	page := operators(t, site, tenant, s.run("key", "create", string(tenant), "operate"))
	drawn := regexp.MustCompile(`at most [1-9.]`)
	until(t, "what was settled, and how long it took, is drawn", func() bool {
		s.xadd(stream, "kind", "notice", "text", "one")
		for _, plot := range []string{"settled", "commit"} {
			if label := browsertest.Eval[string](page, `document.querySelector("#plot-`+plot+` svg")?.getAttribute("aria-label") ?? ""`); !drawn.MatchString(label) {
				return false
			}
		}
		return true
	})
	t.Log(browsertest.Eval[string](page, `[...document.querySelectorAll(".plot svg")].map(svg => svg.getAttribute("aria-label")).join(" ")`))
}
