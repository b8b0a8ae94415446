package tenants

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/jackc/pgx/v5"

	"github.com/codemojex/feedrenderer/feed"
)

// Token is what a watch token says: who may watch what until when. It is signed, not secret in itself, but whoever holds
// it may use it.
type Token struct {
	Tenant  feed.TenantID
	Games   []feed.GameID // none: all games of the tenant
	Expires time.Time     // to the second
	Key     string        // id of the key that it was minted with; it falls with that key
}

// MaxTokenLife is the longest that a token is good for, and so how long a secret that is replaced still verifies.
const MaxTokenLife = time.Hour

// MaxTokenGames bounds the games of one token, and with them its length.
const MaxTokenGames = 100

// ErrExpired says that a token was good once.
var ErrExpired = errors.New("expired token")

const tokenAudience = "feedrenderer-watch"

// claims is a token as a JWT. The tenant stands in the claims: the secret to verify them with is found by it.
type claims struct {
	jwt.RegisteredClaims
	Tenant feed.TenantID `json:"tenant"`
	Games  []feed.GameID `json:"games,omitempty"`
	Key    string        `json:"key"`
}

// Secret is what tokens of a tenant are signed with. It prints as its id.
type Secret struct {
	ID      string
	bytes   []byte
	Retires *time.Time // nil: in use
}

func (s Secret) String() string { return s.ID }

// GoString keeps the bytes out of %#v too.
func (s Secret) GoString() string { return s.ID }

// sign makes the text of a token.
func (s Secret) sign(t Token, now time.Time) (string, error) {
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Audience:  jwt.ClaimStrings{tokenAudience},
			IssuedAt:  jwt.NewNumericDate(now),
			ExpiresAt: jwt.NewNumericDate(t.Expires),
		},
		Tenant: t.Tenant, Games: t.Games, Key: t.Key,
	})
	token.Header["kid"] = s.ID
	text, err := token.SignedString(s.bytes)
	if err != nil {
		return "", fmt.Errorf("sign a token of %s: %w", t.Tenant, err)
	}
	return text, nil
}

// ParseToken reads and verifies a token with the secrets that find knows by tenant and id; find wraps [ErrUnknown] where
// there is none. Errors wrap [ErrMalformed], [ErrExpired], or what find failed with; none repeats the text.
func ParseToken(text string, find func(tenant feed.TenantID, id string) (Secret, error)) (Token, error) {
	var c claims
	var storeErr error
	_, err := jwt.ParseWithClaims(text, &c, func(token *jwt.Token) (any, error) {
		id, _ := token.Header["kid"].(string)
		if !IsID(id) {
			return nil, ErrMalformed
		}
		if _, err := feed.ParseTenantID(string(c.Tenant)); err != nil {
			return nil, ErrMalformed
		}
		secret, err := find(c.Tenant, id)
		if err != nil && !errors.Is(err, ErrUnknown) {
			storeErr = err
		}
		if err != nil || secret.ID == "" || secret.Retires != nil && !time.Now().Before(*secret.Retires) {
			return nil, ErrMalformed
		}
		return secret.bytes, nil
	}, jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithAudience(tokenAudience), jwt.WithExpirationRequired())
	switch {
	case storeErr != nil:
		return Token{}, storeErr
	case errors.Is(err, jwt.ErrTokenExpired):
		return Token{}, ErrExpired
	case err != nil: // its text may hold parts of the token
		return Token{}, fmt.Errorf("%w: not a token of ours", ErrMalformed)
	}
	return Token{Tenant: c.Tenant, Games: c.Games, Expires: c.ExpiresAt.Time, Key: c.Key}, nil
}

const secretSQL = `select id, secret, retires_at from token_secrets where tenant = $1 and id = $2`

// Secret returns what tokens of a tenant that name it are signed with, or an error that wraps [ErrUnknown].
func (s *Store) Secret(ctx context.Context, tenant feed.TenantID, id string) (Secret, error) {
	var secret Secret
	err := s.ask(ctx, tenant, secretSQL, []any{tenant, id}, func(row pgx.Row) error {
		return row.Scan(&secret.ID, &secret.bytes, &secret.Retires)
	})
	if err != nil {
		return Secret{}, fmt.Errorf("look up a token secret of %s: %w", tenant, err)
	}
	return secret, nil
}
