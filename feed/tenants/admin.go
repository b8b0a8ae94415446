package tenants

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/codemojex/feedrenderer/feed"
)

// AdminRole is the database role of [Admin].
const AdminRole = "feedrenderer_admin"

// ErrExists is wrapped where a tenant to be created is there already.
var ErrExists = errors.New("the tenant exists")

// Admin manages tenants, their keys and their limits.
type Admin struct{ pool *pgxpool.Pool }

// NewAdmin returns an Admin over a pool that works as [AdminRole].
func NewAdmin(pool *pgxpool.Pool) *Admin { return &Admin{pool} }

const createSQL = `
insert into tenants (id, public, suspended) values ($1, $2, $3) on conflict (id) do nothing returning id`

// Create makes a tenant with the default limits.
func (a *Admin) Create(ctx context.Context, t Tenant) error {
	err := a.pool.QueryRow(ctx, createSQL, t.ID, t.Public, t.Suspended).Scan(&t.ID)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrExists
	}
	if err != nil {
		return fmt.Errorf("create tenant %s: %w", t.ID, err)
	}
	return nil
}

// Change is what is to be different of a tenant. A nil field stays as it is; so does a nil limit.
type Change struct {
	Public    *bool        `json:"public"`
	Suspended *bool        `json:"suspended"`
	Limits    LimitsChange `json:"limits"`
}

// LimitsChange is the same for its limits. Zero is the default of [Limits].
type LimitsChange struct {
	Sockets    *int32 `json:"sockets"`
	Joins      *int32 `json:"joins"`
	Requests   *int32 `json:"requests"`
	Events     *int32 `json:"events"`
	Games      *int32 `json:"games"`
	EventBytes *int32 `json:"event_bytes"`

	RetentionDays *int32 `json:"retention_days"`
	StreamDays    *int32 `json:"stream_days"`
}

// Check refuses what no limit can be.
func (c LimitsChange) Check() error {
	for _, limit := range []*int32{c.Sockets, c.Joins, c.Requests, c.Events, c.Games, c.EventBytes, c.RetentionDays, c.StreamDays} {
		if limit != nil && *limit < 0 {
			return errors.New("limits: want 0, which is the default, or more")
		}
	}
	for _, days := range []*int32{c.RetentionDays, c.StreamDays} {
		if days != nil && *days > MaxDays {
			return fmt.Errorf("limits: %d days, want at most %d", *days, MaxDays)
		}
	}
	return nil
}

const changeSQL = `
update tenants set
  public = coalesce($2, public), suspended = coalesce($3, suspended), max_sockets = coalesce($4, max_sockets),
  joins_per_second = coalesce($5, joins_per_second), requests_per_second = coalesce($6, requests_per_second),
  events_per_second = coalesce($7, events_per_second), max_games = coalesce($8, max_games), max_event_bytes = coalesce($9, max_event_bytes),
  retention_days = coalesce($10, retention_days), stream_days = coalesce($11, stream_days), tended_at = '-infinity'
where id = $1
returning ` + tenantColumns

// Change changes a tenant and returns it as it is then, or an error that wraps [ErrUnknown]. Web processes follow within
// seconds.
func (a *Admin) Change(ctx context.Context, id feed.TenantID, c Change) (Tenant, error) {
	l := c.Limits
	tenant, err := scanTenant(a.pool.QueryRow(ctx, changeSQL, id, c.Public, c.Suspended,
		l.Sockets, l.Joins, l.Requests, l.Events, l.Games, l.EventBytes, l.RetentionDays, l.StreamDays))
	if err != nil {
		return Tenant{}, fmt.Errorf("change tenant %s: %w", id, known(err))
	}
	return tenant, nil
}

// List returns all tenants in order of their names.
func (a *Admin) List(ctx context.Context) ([]Tenant, error) { return NewStore(a.pool).List(ctx) }

// Lookup returns a tenant, or an error that wraps [ErrUnknown].
func (a *Admin) Lookup(ctx context.Context, id feed.TenantID) (Tenant, error) {
	return NewStore(a.pool).Lookup(ctx, id)
}

const createKeySQL = `
insert into api_keys (tenant, id, hash, role, label, expires_at)
select id, $2, $3, $4, $5, $6 from tenants where id = $1
returning tenant, id, role, label, created_at, expires_at, revoked_at, hash`

