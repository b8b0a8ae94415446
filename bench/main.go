// Command bench measures the renderer beside a yardstick in the same run: machines differ and are shared, so what counts
// are the ratios. Without arguments it runs everything; with names it runs those.
//
//	go run . [-rounds n] [-profiles folder] [name ...]
//
// It prints a Markdown table of medians with their least and greatest, and a line "RATIO <name> <value>" for each
// comparison; every single reading is appended to results.jsonl.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// benchmark is one comparison. It adds its readings to the report.
type benchmark struct {
	name  string
	what  string
	run   func(ctx context.Context, rig *rig, report *report) error
	apart bool // run only where it is named: it takes long
}

var benchmarks = []benchmark{
	{name: "drain", what: "a backlog of 100 000 entries over 50 games: the whole renderer beside a plain loop (read a batch, one upsert, XACK)", run: drain},
	{name: "drain_line", what: "a backlog of 200 000 entries over 200 games: the whole renderer beside a straight line of the cheapest stages, and beside a pipeline entry by entry", run: drainLine},
	{name: "apply", what: "batches of 500 rows, of one game, over 200 and applied before: the product's write beside a plain upsert into the same table", run: apply},
	{name: "e2e", what: "30 % of the drain speed over 200 games, XADD to a frame in a Go client: the whole product beside the straight line", run: e2e},
	{name: "idle", what: "one entry on an idle system, XADD to a frame in a Go client, beside the bare round trips that it needs", run: idle},
	{name: "fan", what: "lines to 1000 and 5000 sockets at saturation, and 1000 watchers that resume at once, beside bare loops of writes", run: fan},
	{name: "many", what: "one replica with 2000 games beside the same with 10, at 500 entries/s, and its rest", run: many},
	{name: "memory", what: "what an idle watcher holds in memory beside a bare socket", run: memory},
	{name: "latency", what: "XADD to a row on a page in a browser, and to a frame in a Go client, beside XADD to a blocked read", run: latency},
	{name: "consumer", what: "the consumer library alone, beside peers and ceilings", run: library},
	{name: "growth", what: "drain speed as games, renderers and stored lines grow", run: growth, apart: true},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	if len(args) == 1 && args[0] == bareServer {
		return serveBare(os.Stdin, out)
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	rounds := flags.Int("rounds", 3, "interleaved runs of each side")
	profiles := flags.String("profiles", "", "folder for processor profiles of the renderer's drains")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(flags.Args())
	if err != nil {
		return err
	}
	rig, err := newRig(ctx, *rounds, *profiles)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.close()) }()
	report := &report{}
	for _, b := range chosen {
		fmt.Fprintf(out, "%s: %s\n", b.name, b.what)
		if err := b.run(ctx, rig, report); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return errors.Join(report.print(out), report.write("results.md"), report.save("results.jsonl"))
}

func choose(names []string) ([]benchmark, error) {
	var chosen []benchmark
	if len(names) == 0 {
		chosen = slices.DeleteFunc(slices.Clone(benchmarks), func(b benchmark) bool { return b.apart })
	}
	for _, name := range names {
		i := slices.IndexFunc(benchmarks, func(b benchmark) bool { return b.name == name })
		if i < 0 {
			var known []string
			for _, b := range benchmarks {
				known = append(known, b.name)
			}
			return nil, fmt.Errorf("no benchmark %q: there are %s", name, strings.Join(known, ", "))
		}
		chosen = append(chosen, benchmarks[i])
	}
	return chosen, nil
}
