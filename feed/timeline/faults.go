package timeline

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATEs that are handled by name.
const (
	stateStalePlan   = "0A000" // cached plan must not change result type: once a connection after a migration
	stateLockTimeout = "55P03"
	stateDuplicate   = "23505"
)

// Unavailable reports whether an error of this package means that the store is down, overloaded or not set up, so that
// the same call may succeed later. It is false for faults of what was asked to be written, which no retry mends.
func Unavailable(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return !faultOfRow(pg.Code)
	}
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.As(err, &network) || errors.As(err, &connect) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// faultOfRow reports whether a SQLSTATE blames a value of the batch: data exceptions (a NUL or invalid UTF-8, bad JSON,
// a number out of range), limits of the database such as the size of a value, and checks. Everything else, internal
// errors among it, is for an operator to mend, and no line may be refused for it.
func faultOfRow(state string) bool {
	class := state[:min(2, len(state))]
	return class == "22" || class == "54" || state == "23502" || state == "23514"
}

func hasState(err error, state string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == state
}
