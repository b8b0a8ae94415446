package web

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/feed/tenants"
)

// Tenants looks tenants up.
type Tenants interface {
	// Lookup wraps tenants.ErrUnknown for a tenant that does not exist.
	Lookup(ctx context.Context, id feed.TenantID) (tenants.Tenant, error)
}

// Access looks up what callers show to be let in.
type Access interface {
	// Key wraps tenants.ErrUnknown for a key that does not exist, and so does Secret.
	Key(ctx context.Context, tenant feed.TenantID, id string) (tenants.Key, error)
	Secret(ctx context.Context, tenant feed.TenantID, id string) (tenants.Secret, error)
	// CountGames counts up to most.
	CountGames(ctx context.Context, tenant feed.TenantID, most int) (int, error)
}

// need is what a route asks of its caller.
type need int

const (
	nobody    need = iota + 1 // nothing: no credential is read
	operators                 // to be on the private listener; a tenant must exist
	frames                    // the credential to be good: a socket decides the rest frame by frame
	watching                  // to watch: the game may be watched by anyone, or by this caller
	minting                   // a key that may watch; a token makes no tokens
	producing                 // a key that may produce
	operating                 // a key that may operate
	managing                  // the master key
)

// errNoSuch is the one answer for tenants, games and lines that are unknown, foreign or forbidden.
var errNoSuch = errors.New("no such tenant, game or line")

// errSuspended is errNoSuch, and is told apart for those alone who have a right to the tenant or watched it before.
var errSuspended = fmt.Errorf("%w: suspended", errNoSuch)

// errCredential is the one answer for keys and tokens that are malformed, unknown, expired or revoked.
var errCredential = errors.New("the key or token is malformed, expired or revoked")

// noAccess knows no credential.
type noAccess struct{}

func (noAccess) Key(context.Context, feed.TenantID, string) (tenants.Key, error) {
	return tenants.Key{}, tenants.ErrUnknown
}

func (noAccess) Secret(context.Context, feed.TenantID, string) (tenants.Secret, error) {
	return tenants.Secret{}, tenants.ErrUnknown
}

func (noAccess) CountGames(context.Context, feed.TenantID, int) (int, error) { return 0, nil }

// caller is who asks, as far as a credential says.
type caller struct {
	tenant  feed.TenantID // "": nobody in particular
	role    tenants.Role
	key     string        // id of the key, or of the key that minted the token
	token   bool          // it showed a token
	games   []feed.GameID // none: all of the tenant
	expires time.Time     // of the token; zero: never
	master  bool
}

// may reports whether the caller's role and games are good for a game, or for a tenant as a whole where that is "".
func (w *caller) may(do tenants.Role, key feed.GameKey) bool {
	return w.tenant == key.Tenant && w.role.May(do) && (len(w.games) == 0 || slices.Contains(w.games, key.Game))
}

const callerKey = "caller"

// guard is the one place where requests are let in. The order matters: a credential that is bad in itself is said to be,
// whatever it was shown for; everything else that is not to be had is not there.
func (s *Server) guard(r route) echo.HandlerFunc {
	if r.need == nobody {
		return r.handle
	}
	return func(c echo.Context) error {
		who, err := s.identify(c)
		if err != nil {
			return err
		}
		c.Set(callerKey, who)
		if err := s.permitRequest(c, r.need); err != nil {
			return err
		}
		return r.handle(c)
	}
}

// identify reads the credential of a request: Authorization: Bearer <key or token>.
func (s *Server) identify(c echo.Context) (*caller, error) {
	header := c.Request().Header.Get("Authorization")
	if header == "" {
		return &caller{}, nil
	}
	scheme, text, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		text = ""
	}
	return s.recognize(c.Request().Context(), c.RealIP(), strings.TrimSpace(text))
}

// recognize says whose a credential is: errCredential where it is nobody's. Who shows many that are nobody's is made to
// wait.
func (s *Server) recognize(ctx context.Context, peer, text string) (*caller, error) {
	if err := s.limits.stranger(peer); err != nil {
		return nil, err
	}
	who, err := s.read(ctx, text)
	if errors.Is(err, tenants.ErrMalformed) || errors.Is(err, tenants.ErrUnknown) || errors.Is(err, tenants.ErrExpired) {
		err = errCredential
	}
	if errors.Is(err, errCredential) {
		s.limits.strike(peer)
		s.faults.warn("a key or token was refused", "peer", peer)
	}
	return who, err
}

func (s *Server) read(ctx context.Context, text string) (*caller, error) {
	switch {
	case s.isMaster(text):
		return &caller{master: true}, nil
	case tenants.IsKey(text):
		shown, err := tenants.ParseKey(text)
		if err != nil {
			return nil, err
		}
		key, err := s.keys.of(ctx, keyID{shown.Tenant, shown.ID})
		if err != nil {
			return nil, err
		}
		if !key.Opens(shown) || !key.Live(time.Now()) {
			return nil, errCredential
		}
		return &caller{tenant: key.Tenant, role: key.Role, key: key.ID}, nil
	}
	token, err := tenants.ParseToken(text, func(tenant feed.TenantID, id string) (tenants.Secret, error) {
		return s.secrets.of(ctx, keyID{tenant, id})
	})
	if err != nil {
		return nil, err
	}
	who := &caller{tenant: token.Tenant, role: tenants.Watch, key: token.Key, token: true, games: token.Games, expires: token.Expires}
	return who, s.vouch(ctx, who)
}

