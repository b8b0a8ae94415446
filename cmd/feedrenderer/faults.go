package main

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/web"
)

// faults collects what is wrong with the configuration, so that all of it is said at once. The functions below read one
// text each, and give a zero value where they added a fault.
type faults struct {
	found []string
	bare  map[string]bool // flags without a variable
}

// faultsError is a configuration that was refused before anything was opened.
type faultsError struct{ Faults []string }

func (e *faultsError) Error() string {
	if len(e.Faults) == 1 {
		return e.Faults[0]
	}
	return fmt.Sprintf("%d faults:\n  %s", len(e.Faults), strings.Join(e.Faults, "\n  "))
}

func (f *faults) add(fault string) { f.found = append(f.found, fault) }

// flag adds a fault of a flag's text: what is wrong, and what is allowed.
func (f *faults) flag(name, format string, args ...any) {
	if f.bare[name] {
		f.add("--" + name + ": " + fmt.Sprintf(format, args...))
		return
	}
	f.add(fmt.Sprintf("--%s ($%s): ", name, variable(name)) + fmt.Sprintf(format, args...))
}

func (f *faults) err() error {
	if len(f.found) == 0 {
		return nil
	}
	return &faultsError{f.found}
}

func duration(f *faults, flag, text string, least, most time.Duration) time.Duration {
	d, err := time.ParseDuration(text)
	_, bare := strconv.ParseFloat(text, 64)
	switch {
	case err != nil && bare == nil:
		f.flag(flag, "%q has no unit; want a duration from %v to %v, such as %v", text, least, most, least)
	case err != nil:
		f.flag(flag, "%q is no duration; want one from %v to %v, such as %v", text, least, most, least)
	case d < least || d > most:
		f.flag(flag, "%s is out of range; want a duration from %v to %v", text, least, most)
	default:
		return d
	}
	return 0
}

func integer(f *faults, flag, text string, least, most int) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		f.flag(flag, "%q; want a whole number from %d to %d", text, least, most)
		return 0
	}
	return n
}

func number(f *faults, flag, text string, least, most float64) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= least && n <= most) {
		f.flag(flag, "%q; want a number from %v to %v", text, least, most)
		return 0
	}
	return n
}

func choice[T any](f *faults, flag, text string, choices map[string]T) T {
	chosen, ok := choices[text]
	if !ok {
		f.flag(flag, "%q; want one of %s", text, strings.Join(slices.Sorted(maps.Keys(choices)), ", "))
	}
	return chosen
}

// list reads a,b,c: spaces around a name are dropped, a name twice is a fault.
func list[T cmp.Ordered](f *faults, flag, text string, read func(string) (T, error)) []T {
	if text == "" {
		return nil
	}
	var out []T
	for _, part := range strings.Split(text, ",") {
		item, err := read(strings.TrimSpace(part))
		if err != nil {
			f.flag(flag, "%v", err)
		} else if slices.Contains(out, item) {
			f.flag(flag, "%v stands there twice", item)
		} else {
			out = append(out, item)
		}
	}
	return out
}

func tenantList(f *faults, flag, text string) []feed.TenantID {
	return list(f, flag, text, func(name string) (feed.TenantID, error) {
		tenant, err := feed.ParseTenantID(name)
		if err == nil && web.Reserved(tenant) {
			err = fmt.Errorf("%s: /%[1]s is an address of ours, so that its games would have no pages", tenant)
		}
		return tenant, err
	})
}

// originList reads origins as browsers say them: scheme and host, and a port unless it is the scheme's own.
func originList(f *faults, flag, text string) []string {
	return list(f, flag, text, func(origin string) (string, error) {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || origin != u.Scheme+"://"+u.Host {
			return "", fmt.Errorf("%q is no origin; want scheme and host as in https://feeds.example", origin)
		}
		return origin, nil
	})
}

// prefixList reads addresses and networks. A network with bits below its mask is a mistake rather than a wider network.
func prefixList(f *faults, flag, text string) []netip.Prefix {
	texts := list(f, flag, text, func(text string) (string, error) {
		prefix, err := netip.ParsePrefix(text)
		if address, bare := netip.ParseAddr(text); bare == nil {
			prefix, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		if err != nil || prefix.Masked() != prefix {
			return "", fmt.Errorf("%q; want an address or a network such as 10.0.0.7 or 10.1.0.0/16", text)
		}
		return prefix.String(), nil
	})
	prefixes := make([]netip.Prefix, len(texts))
	for i := range texts {
		prefixes[i] = netip.MustParsePrefix(texts[i])
	}
	return prefixes
}

// masterKey checks a key that no message repeats.
func masterKey(f *faults, flag, text string) {
	if text != "" && (len(text) < 24 || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })) {
		f.flag(flag, "too short or not of visible ASCII characters (not repeated here); want at least 24, such as `openssl rand -hex 24` prints")
	}
}

func gameKey(f *faults, text string) feed.GameKey {
	key, err := feed.ParseGameKey(text)
	if err != nil {
		f.add(err.Error())
	}
	return key
}

// listenAddress reads host:port; port 0 means any free one.
func listenAddress(f *faults, flag, text string) string {
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		f.flag(flag, "%q; want an address such as :8080 or 127.0.0.1:8080", text)
	}
	return text
}

// valkeyURL reads how to reach the streams. The text may hold a password, so that no message repeats it, nor what the
// parser says of it.
func valkeyURL(f *faults, text string) valkey.ClientOption {
	const want = "redis://[user:password@]host:port[/db], rediss:// for TLS, or unix:///path"
	if text == "" {
		f.flag("valkey-url", "missing; want %s", want)
		return valkey.ClientOption{}
	}
	option, err := valkey.ParseURL(text)
	if err != nil {
		f.flag("valkey-url", "cannot be read (not repeated here: it may hold a password); want %s", want)
	}
	return option
}

// databaseURL checks how to reach the database, with the same care.
func databaseURL(f *faults, text string) string {
	const want = "postgres://user:password@host:port/database"
	if text == "" {
		f.flag("database-url", "missing; want %s", want)
	} else if _, err := pgxpool.ParseConfig(text); err != nil {
		f.flag("database-url", "cannot be read (not repeated here: it may hold a password); want %s", want)
	}
	return text
}

// name reads the name of a group or of a consumer, which stand in keys and metrics.
func name(f *faults, flag, text string) {
	if !namePattern.MatchString(text) {
		f.flag(flag, "%q; want up to 64 letters, digits and ._:-", text)
	}
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

// anyPort says whether a listen address leaves the port to the system.
func anyPort(address string) bool { return strings.HasSuffix(address, ":0") }
