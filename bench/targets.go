package main

import "fmt"

// target is what a ratio should reach.
type target struct {
	value float64
	most  bool // it is an upper bound
}

var targets = map[string]target{
	"consumer_ceiling":            {0.85, false},
	"consumer_watermill":          {10, false},
	"consumer_per_entry":          {8, false},
	"consumer_latency":            {2, true},
	"consumer_beside_failing":     {0.95, false},
	"consumer_orphans":            {0.25, true},
	"apply_1":                     {0.55, false},
	"apply_200":                   {0.53, false},
	"apply_stale":                 {2, false},
	"drain_line":                  {1.0, false},
	"drain_peer":                  {12, false},
	"e2e_p50":                     {1.5, true},
	"e2e_p99":                     {2, true},
	"idle_latency":                {1.5, true},
	"fan_out":                     {12, false},
	"fan_out_5000":                {8, false},
	"fan_p99":                     {1.2, true},
	"watcher_memory":              {0.75, true},
	"resume_storm":                {2, true},
	"games_2000":                  {2, true},
	"games_2000_idle_cpu_percent": {5, true},
	"growth_games_100":            {0.7, false},
	"growth_games_1000":           {0.7, false},
	"growth_replicas_2":           {0.7, false},
	"growth_replicas_4":           {0.7, false},
	"growth_lines_5000000":        {0.7, false},
}

// row is the ratio in a Markdown table.
func (r ratio) row() string {
	t, ok := targets[r.name]
	if !ok {
		return fmt.Sprintf("| `%s`\t| %.3f\t| \t| \t|\n", r.name, r.value)
	}
	sign, met := ">=", r.value >= t.value
	if t.most {
		sign, met = "<=", r.value <= t.value
	}
	verdict := "met"
	if !met {
		verdict = "not met"
	}
	return fmt.Sprintf("| `%s`\t| %.3f\t| %s %g\t| %s\t|\n", r.name, r.value, sign, t.value, verdict)
}