// keyID names a key or a secret of a tenant.
type keyID struct {
	tenant feed.TenantID
	id     string
}

func (s *Server) isMaster(text string) bool {
	sum := sha256.Sum256([]byte(text))
	return s.managed && subtle.ConstantTimeCompare(sum[:], s.master[:]) == 1
}

// vouch says whether a caller that was recognized once is still good: its key lives and its token has not run out.
func (s *Server) vouch(ctx context.Context, who *caller) error {
	if who.key == "" {
		return nil
	}
	if !who.expires.IsZero() && !time.Now().Before(who.expires) {
		return tenants.ErrExpired
	}
	key, err := s.keys.of(ctx, keyID{who.tenant, who.key})
	if err != nil && !errors.Is(err, tenants.ErrUnknown) {
		return err
	}
	if err != nil || !key.Live(time.Now()) {
		return errCredential
	}
	return nil
}

// permitRequest says whether the caller of a request may have what its path names.
func (s *Server) permitRequest(c echo.Context, need need) error {
	who := callerOf(c)
	if need == frames {
		return nil
	}
	if need == managing {
		if !who.master || s.config.Admin == nil {
			return errNoSuch
		}
		return nil
	}
	key, err := pathKey(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	switch need {
	case operators:
		if key.Tenant != "" {
			_, err = s.known(ctx, key.Tenant)
		}
		return err
	case watching:
		err = s.permit(ctx, tenants.Watch, who, key)
	case minting:
		if err = s.permitKey(ctx, tenants.Watch, who, key); who.token {
			err = errNoSuch
		}
	case producing:
		err = s.permitKey(ctx, tenants.Produce, who, key)
	case operating:
		err = s.permitKey(ctx, tenants.Operate, who, key)
	}
	if err != nil {
		return err
	}
	return s.limits.request(ctx, key.Tenant)
}

// permit says whether a caller may act on a game, or errNoSuch. Anyone may watch the games of a public tenant.
func (s *Server) permit(ctx context.Context, do tenants.Role, who *caller, key feed.GameKey) error {
	tenant, err := s.known(ctx, key.Tenant)
	if err != nil || do == tenants.Watch && tenant.Public {
		return err
	}
	if !who.may(do, key) {
		return errNoSuch
	}
	return nil
}

// permitKey is permit, but asks for the caller's own right where anyone may watch.
func (s *Server) permitKey(ctx context.Context, do tenants.Role, who *caller, key feed.GameKey) error {
	if err := s.permit(ctx, do, who, key); err != nil {
		return err
	}
	if !who.may(do, key) {
		return errNoSuch
	}
	return nil
}

// known returns a tenant that is served, or errNoSuch.
func (s *Server) known(ctx context.Context, id feed.TenantID) (tenants.Tenant, error) {
	tenant, err := s.tenants.of(ctx, id)
	switch {
	case errors.Is(err, tenants.ErrUnknown):
		err = errNoSuch
	case err == nil && tenant.Suspended:
		err = errSuspended
	}
	return tenant, err
}

// callerOf is who asks; on a route that reads no credential nobody in particular.
func callerOf(c echo.Context) *caller {
	if who, ok := c.Get(callerKey).(*caller); ok {
		return who
	}
	return &caller{}
}

// pathKey reads the tenant and the game that a path names; "" is what it does not name.
func pathKey(c echo.Context) (key feed.GameKey, err error) {
	if name := c.Param("tenant"); name != "" {
		if key.Tenant, err = feed.ParseTenantID(name); err != nil {
			return key, errNoSuch
		}
	}
	if name := c.Param("game"); name != "" {
		if key.Game, err = feed.ParseGameID(name); err != nil {
			return key, errNoSuch
		}
	}
	return key, nil
}

// again repeats the decision on a request that has waited.
func (s *Server) again(c echo.Context) error {
	who := callerOf(c)
	if err := s.vouch(c.Request().Context(), who); err != nil {
		if errors.Is(err, tenants.ErrExpired) {
			return errCredential
		}
		return err
	}
	key, err := pathKey(c)
	if err != nil {
		return err
	}
	return s.permit(c.Request().Context(), tenants.Watch, who, key)
}

// refusal is an answer to a request that was understood and is not done.
type refusal struct {
	status int
	detail string
	after  time.Duration // when to come back; zero: never as it is
}

func (r *refusal) Error() string { return r.detail }

func tooMany(detail string, after time.Duration) error {
	return &refusal{http.StatusTooManyRequests, detail, after}
}
