// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

// Meaning describes the groups of a backend.
func Meaning(b names.Backend) string { return meanings[b] }

var meanings = map[names.Backend]string{
	names.SystemdUser:   "a scope of your own manager, in mcp.slice",
	names.SystemdSystem: "a scope of the system manager, in mcp.slice",
	names.Delegated:     "a group below the cgroup that is delegated to you",
	names.Cgroup:        "a group below mcp.slice in the cgroup2 hierarchy",
	names.Tree:          "no control group, which is weaker; --require refuses it",
}

// line is a line of the text of a diagnosis. A remedy of the line before has no subject.
type line struct{ subject, text string }

func remedyLine(remedy string) line { return line{text: "→ " + remedy} }

// String returns the line with its end, and without the characters that control a terminal.
func (l line) String() string { return fmt.Sprintf("  %-15s %s\n", l.subject, cli.OneLine(l.text)) }

// Text is the diagnosis for people, without the selftest.
func (d *Diagnosis) Text() string {
	var b strings.Builder
	b.WriteString(d.verdict() + "\n")
	for _, l := range d.backendLines() {
		b.WriteString(l.String())
	}
	b.WriteString("\n")
	for _, l := range d.Host.lines() {
		b.WriteString(l.String())
	}
	for _, l := range d.findingLines() {
		b.WriteString(l.String())
	}
	for _, a := range d.Advice {
		b.WriteString(a.text())
	}
	return b.String()
}

func (d *Diagnosis) verdict() string {
	if d.Backend == "" {
		return "mcpscope run fails: no backend works here\n"
	}
	return fmt.Sprintf("mcpscope run uses %s: %s\n", d.Backend, meanings[d.Backend])
}

// backendLines returns the lines about the trials. They have the reason why a backend does not work, and
// its remedy, only if no better one works: JSON has all.
func (d *Diagnosis) backendLines() []line {
	var lines []line
	foundWorking := false
	for i, t := range d.Backends {
		if foundWorking && !t.Works {
			lines = append(lines, line{string(t.Backend), "not needed"})
			continue
		}
		result := "no: " + t.Reason
		isAsBefore := i > 0 && t.Reason != "" && t.Reason == d.Backends[i-1].Reason
		if isAsBefore && t.Remedy == d.Backends[i-1].Remedy {
			lines = append(lines, line{string(t.Backend), "no, for the same reason"})
			continue
		}
		if t.Works {
			foundWorking = true
			result = fmt.Sprintf("works, in %d ms%s", t.Milliseconds, t.limitsText())
		}
		lines = append(lines, line{string(t.Backend), result})
		if t.Remedy != "" {
			lines = append(lines, remedyLine(t.Remedy))
		}
	}
	return lines
}

func (h Host) lines() []line {
	kernel := "Linux " + h.Kernel
	if h.Old {
		kernel += ": too old, mcpscope needs 5.14"
	}
	lines := []line{{"kernel", kernel}, {"hierarchy", h.Cgroup.text()}, {"swap", swapText(h.Swap)}}
	if h.SwapRemedy != "" {
		lines = append(lines, remedyLine(h.SwapRemedy))
	}
	if h.Unit != nil {
		lines = append(lines, line{"unit", fmt.Sprintf("%s of the %s manager", h.Unit.Name, h.Unit.Manager)})
	}
	return lines
}

// findingLines returns the lines about gateways, settings, limits, clients, agents and leaks.
func (d *Diagnosis) findingLines() []line {
	lines := linesOf("gateway", d.Gateways)
	for _, g := range d.Uncontained {
		lines = append(lines, line{"gateway", uncontainedText(g)})
		if g.Remedy != "" {
			lines = append(lines, remedyLine(g.Remedy))
		}
	}
	for _, g := range d.Changed {
		lines = append(lines, line{"gateway", g.text()}, remedyLine(g.Remedy))
	}
	lines = append(lines, linesOf("settings", d.Settings)...)
	lines = append(lines, linesOf("settings", d.Unmatched)...)
	lines = append(lines, linesOf("limits", d.Limits)...)
	lines = append(lines, linesOf("clients", d.Configured)...)
	for _, a := range d.Agents {
		lines = append(lines, line{"agent", a.text()}, remedyLine(a.Remedy))
	}
	if d.Leaks > 0 {
		command := "mcpscope sweep"
		if d.UID == 0 {
			command += " --all-users"
		}
		lines = append(lines, line{"leaks", cli.Counted(d.Leaks, "leaked server") + ": " + command})
	}
	return lines
}

func linesOf(subject string, texts []string) (lines []line) {
	for _, text := range texts {
		lines = append(lines, line{subject, text})
	}
	return lines
}

func (a Advice) text() string {
	text := fmt.Sprintf("\n%s\n  → %s\n", cli.OneLine(a.Reason), cli.OneLine(a.Command))
	for l := range strings.Lines(a.DropIn) {
		text += "      " + l
	}
	return text
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
		text += fmt.Sprintf("  %-15s %-15s %s\n", c.Child, c.End, verdict)
	}
	return text
}
