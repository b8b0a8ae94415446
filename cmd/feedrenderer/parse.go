package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// commandLine is every command. A flag's text comes from the command line, else from its variable, else from its
// default. The variable of --min-idle is FEEDRENDERER_MIN_IDLE, and so for each, but for two that others know as well, and
// for flags of `env:"-"`: what they say is meant for one run, and has no variable.
type commandLine struct {
	logFlags

	Serve    serveCommand    `cmd:"" help:"Render streams into feeds, serve feeds to watchers, or both."`
	Migrate  migrateCommand  `cmd:"" help:"Bring the database to this version's schema. Safe to run beside others."`
	Append   appendCommand   `cmd:"" help:"Append an event to a game's stream and print its EVT id."`
	Watch    watchCommand    `cmd:"" help:"Follow a game's feed in the terminal, or from a program."`
	Status   statusCommand   `cmd:"" help:"Show how the renderers stand with the streams, whether any of them runs or not."`
	Dead     deadCommand     `cmd:"" help:"List, show, retry and drop events that were given up on."`
	Replay   replayCommand   `cmd:"" help:"Read a game's stream once more and render what is missing. Safe beside live work."`
	Rerender rerenderCommand `cmd:"" help:"Render stored lines anew whose kind has a newer version. Safe beside live work."`
	Mode     modeCommand     `cmd:"" help:"State the mode of a game whose opening was lost."`
	Simulate simulateCommand `cmd:"" help:"Play whole games into the streams of some tenants."`
	Tenant   tenantCommand   `cmd:"" help:"Create, list, change and suspend tenants."`
	Key      keyCommand      `cmd:"" help:"Create, list and revoke keys of a tenant."`
	Demo     demoCommand     `cmd:"" help:"Run all of it on this machine: servers, renderers, web, games. Leaves nothing behind."`
	Health   healthCommand   `cmd:"" help:"Ask a serve process of this machine whether it is ready; fails with its reasons."`
	Version  versionCommand  `cmd:"" help:"Print the version."`
}

const variablePrefix = "FEEDRENDERER_"

// variable is the environment variable of a flag.
func variable(flag string) string {
	name := strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
	if name == "VALKEY_URL" || name == "DATABASE_URL" {
		return name
	}
	return variablePrefix + name
}

func hasVariable(flag *kong.Flag) bool {
	return flag.Name != "help" && !slices.Contains(flag.Tag.Envs, "-")
}

// parse finds the command and checks all its texts together. It gives no command where help was asked for, and was
// printed.
func parse(args, environ []string, stdout io.Writer) (command, *logFlags, error) {
	var line commandLine
	helped := false
	parser, err := kong.New(&line,
		kong.Name("feedrenderer"),
		kong.Description("Renders the events of game streams into live activity feeds."),
		kong.Writers(stdout, stdout),
		kong.Exit(func(int) { helped = true }),
		kong.Help(help),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 120}),
		kong.ValueFormatter(helpOfFlag),
		kong.WithHyphenPrefixedParameters(true), // so that "-5s" is refused as what it is
		kong.Resolvers(variables(environ)),
	)
	if err != nil {
		return nil, nil, err
	}
	f := &faults{bare: map[string]bool{}}
	for _, flag := range flags(parser.Model.Node) {
		f.bare[flag.Name] = !hasVariable(flag)
	}
	selected := parseArguments(parser, args, f, &helped)
	if helped {
		return nil, nil, nil
	}
	unknownVariables(parser, environ, f)
	if selected != nil {
		line.check(f)
		selected.check(f)
	}
	return selected, &line.logFlags, f.err()
}

var unknownFlag = regexp.MustCompile(`^unknown flag (--?[^\s,]+)`)

// parseArguments lets kong read the arguments. It stops at the first fault, so that flags it does not know are taken
// out, with what looks like their values, for the others to be read.
func parseArguments(parser *kong.Kong, args []string, f *faults, helped *bool) command {
	for {
		parsed, err := parser.Parse(args)
		if *helped {
			return nil
		}
		if err == nil {
			return parsed.Selected().Target.Addr().Interface().(command)
		}
		f.add(withAllowed(err))
		found := unknownFlag.FindStringSubmatch(err.Error())
		if found == nil {
			return nil
		}
		args = without(args, found[1])
	}
}

