package main

import (
	"context"
	"fmt"
	"runtime/debug"
)

type versionCommand struct{}

func (*versionCommand) check(*faults) {}

func (*versionCommand) run(_ context.Context, p process) error {
	_, err := fmt.Fprintln(p.stdout, "feedrenderer", version())
	return err
}

// version is the module's version, or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && info.Main.Version == "(devel)" {
			return "commit " + setting.Value
		}
	}
	return info.Main.Version
}
