package feed

import (
	"fmt"
	"regexp"
	"strings"
)

// TenantID names a customer: [a-z0-9][a-z0-9-]{0,39}. It is the queue in the keys of the wire.
type TenantID string

// GameID names a game within its tenant: [A-Za-z0-9][A-Za-z0-9_-]{0,63}. Two tenants may use the same one.
type GameID string

var (
	tenantPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)
	gamePattern   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
)

// ParseTenantID checks a tenant's name.
func ParseTenantID(s string) (TenantID, error) {
	if !tenantPattern.MatchString(s) {
		return "", fmt.Errorf("tenant %.80q: want %s", s, tenantPattern)
	}
	return TenantID(s), nil
}

// ParseGameID checks a game's name.
func ParseGameID(s string) (GameID, error) {
	if !gamePattern.MatchString(s) {
		return "", fmt.Errorf("game %.80q: want %s", s, gamePattern)
	}
	return GameID(s), nil
}

// GameKey is a game of a tenant: what every key, channel, cache and index begins with.
type GameKey struct {
	Tenant TenantID
	Game   GameID
}

// ParseGameKey reads TENANT/GAME.
func ParseGameKey(s string) (GameKey, error) {
	t, g, ok := strings.Cut(s, "/")
	if !ok {
		return GameKey{}, fmt.Errorf("game %.80q: want TENANT/GAME", s)
	}
	tenant, err := ParseTenantID(t)
	if err != nil {
		return GameKey{}, err
	}
	game, err := ParseGameID(g)
	return GameKey{tenant, game}, err
}

// String is TENANT/GAME.
func (k GameKey) String() string { return string(k.Tenant) + "/" + string(k.Game) }

// Compare orders by tenant, then game, byte by byte: the order in which locks are taken.
func (k GameKey) Compare(o GameKey) int {
	if c := strings.Compare(string(k.Tenant), string(o.Tenant)); c != 0 {
		return c
	}
	return strings.Compare(string(k.Game), string(o.Game))
}

// Stream is the key of the game's events: emq:{tenant}:stream:game. The braces are the hash tag of a cluster.
func (k GameKey) Stream() string { return "emq:{" + string(k.Tenant) + "}:stream:" + string(k.Game) }

// DeadLetters is the key of the stream of the game's dead letters: emq:{tenant}:dead:game.
func (k GameKey) DeadLetters() string {
	return "emq:{" + string(k.Tenant) + "}:dead:" + string(k.Game)
}

// RetryStream is the key to which a tenant's dead letters return: emq:{tenant}:retry.
func (t TenantID) RetryStream() string { return "emq:{" + string(t) + "}:retry" }

// StreamPattern matches every game stream of every tenant in a SCAN, and more: check each with [ParseStream].
const StreamPattern = "emq:{*}:stream:*"

// ParseStream reads the key of a game's stream. A key that is not one of ours to read is an error: bad names, and the
// reserved suffix :archived, which is a string beside the stream and not a game.
func ParseStream(key string) (GameKey, error) {
	tenant, game, ok := cutKey(key, "}:stream:")
	if !ok {
		return GameKey{}, fmt.Errorf("key %.120q is not emq:{tenant}:stream:game", key)
	}
	k, err := ParseGameKey(tenant + "/" + game)
	if err != nil {
		return GameKey{}, fmt.Errorf("key %.120q: %w", key, err)
	}
	return k, nil
}

// ParseRetryStream reads the key of a tenant's retry stream.
func ParseRetryStream(key string) (TenantID, bool) {
	tenant, rest, ok := cutKey(key, "}:retry")
	if !ok || rest != "" {
		return "", false
	}
	t, err := ParseTenantID(tenant)
	return t, err == nil
}

// ParseDeadLetters reads the key of the dead letters of a game.
func ParseDeadLetters(key string) (GameKey, bool) {
	tenant, game, ok := cutKey(key, "}:dead:")
	if !ok {
		return GameKey{}, false
	}
	k, err := ParseGameKey(tenant + "/" + game)
	return k, err == nil
}

func cutKey(key, after string) (tenant, rest string, ok bool) {
	key, ok = strings.CutPrefix(key, "emq:{")
	if !ok {
		return "", "", false
	}
	return strings.Cut(key, after)
}
