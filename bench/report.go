package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

// report collects readings by what they measure, in the order in which they first came.
type report struct {
	series []*series
	ratios []ratio
	notes  []string // printed as they are
}

type series struct {
	Name   string
	Unit   string
	Values []float64
}

type ratio struct {
	name  string
	value float64
}

// add takes one reading.
func (r *report) add(name, unit string, value float64) {
	i := slices.IndexFunc(r.series, func(s *series) bool { return s.Name == name })
	if i < 0 {
		i = len(r.series)
		r.series = append(r.series, &series{Name: name, Unit: unit})
	}
	r.series[i].Values = append(r.series[i].Values, value)
}

// compare adds the ratio of the medians of two series.
func (r *report) compare(name, ours, yardstick string) {
	r.ratios = append(r.ratios, ratio{name, r.median(ours) / r.median(yardstick)})
}

func (r *report) median(name string) float64 {
	for _, s := range r.series {
		if s.Name == name {
			return quantile(s.Values, 0.5)
		}
	}
	return 0
}

// quantile is the value below which the share q of the values lies, by the nearest rank.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// print writes the tables, in Markdown, and a line for each ratio.
func (r *report) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	fmt.Fprintf(table, "\n| ratio\t| value\t| target\t| \t|\n|---\t|---\t|---\t|---\t|\n")
	for _, ratio := range r.ratios {
		fmt.Fprint(table, ratio.row())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(table, "\n| what\t| unit\t| median\t| least\t| greatest\t| runs\t|\n|---\t|---\t|---\t|---\t|---\t|---\t|\n")
	for _, s := range r.series {
		fmt.Fprintf(table, "| %s\t| %s\t| %.4g\t| %.4g\t| %.4g\t| %d\t|\n",
			s.Name, s.Unit, quantile(s.Values, 0.5), slices.Min(s.Values), slices.Max(s.Values), len(s.Values))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, note := range r.notes {
		fmt.Fprintln(out, note)
	}
	for _, ratio := range r.ratios {
		fmt.Fprintf(out, "RATIO %s %.3f\n", ratio.name, ratio.value)
	}
	return nil
}

// write puts what print says into a file of its own.
func (r *report) write(path string) error {
	var text bytes.Buffer
	if err := r.print(&text); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o600)
}

// save appends every reading to a file, one JSON object a line.
func (r *report) save(path string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := json.NewEncoder(file)
	now := time.Now().UTC()
	for _, s := range r.series {
		if err := lines.Encode(map[string]any{"time": now, "name": s.Name, "unit": s.Unit, "values": s.Values}); err != nil {
			return err
		}
	}
	return file.Close()
}