// CreateKey makes a key of a tenant and returns its text, which nobody can tell again. A nil expiry is none.
func (a *Admin) CreateKey(ctx context.Context, tenant feed.TenantID, role Role, label string, expires *time.Time) (Key, KeyText, error) {
	text := newKeyText(tenant)
	hash := sha256.Sum256([]byte(text.secret))
	key, err := scanKey(a.pool.QueryRow(ctx, createKeySQL, tenant, text.ID, hash[:], role, label, expires))
	if err != nil {
		return Key{}, KeyText{}, fmt.Errorf("create a key of %s: %w", tenant, known(err))
	}
	return key, text, nil
}

const keysSQL = `
select tenant, id, role, label, created_at, expires_at, revoked_at, hash from api_keys where tenant = $1 order by created_at, id`

// Keys lists the keys of a tenant, the oldest first, dead ones too.
func (a *Admin) Keys(ctx context.Context, tenant feed.TenantID) ([]Key, error) {
	if _, err := a.Lookup(ctx, tenant); err != nil {
		return nil, err
	}
	rows, _ := a.pool.Query(ctx, keysSQL, tenant) // the error comes with the rows
	keys, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Key, error) { return scanKey(row) })
	if err != nil {
		return nil, fmt.Errorf("list keys of %s: %w", tenant, err)
	}
	return keys, nil
}

// A moment to come lets a key that replaces this one be handed out first. A key that is revoked stays so.
const revokeSQL = `
update api_keys set revoked_at = least(revoked_at, greatest(now(), $3)) where tenant = $1 and id = $2
returning tenant, id, role, label, created_at, expires_at, revoked_at, hash`

// RevokeKey ends a key and all tokens that were minted with it, at once or at a moment to come.
func (a *Admin) RevokeKey(ctx context.Context, tenant feed.TenantID, id string, at time.Time) (Key, error) {
	key, err := scanKey(a.pool.QueryRow(ctx, revokeSQL, tenant, id, at))
	if err != nil {
		return Key{}, fmt.Errorf("revoke key %s of %s: %w", id, tenant, known(err))
	}
	return key, nil
}

// Two processes that mint the first token of a tenant make one secret: the second finds it.
const ensureSecretSQL = `
insert into token_secrets (tenant, id, secret) select id, $2, $3 from tenants where id = $1
on conflict (tenant) where retires_at is null do nothing`

const secretInUseSQL = `select id, secret, retires_at from token_secrets where tenant = $1 and retires_at is null`

// Mint makes the text of a watch token, good for at most [MaxTokenLife].
func (a *Admin) Mint(ctx context.Context, t Token) (string, error) {
	now := time.Now()
	if life := t.Expires.Sub(now); life <= 0 || life > MaxTokenLife+time.Second {
		return "", fmt.Errorf("mint a token of %s: it would be good for %v, want at most %v", t.Tenant, life, MaxTokenLife)
	}
	secret, err := a.secretInUse(ctx, t.Tenant)
	if err != nil {
		return "", fmt.Errorf("mint a token of %s: %w", t.Tenant, known(err))
	}
	return secret.sign(t, now)
}

func (a *Admin) secretInUse(ctx context.Context, tenant feed.TenantID) (secret Secret, err error) {
	read := func() error {
		return a.pool.QueryRow(ctx, secretInUseSQL, tenant).Scan(&secret.ID, &secret.bytes, &secret.Retires)
	}
	if err = read(); !errors.Is(err, pgx.ErrNoRows) {
		return secret, err
	}
	id, bytes := newSecret()
	if _, err := a.pool.Exec(ctx, ensureSecretSQL, tenant, id, bytes); err != nil {
		return secret, err
	}
	return secret, read()
}

func newSecret() (string, []byte) {
	bytes := make([]byte, 32)
	_, _ = rand.Read(bytes) // never fails
	return rand.Text()[:keyIDLength], bytes
}

const retireSQL = `update token_secrets set retires_at = $2 where tenant = $1 and retires_at is null`

// RotateSecret gives a tenant a new secret for its tokens. Those signed with the one before stay good for what is left
// of them, at most [MaxTokenLife].
func (a *Admin) RotateSecret(ctx context.Context, tenant feed.TenantID) error {
	if _, err := a.Lookup(ctx, tenant); err != nil {
		return err
	}
	id, bytes := newSecret()
	batch := &pgx.Batch{}
	batch.Queue(retireSQL, tenant, time.Now().Add(MaxTokenLife))
	batch.Queue(ensureSecretSQL, tenant, id, bytes)
	if err := a.pool.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("rotate the token secret of %s: %w", tenant, err)
	}
	return nil
}

// known gives the absence of a row its name.
func known(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrUnknown
	}
	return err
}
