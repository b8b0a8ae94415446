package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/valkey-io/valkey-go"

	"github.com/codemojex/feedrenderer/feed"
	"github.com/codemojex/feedrenderer/web"
)

type statusCommand struct {
	ValkeyURL     string `help:"Valkey or Redis with the streams. Nothing else is asked."`
	Group         string `default:"feedrenderer" help:"Consumer group of the renderers."`
	DegradedAfter string `default:"2m" help:"How long an event may wait, to be read or to be settled, before its stream is called degraded."`
	JSON          bool   `env:"-" help:"For programs: one JSON object, as GET /v1/tenants/{tenant}/streams answers it."`
	Watch         bool   `env:"-" help:"Look again every two seconds until it is stopped: in a terminal in place, elsewhere one look below the other."`

	Of string `arg:"" optional:"" help:"TENANT or TENANT/GAME; by default all streams."`

	valkey        valkey.ClientOption
	degradedAfter time.Duration
	of            feed.GameKey
}

func (c *statusCommand) check(f *faults) {
	c.valkey = valkeyURL(f, c.ValkeyURL)
	name(f, "group", c.Group)
	c.degradedAfter = duration(f, "degraded-after", c.DegradedAfter, time.Second, 30*24*time.Hour)
	switch {
	case strings.Contains(c.Of, "/"):
		c.of = gameKey(f, c.Of)
	case c.Of != "":
		c.of.Tenant = tenantName(f, c.Of)
	}
}

func (c *statusCommand) run(ctx context.Context, p process) error {
	client, err := newValkey(c.valkey)
	if err != nil {
		return err
	}
	defer client.Close()
	g := newGroup(client, c.Group, c.degradedAfter)
	if c.Watch {
		return c.follow(ctx, g, p)
	}
	return c.print(ctx, g, p.stdout)
}

// print looks once.
func (c *statusCommand) print(ctx context.Context, g *group, out io.Writer) error {
	health, err := g.look(ctx, c.of)
	switch {
	case err != nil:
		return err
	case len(health.Streams) == 0 && c.of.Game != "":
		return fmt.Errorf("%s has no stream and no dead letters", c.of)
	case c.JSON:
		return printJSON(out, health)
	}
	if err := printStreams(out, health); err != nil || c.of.Game == "" {
		return err
	}
	return printNames(out, health.Streams[0].Consumers)
}

// watchEvery is the time between two looks of status --watch.
const watchEvery = 2 * time.Second

// follow looks again and again until the context ends. A look that fails is shown as such, and the next one may not.
func (c *statusCommand) follow(ctx context.Context, g *group, p process) error {
	every := time.NewTicker(watchEvery)
	defer every.Stop()
	shown := &screen{out: p.stdout}
	for {
		var text strings.Builder
		failed := c.print(ctx, g, &text)
		if ctx.Err() != nil {
			return nil
		}
		if err := c.show(p, shown, text.String(), failed); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
	}
}

func (c *statusCommand) show(p process, on *screen, text string, failed error) error {
	switch {
	case c.JSON && failed != nil: // the output is for objects alone
		p.log.Warn("not looked", "err", failed)
		return nil
	case c.JSON:
		_, err := io.WriteString(p.stdout, text)
		return err
	case failed != nil:
		text = short(fmt.Sprintf("%s: %v", feed.Instant(time.Now()), failed), 100) + "\n"
	}
	return on.show(text)
}

func printJSON(w io.Writer, what any) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	return out.Encode(what)
}

