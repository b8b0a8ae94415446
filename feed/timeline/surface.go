package timeline

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/codemojex/feedrenderer/feed"
)

type Role string

const (
	RoleRender Role = "feedrenderer_render"
	RoleWeb    Role = "feedrenderer_web"
)

var (
	ErrNotFound = errors.New("no such game or line")
	ErrEpoch    = errors.New("cursor of another epoch")
	errSoon     = errors.New("not built yet")
)

func Open(ctx context.Context, databaseURL string, role Role, maxConns int32) (*pgxpool.Pool, error) {
	return nil, errSoon
}

func Unavailable(err error) bool { return false }

type Writer struct{ pool *pgxpool.Pool }

func NewWriter(pool *pgxpool.Pool) *Writer { return &Writer{pool} }

type Applied struct {
	Changes  []feed.Change
	Rejected []Rejection
}

type Rejection struct {
	Index  int
	Reason string
}

func (w *Writer) Apply(ctx context.Context, lines []feed.Line) (Applied, error) {
	return Applied{}, errSoon
}

func (w *Writer) SetMode(ctx context.Context, game feed.GameKey, mode feed.Mode) ([]feed.Change, error) {
	return nil, errSoon
}

type Reader struct{ pool *pgxpool.Pool }

func NewReader(pool *pgxpool.Pool) *Reader { return &Reader{pool} }

type GamesQuery struct {
	Status feed.Status
	After  feed.GameID
	Limit  int
}

type PageQuery struct {
	Before, After  *feed.ID
	Limit          int
	Kind, Actor, Q string
	From, To       time.Time
}

type Page struct {
	Lines  []feed.View // newest first
	More   bool
	Cursor feed.Cursor
}

type Changes struct {
	Epoch    string
	From, To int64
	Lines    []feed.View // in order of version
	More     bool
}

type Snapshot struct {
	Game  feed.Game
	Lines []feed.View // newest first
	Older bool
}

type Head struct {
	Game     feed.GameKey
	Cursor   feed.Cursor
	Released bool
	Mode     feed.Mode
}

func (r *Reader) Game(ctx context.Context, game feed.GameKey) (feed.Game, error) {
	return feed.Game{}, errSoon
}

func (r *Reader) Games(ctx context.Context, tenant feed.TenantID, q GamesQuery) ([]feed.Game, error) {
	return nil, errSoon
}

func (r *Reader) Page(ctx context.Context, game feed.GameKey, q PageQuery) (Page, error) {
	return Page{}, errSoon
}

func (r *Reader) Changes(ctx context.Context, game feed.GameKey, since feed.Cursor, limit int) (Changes, error) {
	return Changes{}, errSoon
}

func (r *Reader) Snapshot(ctx context.Context, game feed.GameKey, limit int) (Snapshot, error) {
	return Snapshot{}, errSoon
}

func (r *Reader) Line(ctx context.Context, game feed.GameKey, evt feed.ID) (feed.View, error) {
	return feed.View{}, errSoon
}

func (r *Reader) Head(ctx context.Context, game feed.GameKey) (Head, error) { return Head{}, errSoon }

func (r *Reader) Heads(ctx context.Context, games []feed.GameKey) ([]Head, error) {
	return nil, errSoon
}
