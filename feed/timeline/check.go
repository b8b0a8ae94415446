package timeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/codemojex/feedrenderer/feed"
)

// encoded is a line that passed the checks, with its register as it is stored.
type encoded struct {
	base, amendment string // JSON, "" where the line has none
	bytes           int    // about what it takes in a statement
}

// maxLineBytes keeps a line well below the 256 MB that a text in JSON may have in Postgres, and the 1 GB of a message.
const maxLineBytes = 64 << 20

// Bounds within which a number of points times its factor neither overflows nor vanishes, which Postgres takes for an
// error and not for infinity or 0.
const (
	maxFactor = 1e100
	minFactor = 1e-100
)

// encode refuses what Postgres would refuse, so that a bad line costs that line. The order matters: JSON would make of
// a NUL and of invalid UTF-8 something that looks like text.
func encode(line *feed.Line) (encoded, error) {
	var out encoded
	if line.KindVersion < 0 || line.KindVersion > math.MaxInt32 {
		return out, fmt.Errorf("kind version %d: want 0 .. %d", line.KindVersion, math.MaxInt32)
	}
	if line.Event < 0 || line.Evt < 0 {
		return out, errors.New("an EVT id is below 0")
	}
	if line.Base != nil && line.Amendment != nil {
		return out, errors.New("a line writes a base or an amendment, not both")
	}
	for register, value := range line.Sets {
		if err := checkText("header "+string(register), value); err != nil {
			return out, err
		}
	}
	var err error
	if line.Base != nil {
		out.base, err = encodeBase(line.Base)
	} else if line.Amendment != nil {
		out.amendment, err = encodeAmendment(line.Amendment)
	}
	out.bytes = len(out.base) + len(out.amendment) + len(line.Raw)
	if err == nil && out.bytes > maxLineBytes {
		err = fmt.Errorf("a line of %d bytes: at most %d are stored", out.bytes, maxLineBytes)
	}
	return out, err
}

func encodeBase(base *feed.Base) (string, error) {
	for _, term := range base.Score {
		if f := math.Abs(term.Factor); f != 0 && !(f >= minFactor && f <= maxFactor) {
			return "", fmt.Errorf("score of field %.40q: factor %g is out of range", term.Field, term.Factor)
		}
		if err := checkText("score", term.Field); err != nil {
			return "", err
		}
	}
	for mode, fields := range base.Only {
		if err := checkText("only", append([]string{string(mode)}, fields...)...); err != nil {
			return "", err
		}
	}
	err := errors.Join(
		checkText("kind", base.Kind), checkText("text", base.Text), checkText("icon", base.Icon),
		checkText("tone", string(base.Tone)), checkText("actor", base.Actor), checkText("show", base.Show...),
		checkText("visibility", string(base.Visibility)), checkFields(base.Fields))
	if err != nil {
		return "", err
	}
	return string(base.AppendJSON(make([]byte, 0, 320))), nil
}

func encodeAmendment(amendment *feed.Amendment) (string, error) {
	err := errors.Join(checkText("reason", amendment.Reason), checkText("text", amendment.Text), checkFields(amendment.Fields))
	if err != nil {
		return "", err
	}
	return encodeJSON(amendment)
}

func encodeJSON(register any) (string, error) {
	text, err := json.Marshal(register)
	return string(text), err
}

func checkFields(fields map[string]string) error {
	for name, value := range fields {
		if err := checkText("name of a field", name); err != nil {
			return err
		}
		if fault := textFault(value); fault != "" {
			return fmt.Errorf("field %s: %s", name, fault)
		}
	}
	return nil
}

// checkText refuses what a text of Postgres cannot hold.
func checkText(what string, values ...string) error {
	for _, value := range values {
		if fault := textFault(value); fault != "" {
			return fmt.Errorf("%s: %s", what, fault)
		}
	}
	return nil
}

func textFault(value string) string {
	switch {
	case strings.IndexByte(value, 0) >= 0:
		return "holds a NUL byte"
	case !utf8.ValidString(value):
		return "is not valid UTF-8"
	}
	return ""
}
