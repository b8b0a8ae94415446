package tenants

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codemojex/feedrenderer/feed"
)

// Role says what a key is for. None includes another but operate, which includes both.
type Role string

// The roles of keys. A watch token is of role watch.
const (
	Watch   Role = "watch"   // read and follow games, mint watch tokens
	Produce Role = "produce" // append events
	Operate Role = "operate" // all of that, and what operators do
)

// ParseRole checks the name of a role.
func ParseRole(s string) (Role, error) {
	switch role := Role(s); role {
	case Watch, Produce, Operate:
		return role, nil
	}
	return "", fmt.Errorf("role %.40q: want watch, produce or operate", s)
}

// May reports whether a role may do what another is for.
func (r Role) May(do Role) bool { return r == do || r == Operate }

// Key is an API key of a tenant as it is kept: without its secret part.
type Key struct {
	Tenant  feed.TenantID
	ID      string // no secret: it stands in lists and in the key's text
	Role    Role
	Label   string
	Created time.Time
	Expires *time.Time // nil: never
	Revoked *time.Time // nil: not revoked
	hash    []byte     // SHA-256 of the secret part
}

// Live reports whether the key is neither expired nor revoked.
func (k *Key) Live(now time.Time) bool {
	return k.ID != "" && (k.Expires == nil || now.Before(*k.Expires)) && (k.Revoked == nil || now.Before(*k.Revoked))
}

// Opens reports whether a text is this very key's. It takes as long for any text.
func (k *Key) Opens(text KeyText) bool {
	sum := sha256.Sum256([]byte(text.secret))
	return subtle.ConstantTimeCompare(sum[:], k.hash) == 1 && k.Tenant == text.Tenant && k.ID == text.ID
}

// KeyText is a key as its holder has it: frk_<tenant>_<id>_<secret>. The secret has 130 random bits, so that a plain hash
// of it can be kept. It prints without it.
type KeyText struct {
	Tenant feed.TenantID
	ID     string
	secret string
}

// ErrMalformed says that a text is no key and no token.
var ErrMalformed = errors.New("malformed credential")

const (
	keyPrefix   = "frk_"
	keyIDLength = 12
)

var keyPattern = regexp.MustCompile(`^frk_([a-z0-9-]{1,40})_([A-Z2-7]{12})_([A-Z2-7]{26})$`)

// ParseKey reads the text of a key. It does not say whether there is such a key. The error wraps [ErrMalformed] and does
// not repeat the text.
func ParseKey(text string) (KeyText, error) {
	parts := keyPattern.FindStringSubmatch(text)
	if parts == nil {
		return KeyText{}, fmt.Errorf("%w: not a key", ErrMalformed)
	}
	tenant, err := feed.ParseTenantID(parts[1])
	if err != nil {
		return KeyText{}, fmt.Errorf("%w: not a key", ErrMalformed)
	}
	return KeyText{Tenant: tenant, ID: parts[2], secret: parts[3]}, nil
}

var idPattern = regexp.MustCompile(`^[A-Z2-7]{12}$`)

// IsID reports whether a text may be the id of a key or of a secret.
func IsID(text string) bool { return idPattern.MatchString(text) }

// IsKey reports whether a text means to be a key.
func IsKey(text string) bool { return strings.HasPrefix(text, keyPrefix) }

func newKeyText(tenant feed.TenantID) KeyText {
	return KeyText{Tenant: tenant, ID: rand.Text()[:keyIDLength], secret: rand.Text()}
}

// Reveal is the whole text, secret included.
func (t KeyText) Reveal() string {
	return keyPrefix + string(t.Tenant) + "_" + t.ID + "_" + t.secret
}

func (t KeyText) String() string { return keyPrefix + string(t.Tenant) + "_" + t.ID + "_..." }

// GoString keeps the secret out of %#v too.
func (t KeyText) GoString() string { return t.String() }

const keySQL = `
select tenant, id, role, label, created_at, expires_at, revoked_at, hash from api_keys where tenant = $1 and id = $2`

// Key returns a key of a tenant, or an error that wraps [ErrUnknown].
func (s *Store) Key(ctx context.Context, tenant feed.TenantID, id string) (Key, error) {
	var key Key
	err := s.ask(ctx, tenant, keySQL, []any{tenant, id}, func(row pgx.Row) (err error) {
		key, err = scanKey(row)
		return err
	})
	if err != nil {
		return Key{}, fmt.Errorf("look up key %s of %s: %w", id, tenant, err)
	}
	return key, nil
}

func scanKey(row pgx.Row) (key Key, err error) {
	err = row.Scan(&key.Tenant, &key.ID, &key.Role, &key.Label, &key.Created, &key.Expires, &key.Revoked, &key.hash)
	return key, err
}
