package web

import (
	"encoding/json"
	"testing"

	"github.com/codemojex/feedrenderer/feed"
)

// FuzzClientFrame: whatever a client sends is a frame or an error fit to be said, never a panic.
func FuzzClientFrame(f *testing.F) {
	for _, seed := range []string{
		`{"t":"sub","g":"g1"}`, `{"t":"sub","g":"g1","since":"e1:5","limit":500}`, `{"t":"unsub","g":"g1"}`, `{"t":"ping"}`, `{"t":"operate"}`, `{"t":"auth","token":"x"}`,
		`{"t":"sub","g":"\u0000","limit":1e9}`, `{"T":"sub"}`, `[]`, `null`, `"`, ``, "\xff", `{"t":"sub","since":"` + "\xc3\x28" + `"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in, err := parseClientFrame(data)
		if err == nil && in.T == "sub" && (in.Limit < 1 || in.Limit > maxLimit) {
			t.Errorf("limit %d", in.Limit)
		}
		said := "none"
		if err != nil {
			said = err.Error()
		}
		out := errorFrame(errFrame, said, feed.GameID(shorten(in.Game)))
		if !json.Valid(out.bytes) || len(out.bytes) > 4<<10 {
			t.Errorf("answered by %d bytes: %s", len(out.bytes), out.bytes)
		}
		if _, err := feed.ParseCursor(in.Since); err == nil && in.Since == "" {
			t.Error("an empty cursor was read")
		}
	})
}
