package timeline

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Role is the database role as which the connections of a pool work (migrations, roles).
type Role string

// The renderer writes lines of all tenants. A web process reads one tenant at a time and writes nothing.
const (
	RoleRender Role = "feedrenderer_render"
	RoleWeb    Role = "feedrenderer_web"
)

// connectTime is how long it may take to connect and log in, unless the URL says so by connect_timeout. Logins hash a lot:
// where there is fifteen times the work that the machine can do they were seen to take more than ten seconds.
const connectTime = 30 * time.Second

// Open makes a pool of connections that work as the role. The login of the URL must be a member of it. Nothing is sent
// to the server yet.
//
// Plans are kept the same whatever the statistics say: every statement of ours is an index lookup, and one that was
// planned on an empty table must still be one when the table is full.
func Open(ctx context.Context, databaseURL string, role Role, maxConns int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return nil, fmt.Errorf("open database as %s: %w", role, err)
	}
	config.MaxConns = maxConns
	if config.ConnConfig.ConnectTimeout == 0 { // else two minutes, for which a server that vanished would hold a place in the pool
		config.ConnConfig.ConnectTimeout = connectTime
	}
	settings := map[string]string{
		"role":                                string(role),
		"plan_cache_mode":                     "force_generic_plan",
		"enable_seqscan":                      "off",
		"jit":                                 "off", // a disabled scan's cost alone would start it
		"lock_timeout":                        "2s",
		"statement_timeout":                   "30s",
		"idle_in_transaction_session_timeout": "10s",
	}
	if role == RoleWeb {
		settings["lock_timeout"] = "1s"
		settings["statement_timeout"] = "10s"
	}
	for name, value := range settings {
		config.ConnConfig.RuntimeParams[name] = value
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open database as %s: %w", role, err)
	}
	return pool, nil
}
