package main

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	someValkey   = "VALKEY_URL=redis://127.0.0.1:1"
	someDatabase = "DATABASE_URL=postgres://u@127.0.0.1:1/d"
)

const allCommands = "serve, migrate, append, watch, status, dead, replay, rerender, mode, simulate, tenant, key, demo, health, version"

func TestFaultsAreRefusedTogetherEachNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args    string
		environ []string
		want    []string // what each fault says, by flag and variable
	}{
		"ADurationWithoutAUnit": {
			"serve --min-idle 30",
			[]string{someValkey, someDatabase},
			[]string{`--min-idle ($FEEDRENDERER_MIN_IDLE): "30" has no unit; want a duration from 1s to 1h0m0s, such as 1s`},
		},
		"AUnitWithoutANumber": {
			"serve",
			[]string{someValkey, someDatabase, "FEEDRENDERER_MIN_IDLE=s"},
			[]string{`--min-idle ($FEEDRENDERER_MIN_IDLE): "s" is no duration; want one from 1s to 1h0m0s, such as 1s`},
		},
		"ANegativeDurationByItsFlag": {
			"serve --grace -5s",
			[]string{someValkey, someDatabase},
			[]string{`--grace ($FEEDRENDERER_GRACE): -5s is out of range; want a duration from 1s to 10m0s`},
		},
		"AnUnknownVariableOfOurs": {
			"migrate",
			[]string{someDatabase, "FEEDRENDERER_ROLE=web", "OTHER_ROLE=x"},
			[]string{"$FEEDRENDERER_ROLE: no such variable; `feedrenderer --help` lists them all"},
		},
		"AVariableOfWhatIsMeantForOneRun": {
			"dead drop acme/g1 --older-than 5",
			[]string{someValkey, "FEEDRENDERER_ALL=true"},
			[]string{
				"$FEEDRENDERER_ALL: no such variable; `feedrenderer --help` lists them all",
				`--older-than: "5" has no unit; want a duration from 1s to 876000h0m0s, such as 1s`,
			},
		},
		"UnknownFlagsAndBadTextsOfOthers": {
			"serve --rols render --batch many --bogus=3",
			[]string{someValkey, someDatabase},
			[]string{
				"unknown flag --rols, did you mean \"--roles\"? See `feedrenderer serve --help`",
				"unknown flag --bogus; want one of --batch, --connections, --database-url, --degraded-after, --grace, --group, --group-grace, --help, " +
					"--kinds, --listen, --log-format, --log-level, --master-key, --max-attempts, --min-idle, --name, --origins, --private-listen, " +
					"--roles, --tenants, --trusted-proxies, --upkeep, --valkey-url, --workers; see `feedrenderer serve --help`",
				`--batch ($FEEDRENDERER_BATCH): "many"; want a whole number from 1 to 5000`,
			},
		},
		"MissingServers": {
			"serve",
			[]string{"VALKEY_URL="},
			[]string{
				"--valkey-url ($VALKEY_URL): missing; want redis://[user:password@]host:port[/db], rediss:// for TLS, or unix:///path",
				"--database-url ($DATABASE_URL): missing; want postgres://user:password@host:port/database",
			},
		},
		"NamesAndListsOfAllSorts": {
			"serve --roles render,paint --tenants acme,Acme,acme,docs --origins https://a.example/,ftp://b --group a/b --listen 8080 --max-attempts 0 --connections 1.5",
			[]string{someValkey, someDatabase},
			[]string{
				`--roles ($FEEDRENDERER_ROLES): "paint"; want one of render, web`,
				`--tenants ($FEEDRENDERER_TENANTS): tenant "Acme": want ^[a-z0-9][a-z0-9-]{0,39}$`,
				`--tenants ($FEEDRENDERER_TENANTS): acme stands there twice`,
				`--tenants ($FEEDRENDERER_TENANTS): docs: /docs is an address of ours, so that its games would have no pages`,
				`--connections ($FEEDRENDERER_CONNECTIONS): "1.5"; want a whole number from 1 to 1000`,
				`--group ($FEEDRENDERER_GROUP): "a/b"; want up to 64 letters, digits and ._:-`,
				`--max-attempts ($FEEDRENDERER_MAX_ATTEMPTS): "0"; want a whole number from 1 to 1000`,
				`--listen ($FEEDRENDERER_LISTEN): "8080"; want an address such as :8080 or 127.0.0.1:8080`,
				`--origins ($FEEDRENDERER_ORIGINS): "https://a.example/" is no origin; want scheme and host as in https://feeds.example`,
				`--origins ($FEEDRENDERER_ORIGINS): "ftp://b" is no origin; want scheme and host as in https://feeds.example`,
			},
		},
		"AnEmptyRole": {
			"serve --roles=",
			[]string{someValkey, someDatabase},
			[]string{"--roles ($FEEDRENDERER_ROLES): missing; want render, web or both"},
		},
		"FlagsThatContradictEachOther": {
			"serve --workers 9 --listen 127.0.0.1:9090",
			[]string{someValkey, someDatabase},
			[]string{
				"--workers ($FEEDRENDERER_WORKERS): 9, each of which needs a connection, above --connections ($FEEDRENDERER_CONNECTIONS), 8",
				"--private-listen ($FEEDRENDERER_PRIVATE_LISTEN): 127.0.0.1:9090 is --listen ($FEEDRENDERER_LISTEN) as well; want an address of its own",
			},
		},
		"Logging": {
			"version --log-level loud --log-format xml", nil,
			[]string{
				`--log-level ($FEEDRENDERER_LOG_LEVEL): "loud"; want one of debug, error, info, warn`,
				`--log-format ($FEEDRENDERER_LOG_FORMAT): "xml"; want one of json, text`,
			},
		},
		"WhatToSimulate": {
			"simulate --tenants= --rate NaN --games 0 --seed -1 --duration 1h5 --events x",
			[]string{someValkey},
			[]string{
				`--games ($FEEDRENDERER_GAMES): "0"; want a whole number from 1 to 10000`,
				`--rate ($FEEDRENDERER_RATE): "NaN"; want a number from 0.01 to 20000`,
				`--seed ($FEEDRENDERER_SEED): "-1"; want a whole number from 0 to 9223372036854775807`,
				`--tenants ($FEEDRENDERER_TENANTS): missing; want at least one tenant`,
				`--events ($FEEDRENDERER_EVENTS): "x"; want a whole number from 0 to 9223372036854775807`,
				`--duration ($FEEDRENDERER_DURATION): "1h5" is no duration; want one from 1s to 1000h0m0s, such as 1s`,
			},
		},
		"AnEventAndItsGame": {
			"append acme:g1 kind id=x a=1 a=2",
			[]string{someValkey},
			[]string{
				`game "acme:g1": want TENANT/GAME`, `"kind" is no field; want name=value`,
				`field "id": want each name once, and not id, which is minted`, `field "a": want each name once, and not id, which is minted`,
			},
		},
		"AModeNobodyPlays": {
			"mode acme/g1 loud",
			[]string{someValkey, someDatabase},
			[]string{`mode "loud"; want classic, golden or blind`},
		},
		"NoCommand":             {"", nil, []string{"no command; want one of " + allCommands + "; see `feedrenderer --help`"}},
		"AnUnknownOne":          {"server", nil, []string{"unexpected argument server, did you mean \"serve\"? See `feedrenderer --help`"}},
		"OneThatIsLikeNone":     {"nosuchcommand --batch 3", nil, []string{"unexpected argument nosuchcommand; want one of " + allCommands + "; see `feedrenderer --help`"}},
		"OneOfACommand":         {"dead bury acme/g1", nil, []string{"unexpected argument bury; want one of list, show, retry, drop; see `feedrenderer dead --help`"}},
		"NoneOfACommand":        {"dead", nil, []string{"no command; want one of list, show, retry, drop; see `feedrenderer dead --help`"}},
		"AFlagOfAnotherCommand": {"version --batch 3", nil, []string{"unknown flag --batch; want one of --help, --log-format, --log-level; see `feedrenderer version --help`"}},
		"AFlagThatHasNoText": {
			"status --watch=perhaps",
			[]string{someValkey, someDatabase},
			[]string{"--watch: bool value must be true, 1, yes, false, 0 or no but got \"perhaps\"; see `feedrenderer status --help`"},
		},
		"AMissingArgument": {"dead list", []string{someValkey}, []string{"expected \"<game>\"; want dead list <game> [flags]; see `feedrenderer dead list --help`"}},
		"AStrayArgument":   {"migrate now", []string{someDatabase}, []string{"unexpected argument now; want migrate [flags]; see `feedrenderer migrate --help`"}},
		"AFlagWithNoText":  {"migrate --database-url", nil, []string{"--database-url ($DATABASE_URL): missing; want postgres://user:password@host:port/database"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := run(t.Context(), strings.Fields(c.args), c.environ, io.Discard, io.Discard)
			var refused *faultsError
			if !errors.As(err, &refused) {
				t.Fatalf("got %v", err)
			}
			if diff := cmp.Diff(c.want, refused.Faults, cmp.Transformer("sorted", sorted)); diff != "" {
				t.Error(diff)
			}
			for _, fault := range refused.Faults {
				if !strings.Contains(err.Error(), fault) {
					t.Errorf("%q is not in the message:\n%v", fault, err)
				}
			}
		})
	}
}

