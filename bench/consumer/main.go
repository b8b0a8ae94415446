// Command consumer measures the consumer library alone, beside peers and ceilings in the same run, on a private server:
// machines differ and are shared, so what counts are the ratios.
//
//	go run ./consumer [-rounds n] [-entries n] [-streams n]
//
// Entries are of 200 bytes, handlers are empty. It prints the median of each series and a line "RATIO <name> <value>" for
// each comparison, the median of the rounds' ratios.
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
	"syscall"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/internal/servers"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "consumer:", err)
		os.Exit(1)
	}
}

// bench is one run of all measurements.
type bench struct {
	url     string
	client  valkey.Client // for filling and looking
	entries int
	streams int
	made    int // streams so far
	series  map[string][]float64
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("consumer", flag.ContinueOnError)
	rounds := flags.Int("rounds", 5, "interleaved runs of each side")
	entries := flags.Int("entries", 300_000, "backlog of the fast sides; the slow ones drain a thirtieth")
	streams := flags.Int("streams", 2000, "streams of the idle consumer")
	if err := flags.Parse(args); err != nil {
		return err
	}
	server, err := servers.StartValkey(ctx, servers.ValkeyConfig{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	b := &bench{url: server.URL, entries: *entries, streams: *streams, series: map[string][]float64{}}
	if b.client, err = b.newClient(); err != nil {
		return err
	}
	defer b.client.Close()

	sides := []struct {
		name    string
		entries int
		drain   func(ctx context.Context, stream string, n int) (seconds float64, err error)
	}{
		{"ours", *entries, b.ours},
		{"bare loop", *entries, b.bare},
		{"one XACK an entry", *entries / 30, b.perEntry},
		{"watermill", *entries / 30, b.watermill},
	}
	for range *rounds {
		for _, side := range sides {
			stream, err := b.fill(ctx, side.entries)
			if err != nil {
				return err
			}
			seconds, err := side.drain(ctx, stream, side.entries)
			if err != nil {
				return fmt.Errorf("%s: %w", side.name, err)
			}
			b.add(side.name+", entries/s", float64(side.entries)/seconds)
			if err := b.client.Do(ctx, b.client.B().Del().Key(stream).Build()).Error(); err != nil {
				return err
			}
		}
		if err := b.latencies(ctx); err != nil {
			return err
		}
		if err := b.shares(ctx); err != nil {
			return err
		}
	}
	if err := b.idle(ctx); err != nil {
		return err
	}
	b.print(out)
	return nil
}

func (b *bench) add(name string, v float64) { b.series[name] = append(b.series[name], v) }

func (b *bench) median(name string) float64 { return median(b.series[name]) }

// ratio is the median over the rounds of one series by another: the two readings of a round were taken one after the other,
// on a machine that was equally busy.
func (b *bench) ratio(over, under string) float64 {
	ratios := slices.Clone(b.series[over])
	for i := range ratios {
		ratios[i] /= b.series[under][i]
	}
	return median(ratios)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func (b *bench) print(out io.Writer) {
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range b.series {
			if !yield(name) {
				return
			}
		}
	}) {
		values := b.series[name]
		fmt.Fprintf(out, "%-40s median %12.4g  least %12.4g  greatest %12.4g  of %d\n",
			name, b.median(name), slices.Min(values), slices.Max(values), len(values))
	}
	ratio := func(name, over, under string) { fmt.Fprintf(out, "RATIO %s %.3f\n", name, b.ratio(over, under)) }
	ratio("consumer_ceiling", "ours, entries/s", "bare loop, entries/s")
	ratio("consumer_watermill", "ours, entries/s", "watermill, entries/s")
	ratio("consumer_per_entry", "ours, entries/s", "one XACK an entry, entries/s")
	ratio("consumer_latency", "ours, p99 ms", "bare blocked read, p99 ms")
	ratio("consumer_beside_failing", "10 000 new alone, s", "10 000 new beside 100 that fail, s")
	fmt.Fprintf(out, "RATIO consumer_orphans %.3f\n", b.median("new ones until 1000 orphans are done, share"))
}
