package main

import (
	"context"
	"io"
	"log/slog"
)

// command is what a name on the command line stands for. The texts of its flags are its exported fields.
type command interface {
	// check reads the texts, and adds every fault it finds. It opens nothing.
	check(f *faults)
	run(ctx context.Context, p process) error
}

// process is what a command has of the process it runs in.
type process struct {
	environ []string
	stdout  io.Writer
	stderr  io.Writer
	log     *slog.Logger
}

// run reads the command line and the environment, refuses all their faults in one [*faultsError], and runs the command
// until it is done or the context ends.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) error {
	chosen, logs, err := parse(args, environ, stdout)
	if err != nil || chosen == nil {
		return err
	}
	return chosen.run(ctx, process{environ: environ, stdout: stdout, stderr: stderr, log: logs.logger(stderr)})
}

// logFlags say how to log. Every command has them.
type logFlags struct {
	LogLevel  string `default:"info" help:"Least serious message that is logged: debug, info, warn or error."`
	LogFormat string `default:"text" help:"Shape of a log line: text or json."`

	level slog.Level
}

func (l *logFlags) check(f *faults) {
	l.level = choice(f, "log-level", l.LogLevel, map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	})
	choice(f, "log-format", l.LogFormat, map[string]bool{"text": true, "json": true})
}

func (l *logFlags) logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: l.level}
	if l.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
