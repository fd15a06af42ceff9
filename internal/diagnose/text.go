// SPDX-License-Identifier: Apache-2.0

//go:build linux

package diagnose

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/hostinfo"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// printer prints one fact per line.
type printer struct{ io.Writer }

func (p printer) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

func (p printer) line(subject, text string) { p.printf("  %-15s %s\n", subject, cli.OneLine(text)) }

var meanings = map[protocol.Backend]string{
	protocol.SystemdUser:   "a scope of your own manager, in mcp.slice",
	protocol.SystemdSystem: "a scope of the system manager, in mcp.slice",
	protocol.Delegated:     "a group below the cgroup that is delegated to you",
	protocol.Cgroup:        "a group below mcp.slice in the cgroup2 hierarchy",
}

// Print prints all but the selftest.
func (d *diagnosis) Print(to io.Writer) {
	p := printer{to}
	meaning := meanings[d.Backend]
	if !d.Group {
		meaning = "no control group, which is weaker; --require refuses it"
	}
	if d.Backend == "" {
		p.printf("mcpscope run fails: no backend works here\n\n")
	} else {
		p.printf("mcpscope run uses %s: %s\n\n", d.Backend, meaning)
	}
	better := true
	for _, t := range d.Backends {
		better = better && !t.Works
		t.print(p, better)
	}
	p.printf("\n")
	d.printHost(p)
	for _, text := range d.Gateways {
		p.line("gateway", text)
	}
	for _, text := range d.Settings {
		p.line("settings", text)
	}
	if d.Leaks > 0 {
		p.line("leaks", cli.Counted(d.Leaks, "leaked server")+": mcpscope sweep")
	}
	for _, a := range d.Advice {
		a.print(p)
	}
}

// print includes the remedy only for a backend that is better than the current one.
func (t Trial) print(p printer, better bool) {
	if t.Works {
		p.line(string(t.Backend), fmt.Sprintf("works, in %d ms%s", t.Milliseconds, t.limits()))
		if t.Early {
			p.line("", "the server starts at once in a new cgroup, and systemd turns it into a scope")
		}
		return
	}
	p.line(string(t.Backend), "no: "+t.Reason)
	if better && t.Remedy != "" {
		p.line("", "→ "+t.Remedy)
	}
}

// limits lists the resources that can be limited.
func (t Trial) limits() string {
	var can []string
	for _, c := range t.Controllers {
		if c == "cpu" || c == "memory" || c == "pids" {
			can = append(can, c)
		}
	}
	switch {
	case !t.Group:
		return ""
	case len(can) == 0:
		return "; no limits: the controllers cpu, memory and pids are not available"
	}
	return "; limits possible: " + strings.Join(can, ", ")
}

func (d *diagnosis) printHost(p printer) {
	h := d.Host
	p.line("kernel", kernelText(h.Kernel))
	for _, l := range h.Kernel.Lacks {
		p.line("", fmt.Sprintf("%s is refused (seccomp?): %s", l.Feature, l.Then))
	}
	p.line("cgroup", cgroupText(h.Cgroup))
	for _, m := range h.Managers {
		p.line("systemd", string(m.Name)+" manager: "+cmp.Or(m.Error, m.Version))
	}
	if h.Lingering != nil {
		p.line("lingering", map[bool]string{true: "yes", false: "no"}[*h.Lingering])
	}
	reaps := "reaps"
	if !h.Init.Reaps {
		reaps = "may not reap orphans"
	}
	p.line("PID 1", cmp.Or(h.Init.Name, "unknown")+", "+reaps)
	p.line("swap", map[string]string{
		"zram": "zram: the memory of idle servers can be reclaimed (run --idle-freeze)",
		"disk": "a disk: the memory of idle servers can be reclaimed (run --idle-freeze); zram is faster",
		"":     "none, so a frozen server keeps its memory: apt install systemd-zram-generator, or its like",
	}[h.Swap])
	if h.Unit != nil {
		p.line("unit", d.unitText(h.Unit))
	}
}

func kernelText(k hostinfo.Kernel) string {
	switch {
	case k.Old:
		return "Linux " + k.Release + ": too old, mcpscope needs " + hostinfo.Oldest
	case len(k.Lacks) == 0:
		return "Linux " + k.Release + ", with all features that mcpscope uses"
	}
	return "Linux " + k.Release
}

func cgroupText(h hostinfo.Hierarchy) string {
	if h.Problem != "" {
		return h.Problem
	}
	text := "v2 at " + h.Mount
	if h.Hybrid {
		text += ", with controllers in v1"
	}
	if h.Private {
		text += ", a private namespace"
	}
	return text + "; mcpscope runs in " + h.Path
}

func (d *diagnosis) unitText(u *hostinfo.Unit) string {
	text := fmt.Sprintf("%s of the %s manager", u.Name, u.Manager)
	switch {
	case !d.managed():
		return text
	case u.Binds(d.Backend):
		return text + "; servers are bound to it, and stop after it"
	}
	return text + "; servers are not bound to it"
}

func (a advice) print(p printer) {
	p.printf("\n")
	for _, reason := range a.Reasons {
		p.printf("%s\n", cli.OneLine(reason))
	}
	if a.Command != "" {
		p.printf("  → %s\n", cli.OneLine(a.Command))
	}
	for line := range strings.Lines(a.DropIn) {
		p.printf("      %s\n", cli.OneLine(strings.TrimSuffix(line, "\n")))
	}
}

func (d *diagnosis) PrintSelftest(to io.Writer) {
	p := printer{to}
	for i, c := range d.Selftest {
		if i == 0 {
			p.printf("\nselftest on %s\n", d.Backend)
		}
		verdict := "nothing left"
		if !c.Passed {
			verdict = "FAIL: " + cli.OneLine(c.Problem)
		}
		p.printf("  %-15s %-15s %5.2f s  %s\n", c.Child, c.End, c.Seconds, verdict)
	}
}