// withAllowed is kong's word on arguments with what would be allowed in their place, and where that is described.
func withAllowed(err error) string {
	var stopped *kong.ParseError
	if !errors.As(err, &stopped) {
		return err.Error()
	}
	node := stopped.Context.Selected()
	if node == nil {
		node = stopped.Context.Model.Node
	}
	fault, group := err.Error(), len(node.Children) > 0
	described := "`" + node.FullPath() + " --help`"
	switch unexpected, missing := strings.HasPrefix(fault, "unexpected "), strings.HasPrefix(fault, "expected "); {
	case strings.HasSuffix(fault, "?"): // kong asks whether another was meant
		return fault + " See " + described
	case unknownFlag.MatchString(fault):
		fault += "; want one of " + strings.Join(flagNames(node), ", ")
	case group && missing: // kong lists but some
		fault = "no command; want one of " + strings.Join(commandNames(node), ", ")
	case group && unexpected:
		fault += "; want one of " + strings.Join(commandNames(node), ", ")
	case unexpected, missing:
		fault += "; want " + node.Summary()
	}
	return fault + "; see " + described
}

func commandNames(node *kong.Node) []string {
	names := make([]string, len(node.Children))
	for i, child := range node.Children {
		names[i] = child.Name
	}
	return names
}

// flagNames lists what a command takes, what every command does among it.
func flagNames(node *kong.Node) []string {
	var names []string
	for _, flag := range slices.Concat(node.AllFlags(true)...) {
		names = append(names, "--"+flag.Name)
	}
	slices.Sort(names)
	return names
}

func without(args []string, flag string) []string {
	i := slices.IndexFunc(args, func(arg string) bool { return arg == flag || strings.HasPrefix(arg, flag+"=") })
	if i < 0 { // a short one, in a cluster of them: nothing is left to read
		return nil
	}
	end := i + 1
	if args[i] == flag && end < len(args) && !strings.HasPrefix(args[end], "-") {
		end++
	}
	return slices.Concat(args[:i], args[end:])
}

// variables resolves flags from the environment. An empty variable counts as none.
func variables(environ []string) kong.Resolver {
	values := make(map[string]string, len(environ))
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		values[name] = value
	}
	return kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		if value := values[variable(flag.Name)]; value != "" && hasVariable(flag) {
			return value, nil
		}
		return nil, nil
	})
}

// unknownVariables refuses variables with our prefix that no flag has: a misspelt one would be ignored silently.
func unknownVariables(parser *kong.Kong, environ []string, f *faults) {
	known := map[string]bool{}
	for _, flag := range flags(parser.Model.Node) {
		if hasVariable(flag) {
			known[variable(flag.Name)] = true
		}
	}
	for _, pair := range slices.Sorted(slices.Values(environ)) {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, variablePrefix) && !known[name] {
			f.add(fmt.Sprintf("$%s: no such variable; `feedrenderer --help` lists them all", name))
		}
	}
}

// flags lists the flags of all commands, one of each name, in order of name.
func flags(node *kong.Node) []*kong.Flag {
	byName := map[string]*kong.Flag{}
	var walk func(*kong.Node)
	walk = func(node *kong.Node) {
		for _, flag := range node.Flags {
			if flag.Name != "help" {
				byName[flag.Name] = flag
			}
		}
		for _, child := range node.Children {
			walk(child)
		}
	}
	walk(node)
	out := make([]*kong.Flag, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, byName[name])
	}
	return out
}

// help is kong's, and for the program as a whole the list of all variables.
func help(options kong.HelpOptions, parsed *kong.Context) error {
	if err := kong.DefaultHelpPrinter(options, parsed); err != nil || parsed.Selected() != nil {
		return err
	}
	if _, err := fmt.Fprint(parsed.Stdout, "\nVariables and their flags (a flag wins; an empty variable counts as none; unknown FEEDRENDERER_ variables are refused):\n"); err != nil {
		return err
	}
	for _, flag := range flags(parsed.Model.Node) {
		if !hasVariable(flag) {
			continue
		}
		if _, err := fmt.Fprintf(parsed.Stdout, "  %-30s --%s\n", variable(flag.Name), flag.Name); err != nil {
			return err
		}
	}
	return nil
}

func helpOfFlag(value *kong.Value) string {
	if value.Flag == nil || !hasVariable(value.Flag) {
		return value.Help
	}
	return fmt.Sprintf("%s ($%s)", strings.TrimSuffix(value.Help, "."), variable(value.Name))
}
