package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// runLimit bounds one run of one side: it is an error not to be done by then.
const runLimit = 2 * time.Minute

// contestant is one way to do a job.
type contestant struct {
	name    string
	entries int // that one run handles
	// run does the job once. The label is of this run alone.
	run func(ctx context.Context, label string) (effort, error)
}

// effort is what a run took.
type effort struct {
	took time.Duration
	work work
}

// race runs each contestant once a round, in an order that is shuffled each time, and reports entries/s and processor
// time an entry: whatever else the machine does meets all alike.
func (r *rig) race(ctx context.Context, report *report, contestants ...contestant) error {
	for round := range r.rounds {
		for _, i := range rand.Perm(len(contestants)) {
			if err := r.once(ctx, report, contestants[i]); err != nil {
				return fmt.Errorf("round %d: %w", round+1, err)
			}
		}
	}
	return nil
}

// once is one run of one contestant.
func (r *rig) once(ctx context.Context, report *report, c contestant) error {
	bounded, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	effort, err := c.run(bounded, "run"+strconv.Itoa(r.labels))
	r.labels++
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	report.add(c.name, "entries/s", float64(c.entries)/effort.took.Seconds())
	report.cost(c.name, effort.work, c.entries)
	return nil
}
