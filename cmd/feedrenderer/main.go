// Command feedrenderer renders the events of game streams into live activity feeds. Here is wiring only.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	stopping := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
		stopping = append(stopping, syscall.SIGHUP) // the terminal was closed
	}
	// A second signal ends the process at once: stop gives the signals back to the system.
	ctx, stop := signal.NotifyContext(context.Background(), stopping...)
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "feedrenderer:", err)
	var faults *faultsError
	if errors.As(err, &faults) {
		os.Exit(2)
	}
	os.Exit(1)
}