// printStreams prints a table of at most 100 columns, the degraded first, and says of those what is wrong.
func printStreams(w io.Writer, h web.GroupHealth) error {
	shown := slices.DeleteFunc(slices.Clone(h.Streams), func(st web.StreamHealth) bool {
		return st.Game == "" && !troubled(st) && st.Pending == 0 && st.DeadLetters == 0 // a retry stream at rest
	})
	slices.SortStableFunc(shown, func(a, b web.StreamHealth) int { return rank(a) - rank(b) })
	troubles := 0
	for _, st := range shown {
		if troubled(st) {
			troubles++
		}
	}
	head := fmt.Sprintf("group %s at %s; streams: %d, in trouble: %d\n", h.Group, h.At, len(shown), troubles)
	if h.Eviction != "" {
		head += fmt.Sprintf("the server may evict streams: its maxmemory-policy is %s\n", h.Eviction)
	}
	for _, r := range h.Replicas {
		if r.StoreAway != nil {
			head += fmt.Sprintf("%s cannot write lines since %s: its store is away\n", short(r.Name, 40), *r.StoreAway)
		}
	}
	if _, err := io.WriteString(w, head); err != nil || len(shown) == 0 {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if _, err := fmt.Fprintln(table, "\nSTREAM\tSTATE\tPENDING\tOLDEST\tLAG\tUNREAD\tLOST\tLETTERS\tALIVE\tDEAD"); err != nil {
		return err
	}
	for _, st := range shown {
		alive, dead := names(st)
		if _, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\n", short(nameOf(st), 24), stateOf(st), amount(&st.Pending), span(st.OldestPending),
			amount(st.Lag), span(st.OldestUnread), amount(st.Lost), amount(&st.DeadLetters), alive, dead); err != nil {
			return err
		}
	}
	if err := table.Flush(); err != nil || troubles == 0 {
		return err
	}
	const told = 20
	var b strings.Builder
	b.WriteByte('\n')
	for _, st := range shown[:min(told, troubles)] {
		for _, trouble := range troublesOf(st) {
			name := short(nameOf(st), 24) + ": "
			fmt.Fprintf(&b, "%s%s\n", name, short(trouble, 100-utf8.RuneCountInString(name)))
		}
	}
	if troubles > told {
		fmt.Fprintf(&b, "and %d more\n", troubles-told)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func troubled(st web.StreamHealth) bool { return st.Degraded || st.Fault != "" }

// rank puts what is degraded first, then what cannot be read.
func rank(st web.StreamHealth) int {
	switch {
	case st.Degraded:
		return 0
	case st.Fault != "":
		return 1
	}
	return 2
}

func stateOf(st web.StreamHealth) string { return [...]string{"DEGRADED", "FAULT", "ok"}[rank(st)] }

// troublesOf says what is wrong with a stream.
func troublesOf(st web.StreamHealth) []string {
	out := []string{}
	alive, dead := names(st)
	if st.Fault != "" {
		out = append(out, st.Fault)
	}
	if st.Degraded && st.Pending > 0 {
		out = append(out, fmt.Sprintf("%s pending, the oldest %s old; names: %d alive, %d dead", amount(&st.Pending), span(st.OldestPending), alive, dead))
	}
	if st.Degraded && st.OldestUnread > 0 {
		out = append(out, fmt.Sprintf("the oldest unread is %s old: %s", span(st.OldestUnread), readers(alive)))
	}
	return out
}

func readers(alive int) string {
	if alive == 0 {
		return "no renderer reads it"
	}
	return "renderers are behind"
}

func names(st web.StreamHealth) (alive, dead int) {
	for _, c := range st.Consumers {
		if c.Alive {
			alive++
		}
	}
	return alive, len(st.Consumers) - alive
}

func nameOf(st web.StreamHealth) string {
	return string(st.Tenant) + "/" + cmp.Or(string(st.Game), "(retries)")
}

// printNames prints the names in the group, those with the most pending first.
func printNames(w io.Writer, list []web.ConsumerHealth) error {
	if len(list) == 0 {
		return nil
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b web.ConsumerHealth) int {
		return cmp.Or(cmp.Compare(b.Pending, a.Pending), cmp.Compare(a.Name, b.Name))
	})
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if _, err := fmt.Fprintln(table, "\nNAME\tSTATE\tPENDING\tSILENT FOR"); err != nil {
		return err
	}
	for _, c := range list {
		state := "dead"
		if c.Alive {
			state = "alive"
		}
		if _, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", short(c.Name, 64), state, amount(&c.Pending), span(c.Idle)); err != nil {
			return err
		}
	}
	return table.Flush()
}

// amount is a number in at most six columns, "?" where it is unknown.
func amount(n *int64) string {
	if n == nil {
		return "?"
	}
	if *n < 100_000 {
		return strconv.FormatInt(*n, 10)
	}
	value, unit := float64(*n), 0
	for ; value >= 1000 && unit < len(units); unit++ {
		value /= 1000
	}
	return strconv.FormatFloat(math.Floor(value*10)/10, 'f', 1, 64) + units[unit-1:unit]
}

// units are thousands, millions and so on.
const units = "kMGTPE"

// span is a time in seconds in at most seven columns, by its two largest units; "-" where there is none.
func span(seconds float64) string {
	const day = 24 * time.Hour
	d := time.Duration(min(seconds, 9999*day.Seconds()) * float64(time.Second)).Truncate(time.Second)
	switch {
	case seconds == 0:
		return "-"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d < 100*day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}

// short makes a text harmless to a terminal, and cuts it to so many characters.
func short(text string, most int) string {
	runes := []rune(plain(text))
	if len(runes) <= most {
		return string(runes)
	}
	return string(runes[:most-1]) + "…"
}
