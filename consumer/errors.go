package consumer

import (
	"errors"
	"fmt"
	"runtime/debug"
)

var (
	// ErrLeaseLost is the cause of a context whose entries were taken over by another consumer.
	ErrLeaseLost = errors.New("consumer: lease lost to another consumer")
	// ErrNameTaken says that a live consumer of the group holds the configured name.
	ErrNameTaken = errors.New("consumer: name held by a live consumer")
	// ErrServer says that the server is too old.
	ErrServer = errors.New("consumer: server not supported")
	// ErrNotStream says that a key to read is not a stream.
	ErrNotStream = errors.New("consumer: key is not a stream")
	// ErrRunning says that Run was called a second time.
	ErrRunning = errors.New("consumer: already run")

	errShortReply = errors.New("reply is too short")
)

// PanicError is the error of a Retry made of a handler's panic.
type PanicError struct {
	Value any
	Stack []byte
}

func newPanicError(v any) *PanicError { return &PanicError{Value: v, Stack: debug.Stack()} }

func (e *PanicError) Error() string { return fmt.Sprintf("handler panicked: %v", e.Value) }

// VerdictsError is the error of a batch whose handler gave the wrong number of verdicts.
type VerdictsError struct{ Got, Want int }

func (e *VerdictsError) Error() string {
	return fmt.Sprintf("handler gave %d verdicts for %d messages", e.Got, e.Want)
}
