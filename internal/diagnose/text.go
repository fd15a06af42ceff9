// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Meaning describes the groups of a backend.
func Meaning(b protocol.Backend) string { return meanings[b] }

var meanings = map[protocol.Backend]string{
	protocol.SystemdUser:   "a scope of your own manager, in mcp.slice",
	protocol.SystemdSystem: "a scope of the system manager, in mcp.slice",
	protocol.Delegated:     "a group below the cgroup that is delegated to you",
	protocol.Cgroup:        "a group below mcp.slice in the cgroup2 hierarchy",
	protocol.Tree:          "no control group, which is weaker; --require refuses it",
}

// Print prints all but the selftest.
func (d *diagnosis) Print(to io.Writer) {
	line := func(subject, text string) { fmt.Fprintf(to, "  %-15s %s\n", subject, cli.OneLine(text)) }
	if d.Backend == "" {
		fmt.Fprint(to, "mcpscope run fails: no backend works here\n\n")
	} else {
		fmt.Fprintf(to, "mcpscope run uses %s: %s\n\n", d.Backend, meanings[d.Backend])
	}
	better := true // than the backend that run uses
	for _, t := range d.Backends {
		if better = better && !t.Works; t.Works {
			line(string(t.Backend), fmt.Sprintf("works, in %d ms%s", t.Milliseconds, t.limits()))
			if t.Remedy != "" {
				line("", "→ "+t.Remedy)
			}
			continue
		}
		line(string(t.Backend), "no: "+t.Reason)
		if better && t.Remedy != "" {
			line("", "→ "+t.Remedy)
		}
	}
	fmt.Fprintln(to)
	h := d.Host
	kernel := "Linux " + h.Kernel
	if h.Old {
		kernel += ": too old, mcpscope needs 5.14"
	}
	line("kernel", kernel)
	line("cgroup", h.Cgroup.text())
	line("swap", map[string]string{
		"zram": "zram: the memory of idle servers can be reclaimed (run --idle-freeze)",
		"disk": "a disk: the memory of idle servers can be reclaimed (run --idle-freeze); zram is faster",
		"":     "none, so a frozen server keeps its memory",
	}[h.Swap])
	if h.SwapRemedy != "" {
		line("", "→ "+h.SwapRemedy)
	}
	if h.Unit != nil {
		line("unit", fmt.Sprintf("%s of the %s manager", h.Unit.Name, h.Unit.Manager))
	}
	for _, text := range d.Gateways {
		line("gateway", text)
	}
	for _, g := range d.Uncontained {
		line("gateway", uncontainedText(g))
		if g.Remedy != "" {
			line("", "→ "+g.Remedy)
		}
	}
	for _, g := range d.Changed {
		line("gateway", g.text())
		line("", "→ "+g.Remedy)
	}
	for _, text := range d.Settings {
		line("settings", text)
	}
	for _, text := range d.Limits {
		line("limits", text)
	}
	for _, text := range d.Configured {
		line("clients", text)
	}
	for _, a := range d.Agents {
		line("agent", a.text())
		line("", "→ "+a.Remedy)
	}
	if d.Leaks > 0 {
		line("leaks", cli.Counted(d.Leaks, "leaked server")+": mcpscope sweep")
	}
	for _, a := range d.Advice {
		fmt.Fprintf(to, "\n%s\n  → %s\n", cli.OneLine(a.Reason), cli.OneLine(a.Command))
		for line := range strings.Lines(a.DropIn) {
			fmt.Fprint(to, "      "+line)
		}
	}
}

// limits lists the resources that can be limited.
func (t Trial) limits() string {
	can := slices.DeleteFunc(slices.Clone(t.Controllers), func(c string) bool {
		return !slices.Contains(limitControllers, c)
	})
	switch {
	case !t.Group:
		return ""
	case len(can) == 0:
		return "; no limits: the controllers cpu, memory and pids are not available"
	}
	return "; limits possible: " + strings.Join(can, ", ")
}

func (g groups) text() string {
	text := "v2 at " + g.Mount
	switch {
	case g.Problem != "":
		return g.Problem
	case g.Hybrid:
		text += ", with controllers in v1"
	}
	return text + "; mcpscope runs in " + g.Path
}

func (d *diagnosis) PrintSelftest(to io.Writer) {
	for i, c := range d.Selftest {
		if i == 0 {
			fmt.Fprintf(to, "\nselftest on %s\n", d.Backend)
		}
		verdict := "nothing left"
		if !c.Passed {
			verdict = "FAIL: " + cli.OneLine(c.Problem)
		}
		fmt.Fprintf(to, "  %-15s %-15s %s\n", c.Child, c.End, verdict)
	}
}