func TestNoFaultRepeatsAPassword(t *testing.T) {
	t.Parallel()
	for _, environ := range [][]string{
		{"VALKEY_URL=redis://u:hunter2@h:1/notanumber", "DATABASE_URL=postgres://u:hunter2@h:port/d"},
		{"VALKEY_URL=redis://u:hunter2%zz@h:1", "DATABASE_URL=postgres://u:hunter2%zz@h/d"},
		{"VALKEY_URL=http://u:hunter2@h:1", "DATABASE_URL=user=u password='hunter2"},
		{"VALKEY_URL=hunter2", "DATABASE_URL=hunter2"},
	} {
		err := run(t.Context(), []string{"serve"}, environ, io.Discard, io.Discard)
		var refused *faultsError
		if !errors.As(err, &refused) || len(refused.Faults) != 2 {
			t.Errorf("%q: got %v, want two faults", environ, err)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", environ, err)
		}
	}
}

func TestAFlagWinsOverItsVariable(t *testing.T) {
	t.Parallel()
	chosen, logs, err := parse(strings.Fields("serve --batch 7 --tenants acme,globex"), []string{
		someValkey, someDatabase, "FEEDRENDERER_BATCH=8", "FEEDRENDERER_MIN_IDLE=3s", "FEEDRENDERER_LOG_LEVEL=warn", "FEEDRENDERER_GRACE=",
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	s := chosen.(*serveCommand).settings
	if s.batch != 7 || s.minIdle.String() != "3s" || s.grace.String() != "10s" || len(s.tenants) != 2 || !s.render || !s.web || logs.level.String() != "WARN" {
		t.Errorf("got %+v, %+v", s, logs)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	all := helpText(t, "--help")
	for command, flags := range map[string][]string{
		"serve":    {"--roles", "--valkey-url", "--database-url", "--min-idle", "--private-listen", "--log-level"},
		"simulate": {"--tenants", "--rate", "--seed", "--duration"},
		"migrate":  {"--database-url"},
	} {
		text := helpText(t, command, "--help")
		for _, flag := range flags {
			name := variable(strings.TrimPrefix(flag, "--"))
			if !strings.Contains(text, flag) || !strings.Contains(strings.Join(strings.Fields(text), ""), "$"+name) {
				t.Errorf("`%s --help` does not list %s with $%s:\n%s", command, flag, name, text)
			}
			if !strings.Contains(all, " "+name+" ") {
				t.Errorf("`--help` does not list %s", name)
			}
		}
	}
}

func helpText(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), args, nil, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func sorted(texts []string) []string { return slices.Sorted(slices.Values(texts)) }
