// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/host"
)

// line is a line of the text of a diagnosis. A fix of the line before has no subject.
type line struct{ subject, text string }

// String returns the line with its end, and without the characters that control a terminal.
func (l line) String() string { return fmt.Sprintf("  %-10s %s\n", l.subject, cli.OneLine(l.text)) }

// Text is the diagnosis for people, without the selftest.
func (d *Diagnosis) Text() string {
	var b strings.Builder
	b.WriteString(d.verdict() + "\n")
	for _, l := range d.facts() {
		b.WriteString(l.String())
	}
	b.WriteString("\n")
	for _, p := range d.Problems {
		b.WriteString(problemText(p))
	}
	if len(d.Problems) == 0 {
		b.WriteString("no problem was found\n")
	}
	return b.String()
}

func (d *Diagnosis) verdict() string {
	best, ok := d.Host.Best()
	if !ok {
		return "mcpscope run fails: no backend works here\n"
	}
	return fmt.Sprintf("mcpscope run uses %s: %s\n%s\n", best.Name, host.Meaning(best.Name), best.Summary())
}

func (d *Diagnosis) facts() []line {
	h := d.Host
	lines := []line{{"kernel", "Linux " + h.Kernel}, {"cgroup", h.Cgroup.Text()}}
	if h.Swap != "" {
		meaning := "but a frozen server keeps its memory without the memory controller"
		if h.Reclaims() {
			meaning = "the memory of idle servers can be reclaimed"
		}
		lines = append(lines, line{"swap", h.Swap + ": " + meaning})
	}
	if h.Unit != nil {
		lines = append(lines, line{"unit", fmt.Sprintf("%s of the %s manager", h.Unit.Name, h.Unit.Manager)})
	}
	for _, g := range d.Gateways {
		lines = append(lines, line{"gateway", g})
	}
	return lines
}

func problemText(p host.Problem) string {
	text := p.What
	if p.Why != "" {
		text += ": " + p.Why
	}
	all := line{string(p.Capability), text}.String()
	if p.Fix != "" {
		all += line{"", "→ " + p.Fix}.String()
	}
	for l := range strings.Lines(p.DropIn) {
		all += line{"", "    " + strings.TrimSuffix(l, "\n")}.String()
	}
	return all
}

// SelftestText is the selftest for people, or "" without one.
func (d *Diagnosis) SelftestText() string {
	if len(d.Selftest) == 0 {
		return ""
	}
	text := fmt.Sprintf("\nselftest on %s\n", d.Backend)
	for _, c := range d.Selftest {
		verdict := "nothing left"
		if !c.Passed {
			verdict = "FAIL: " + cli.OneLine(c.Problem)
		}
		text += fmt.Sprintf("  %-10s %-15s %s\n", c.Child, c.End, verdict)
	}
	return text
}
