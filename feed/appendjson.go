package feed

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// AppendJSON appends the view as [json.Marshal] would write it, at a quarter of the cost: a renderer encodes every line.
func (v *View) AppendJSON(b []byte) []byte {
	b = appendString(append(b, `{"evt":`...), v.Evt.String())
	b = strconv.AppendInt(append(b, `,"ver":`...), v.Ver, 10)
	b = appendString(append(b, `,"kind":`...), v.Kind)
	b = appendInstant(append(b, `,"at":`...), v.At)
	if v.Actor != "" {
		b = appendString(append(b, `,"actor":`...), v.Actor)
	}
	b = appendString(append(b, `,"text":`...), v.Text)
	b = appendTexts(append(b, `,"fields":`...), v.Fields)
	b = appendString(append(b, `,"icon":`...), v.Icon)
	b = appendString(append(b, `,"tone":`...), string(v.Tone))
	if v.Score {
		b = append(b, `,"score":true`...)
	}
	b = appendString(append(b, `,"state":`...), string(v.State))
	if v.Reason != "" {
		b = appendString(append(b, `,"reason":`...), v.Reason)
	}
	if v.AmendedAt != nil {
		b = appendInstant(append(b, `,"amended_at":`...), *v.AmendedAt)
	}
	return append(b, '}')
}

// AppendJSON likewise.
func (base *Base) AppendJSON(b []byte) []byte {
	b = appendString(append(b, `{"kind":`...), base.Kind)
	b = appendString(append(b, `,"text":`...), base.Text)
	for _, optional := range [...]struct{ name, value string }{
		{`,"icon":`, base.Icon}, {`,"tone":`, string(base.Tone)}, {`,"actor":`, base.Actor},
	} {
		if optional.value != "" {
			b = appendString(append(b, optional.name...), optional.value)
		}
	}
	if len(base.Show) > 0 {
		b = appendList(append(b, `,"show":`...), base.Show)
	}
	if len(base.Only) > 0 {
		b = append(b, `,"only":{`...)
		for i, mode := range slices.Sorted(maps.Keys(base.Only)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, string(mode)), ':')
			b = appendList(b, base.Only[mode])
		}
		b = append(b, '}')
	}
	if len(base.Fields) > 0 {
		b = appendTexts(append(b, `,"fields":`...), base.Fields)
	}
	if len(base.Score) > 0 {
		b = append(b, `,"score":[`...)
		for i, term := range base.Score {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(append(b, `{"field":`...), term.Field)
			b = appendNumber(append(b, `,"factor":`...), term.Factor)
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	b = appendString(append(b, `,"visibility":`...), string(base.Visibility))
	return append(b, '}')
}

func appendList(b []byte, list []string) []byte {
	if list == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, s)
	}
	return append(b, ']')
}

// appendNumber writes a finite number.
func appendNumber(b []byte, n float64) []byte {
	if whole := int64(n); float64(whole) == n && whole > -1e15 && whole < 1e15 && whole != 0 {
		return strconv.AppendInt(b, whole, 10)
	}
	return appendEscaped(b, n)
}

func appendInstant(b []byte, at Instant) []byte {
	b = time.Time(at).UTC().AppendFormat(append(b, '"'), instantLayout)
	return append(b, '"')
}

func appendTexts(b []byte, texts map[string]string) []byte {
	if texts == nil {
		return append(b, "null"...)
	}
	b = append(b, '{')
	var few [16]string // on the stack, where they fit
	names := few[:0]
	for name := range texts {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, name), ':')
		b = appendString(b, texts[name])
	}
	return append(b, '}')
}

// appendString quotes a text. What has to be escaped, in JSON or in a page that holds it, is left to the library.
func appendString(b []byte, s string) []byte {
	wide := false
	for i := range len(s) {
		switch c := s[i]; {
		case c >= utf8.RuneSelf:
			wide = true
		case c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&':
			return appendEscaped(b, s)
		}
	}
	if wide && (!utf8.ValidString(s) || strings.ContainsAny(s, "\u2028\u2029")) {
		return appendEscaped(b, s)
	}
	b = append(append(b, '"'), s...)
	return append(b, '"')
}

func appendEscaped[T string | float64](b []byte, value T) []byte {
	written, err := json.Marshal(value)
	if err != nil {
		panic(err) // no string fails, nor does a finite number
	}
	return append(b, written...)
}
