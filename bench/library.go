package main

import (
	"bufio"
	"context"
	"os/exec"
	"strconv"
	"strings"
)

// library runs the benchmarks of the consumer library alone, a program of their own, and takes over its ratios.
func library(ctx context.Context, rig *rig, report *report) error {
	cmd := exec.CommandContext(ctx, "go", "run", "./consumer", "-rounds", strconv.Itoa(rig.rounds))
	output, err := cmd.Output()
	lines := bufio.NewScanner(strings.NewReader(string(output)))
	for lines.Scan() {
		if words := strings.Fields(lines.Text()); len(words) == 3 && words[0] == "RATIO" {
			value, err := strconv.ParseFloat(words[2], 64)
			if err != nil {
				return err
			}
			report.ratios = append(report.ratios, ratio{words[1], value})
		} else {
			report.notes = append(report.notes, lines.Text())
		}
	}
	return err
}
