// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/host"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/settings"
	"github.com/mcpscope/mcpscope/internal/units"
)

// goodHost lacks nothing.
func goodHost() host.Host {
	return host.Host{
		Kernel: "6.1.0", Cgroup: host.Cgroup{Mount: "/sys/fs/cgroup", Path: "/user.slice"}, Lingering: true,
		Init: host.Init{Name: "systemd", Reaps: true}, Swap: "zram",
		Backends: []host.Backend{{Name: names.Cgroup, Usable: true, Controllers: []string{"cpu", "memory", "pids"}}},
	}
}

const goodText = `mcpscope run uses cgroup: a group below mcp.slice in the cgroup2 hierarchy
cgroup: yes; limits: yes; freeze: yes

  kernel     Linux 6.1.0
  cgroup     v2 at /sys/fs/cgroup; mcpscope runs in /user.slice
  swap       zram: the memory of idle servers can be reclaimed

`

// A host without a problem has a text without a fix.
func TestGoodHost(t *testing.T) {
	d := New(goodHost())
	if got := d.Text(); got != goodText+"no problem was found\n" || !d.IsHealthy() || !d.Group {
		t.Errorf("healthy: %v, group: %v\n%s", d.IsHealthy(), d.Group, got)
	}
}

// Without a backend the text says so first.
func TestNoBackend(t *testing.T) {
	h := goodHost()
	h.Backends = []host.Backend{{Name: names.Tree, Reason: "no fork", Fix: "raise the limit"}}
	d := New(h)
	if got := d.Text(); !strings.HasPrefix(got, "mcpscope run fails: ") || d.IsHealthy() || d.Backend != "" {
		t.Errorf("healthy: %v\n%s", d.IsHealthy(), got)
	}
}

// Each finding is a problem with a capability. Some are failures, and the others are not.
func TestFindings(t *testing.T) {
	limit := func(file string) []settings.PlacedLimit {
		return []settings.PlacedLimit{{Limit: cgroup.Limit{File: file, Value: "1"}, Place: "/f:2"}}
	}
	for _, c := range []struct {
		what   string
		add    func(d *Diagnosis)
		severe bool
		want   string // the lines that the good host has not
	}{
		{"a limit that can be had", func(d *Diagnosis) { d.addLimits(limit("pids.max")) }, false, ""},
		{"a limit without its controller", func(d *Diagnosis) { d.addLimits(limit("io.max")) }, true,
			"  limits     /f:2: io.max=1 cannot be applied: cgroup has no controller io, so mcpscope run starts nothing; below a gateway servers start without it\n"},
		{"an uncontained gateway", func(d *Diagnosis) {
			d.add(uncontainedProblem(units.UncontainedGateway{Unit: "g.service", Reason: "no right", Remedy: "add Delegate=yes"}))
		}, true, "  gateway    g: its servers are NOT contained: no right\n             → add Delegate=yes\n"},
		{"a gateway with trees", func(d *Diagnosis) {
			d.add(uncontainedProblem(units.UncontainedGateway{Unit: "/h", State: containment.Weaker, Reason: "x\x1b"}))
		}, true, "  gateway    /h: its servers are contained without cgroups, which is weaker: x?\n"},
		{"agents", func(d *Diagnosis) {
			d.add(agentProblem(7, "codex", "app"))
			d.add(agentProblem(8, "goose", ""))
		}, false, `  agent      codex[7] in app runs without mcpscope
             → next time: mcpscope gateway -- codex --no-daemon (its servers end with it), or mcpscope run -- codex --no-daemon (all that it starts does)
  agent      goose[8] runs without mcpscope
             → next time: mcpscope gateway -- goose (its servers end with it), or mcpscope run -- goose (all that it starts does)
`},
		{"leaks", func(d *Diagnosis) {
			d.UID = 1000
			d.addLeaks(2)
		}, false, "  leaks      2 leaked servers\n             → mcpscope sweep\n"},
		{"no leak", func(d *Diagnosis) { d.addLeaks(0) }, false, ""},
		{"lines to write", func(d *Diagnosis) {
			d.add(host.Problem{Capability: host.Stop, What: "it ends early", Fix: "edit g", DropIn: "[Service]\nKillMode=mixed\n", Minor: true})
		}, false, "  stop       it ends early\n             → edit g\n                 [Service]\n                 KillMode=mixed\n"},
	} {
		t.Run(c.what, func(t *testing.T) {
			d := New(goodHost())
			c.add(d)
			if got := newLines(d.Text()); got != c.want || d.IsHealthy() == c.severe {
				t.Errorf("healthy: %v\n%s\nwant\n%s", d.IsHealthy(), got, c.want)
			}
		})
	}
}

// newLines returns the lines of a text that the good host has not.
func newLines(text string) string {
	known := slices.Collect(strings.Lines(goodText + "no problem was found\n"))
	var lines []string
	for line := range strings.Lines(text) {
		if !slices.Contains(known, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// A selftest that has failed is a failure of the host.
func TestSelftestText(t *testing.T) {
	d := New(goodHost())
	if got := d.SelftestText(); got != "" {
		t.Errorf("without a selftest: %q", got)
	}
	d.Selftest = []TestCase{{Child: "child", End: "sigterm", Passed: true}}
	if !d.IsHealthy() {
		t.Error("a test that has passed is a failure")
	}
	d.Selftest = append(d.Selftest, TestCase{Child: "setsid", End: "stdin-closed", Problem: "a process is left\nafter 1m0s"})
	const want = `
selftest on cgroup
  child      sigterm         nothing left
  setsid     stdin-closed    FAIL: a process is left?after 1m0s
`
	if got := d.SelftestText(); got != want || d.IsHealthy() {
		t.Errorf("healthy: %v\n%s\nwant\n%s", d.IsHealthy(), got, want)
	}
}

// A selftest without a runner, or with another program, fails in each case with the reason.
func TestSelftestFails(t *testing.T) {
	for runner, want := range map[string]string{"/no/such/mcpscope": "no such file", "/bin/true": "the server did not start: "} {
		cases := Selftest(runner, names.Tree)
		if len(cases) != len(selftestChildren)*len(selftestEnds) {
			t.Errorf("%d cases", len(cases))
		}
		for _, c := range cases {
			if c.Passed || !strings.Contains(c.Problem, want) {
				t.Errorf("%s: %+v", runner, c)
			}
		}
	}
}
