// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"text/tabwriter"
)

// JSONEnv names the file of the machine for the report as JSON.
const JSONEnv = "MCPSCOPE_BENCH_JSON"

// A Report is everything that one run has measured.
type Report struct {
	Version  int       `json:"version"`
	Machine  Machine   `json:"machine"`
	Sections []Section `json:"sections"`
}

// save writes JSON to a file that is there already: in the host no other one of the
// machine can be written.
func (r *Report) save(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// print writes tables that are Markdown as well.
func (r *Report) print(out io.Writer) error {
	fmt.Fprintf(out, "%s\n", r.Machine)
	for _, s := range r.Sections {
		if err := s.print(out); err != nil {
			return err
		}
	}
	return nil
}

func (s Section) print(out io.Writer) error {
	fmt.Fprintf(out, "\n%s\n\n", s.Title)
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	for _, line := range s.lines() {
		fmt.Fprintf(w, "| %s\t|\n", strings.Join(line, "\t| "))
	}
	err := w.Flush()
	for _, skip := range s.Skipped {
		fmt.Fprintf(out, "\nSKIP %s: %s\n", skip.Name, skip.Reason)
	}
	return err
}

func (s Section) lines() [][]string {
	head := []string{"", "min", "p50", "p90"}
	if s.Base != "" {
		head = append(head, s.Base+": min", "p50", "p90", "ratio", "more: min", "p50", "p90")
	}
	lines := [][]string{append(head, "unit", "n", "aim", ""), nil}
	for range lines[0] {
		lines[1] = append(lines[1], "---")
	}
	for _, r := range s.Rows {
		lines = append(lines, s.line(r))
	}
	return lines
}

func (s Section) line(r Row) []string {
	cells := append([]string{r.Name}, r.Value.cells()...)
	if s.Base != "" {
		cells = append(cells, r.Base.cells()...)
		cells = append(cells, fmt.Sprintf("%.2f", r.Ratio))
		cells = append(cells, r.Difference.cells()...)
	}
	verdict := ""
	if r.Met != nil {
		verdict = map[bool]string{true: "met", false: "MISSED"}[*r.Met]
	}
	return append(cells, r.Unit, fmt.Sprint(r.Value.N), r.Aim, verdict)
}

func (s *Summary) cells() []string {
	var cells []string
	for _, v := range []float64{s.Min, s.P50, s.P90} {
		cells = append(cells, threeDigits(v))
	}
	if s.N == 1 { // a count, and no sample
		cells[0], cells[2] = "", ""
	}
	return cells
}

// threeDigits is as exact as such numbers ever are.
func threeDigits(v float64) string {
	switch {
	case math.Abs(v) < 10:
		return fmt.Sprintf("%.2f", v)
	case math.Abs(v) < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
