// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/advice"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/settings"
	"github.com/mcpscope/mcpscope/internal/units"
)

// allControllers are those of a backend that lacks no limit.
var allControllers = []string{"cpu", "io", "memory", "pids"}

// goodFacts are those of a host on which nothing has to be repaired, and nothing can be improved.
func goodFacts() Facts {
	return Facts{
		Mcpscope: "v1", UID: 1000,
		Host: Host{
			Kernel: "6.1.0", Cgroup: Cgroup{Mount: "/sys/fs/cgroup", Path: "/user.slice"},
			Lingering: true, Init: Init{Name: "systemd", Reaps: true}, Swap: "zram",
		},
		Trials: []Trial{
			{Backend: names.SystemdUser, Works: true, Milliseconds: 12, Group: true, Position: Position{Controllers: allControllers}},
			{Backend: names.Delegated, Reason: "not delegated", Remedy: "delegate it"},
			{Backend: names.Tree, Works: true, Milliseconds: 4},
		},
	}
}

// withLimits gives servers limits, as a settings file would.
func (f *Facts) withLimits(files ...string) {
	for i, file := range files {
		f.Limits = append(f.Limits, settings.PlacedLimit{
			Limit: cgroup.Limit{File: file, Value: "1"}, Place: fmt.Sprintf("/f:%d", i+1),
		})
	}
}

const goodText = `mcpscope run uses systemd-user: a scope of your own manager, in mcp.slice

  systemd-user    works, in 12 ms; limits possible: cpu, memory, pids
  delegated       not needed
  tree            works, in 4 ms

  kernel          Linux 6.1.0
  hierarchy       v2 at /sys/fs/cgroup; mcpscope runs in /user.slice
  swap            zram: the memory of idle servers can be reclaimed (run --idle-freeze)
`

// A host without a problem has a text without a remedy.
func TestGoodHost(t *testing.T) {
	d := Judge(goodFacts())
	if got := d.Text(); got != goodText {
		t.Errorf("%s\nwant\n%s", got, goodText)
	}
	if !d.IsHealthy() || d.Backend != names.SystemdUser || !d.Group {
		t.Errorf("%+v", d)
	}
}

// Each fact has its lines in the text. Some are failures, and the others are not.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		what      string
		change    func(f *Facts)
		isHealthy bool
		want      string // lines that the good host has not
	}{
		{"no backend works", func(f *Facts) {
			f.Trials = []Trial{{Backend: names.SystemdUser, Reason: "no bus", Remedy: "start it"}, {Backend: names.Tree, Reason: "no fork"}}
			f.Host.Lingering = false // without a backend, nothing else is advised
		}, false, `mcpscope run fails: no backend works here
  systemd-user    no: no bus
                  → start it
  tree            no: no fork
`},
		{"one reason for all groups", func(f *Facts) {
			none := Trial{Reason: "no cgroup2 hierarchy is mounted", Remedy: "mount it"}
			f.Trials = []Trial{none, none, none, f.Trials[2]}
			for i, b := range []names.Backend{names.SystemdUser, names.Delegated, names.Cgroup} {
				f.Trials[i].Backend = b
			}
		}, false, `mcpscope run uses tree: no control group, which is weaker; --require refuses it
  systemd-user    no: no cgroup2 hierarchy is mounted
                  → mount it
  delegated       no, for the same reason
  cgroup          no, for the same reason
`},
		{"a worse backend", func(f *Facts) {
			f.Trials[0] = Trial{Backend: names.SystemdUser, Reason: "no bus", Remedy: "start it"}
		}, false, `mcpscope run uses tree: no control group, which is weaker; --require refuses it
  systemd-user    no: no bus
                  → start it
  delegated       no: not delegated
                  → delegate it
`},
		{"a lack of controllers", func(f *Facts) {
			f.Trials[0].Controllers = []string{"cpuset", "memory", "pids"}
		}, true, `  systemd-user    works, in 12 ms; limits possible: memory, pids
                  → for limits of cpu: sudo systemctl edit user@.service, with the lines [Service] and Delegate=cpu memory pids io; then reboot
`},
		{"a limit without its controller", func(f *Facts) {
			f.Trials[0].Controllers = []string{"memory"}
			f.withLimits("memory.max", "cpu.max")
		}, false, `  systemd-user    works, in 12 ms; limits possible: memory
                  → for limits of cpu, pids: sudo systemctl edit user@.service, with the lines [Service] and Delegate=cpu memory pids io; then reboot
  limits          /f:2: cpu.max=1 cannot be applied: systemd-user has no controller cpu, so mcpscope run starts nothing; below a gateway servers start without it
`},
		{"limits with their controllers", func(f *Facts) { f.withLimits("memory.max", "pids.max") }, true, ""},
		{"an old kernel", func(f *Facts) {
			f.Host.Kernel = "5.10.0"
			f.Host.Old = true
		}, true, "  kernel          Linux 5.10.0: too old, mcpscope needs 5.14\n"},
		{"a hybrid hierarchy", func(f *Facts) { f.Host.Cgroup.Hybrid = true }, true,
			"  hierarchy       v2 at /sys/fs/cgroup, with controllers in v1; mcpscope runs in /user.slice\n"},
		{"no hierarchy", func(f *Facts) { f.Host.Cgroup.Problem = "no cgroup2 mount" }, true,
			"  hierarchy       no cgroup2 mount\n"},
		{"a disk", func(f *Facts) { f.Host.Swap = "disk" }, true,
			"  swap            a disk: the memory of idle servers can be reclaimed (run --idle-freeze); zram is faster\n"},
		{"no swap", func(f *Facts) {
			f.Host.Swap = ""
			f.Host.SwapRemedy = "apt install it"
		}, true, "  swap            none, so a frozen server keeps its memory\n                  → apt install it\n"},
		{"a unit", func(f *Facts) {
			f.Host.Unit = &advice.Unit{Name: "evil\x1b[31m.service", Manager: "system", KillMode: "mixed"}
		}, true,
			"  unit            evil?[31m.service of the system manager\n"},
		{"a unit that kills everything", func(f *Facts) {
			f.Host.Unit = &advice.Unit{Name: "gw.service", Manager: "system", KillMode: "control-group"}
		}, true, `  unit            gw.service of the system manager
KillMode=control-group: systemd sends SIGTERM to the client and to all launchers at the same time, so the client cannot use its servers while it shuts down
  → sudo systemctl edit gw.service
      [Service]
      KillMode=mixed
`},
		{"no lingering", func(f *Facts) { f.Host.Lingering = false }, true,
			"your user manager stops at your last logout, with all your servers\n  → " + advice.EnableLinger() + "\n"},
		{"no lingering, and another backend", func(f *Facts) {
			f.Host.Lingering = false
			f.Trials[0].Backend = names.Cgroup
		}, true, `mcpscope run uses cgroup: a group below mcp.slice in the cgroup2 hierarchy
  cgroup          works, in 12 ms; limits possible: cpu, memory, pids
`},
		{"an init that reaps nothing", func(f *Facts) { f.Host.Init = Init{Name: "node"} }, true,
			`PID 1 (node) may not reap orphans, so a client that kills its process tree kills launcher and guard, and the next sweep stops the server
  → docker run --init, podman run --init
`},
		{"an unknown init, and no group", func(f *Facts) {
			f.Host.Init = Init{}
			f.Trials = f.Trials[2:]
		}, false, `mcpscope run uses tree: no control group, which is weaker; --require refuses it
PID 1 (unknown) may not reap orphans, so a client that kills its process tree kills launcher and guard, and nothing stops the rest of the server
  → docker run --init, podman run --init
`},
		{"a gateway", func(f *Facts) { f.Findings.Gateways = []string{"hermes[7]: 2 servers"} }, true,
			"  gateway         hermes[7]: 2 servers\n"},
		{"an uncontained gateway", func(f *Facts) {
			f.Findings.Uncontained = []units.UncontainedGateway{
				{Unit: "g.service", Reason: "user gw may make no cgroup here", Remedy: "add Delegate=yes"}, {Unit: "/h", Reason: "x"},
			}
			f.Findings.Changed = []ChangedGateway{{Unit: "g.service", Remedy: "install it"}} // its remedy is there already
		}, false, `  gateway         g: its servers are NOT contained: user gw may make no cgroup here
                  → add Delegate=yes
  gateway         /h: its servers are NOT contained: x
`},
		{"a gateway with another command", func(f *Facts) {
			f.Findings.Changed = []ChangedGateway{{Unit: "g.service", Remedy: "mcpscope units --unit g --install --now"}}
		}, false, `  gateway         g: its command has changed since the drop-in was written
                  → mcpscope units --unit g --install --now
`},
		{"a mistake in the settings", func(f *Facts) { f.Findings.Settings = []string{"/f:5: unknown key"} }, false,
			"  settings        /f:5: unknown key\n"},
		{"a section for no server", func(f *Facts) { f.Findings.Unmatched = []string{"/f:5: no server matches"} }, true,
			"  settings        /f:5: no server matches\n"},
		{"servers without mcpscope", func(f *Facts) { f.Findings.Configured = []string{"1 server is configured"} }, true,
			"  clients         1 server is configured\n"},
		{"agents", func(f *Facts) { f.Findings.Agents = []Agent{newAgent(7, "codex", "app"), newAgent(8, "goose", "")} }, true,
			`  agent           codex[7] in app runs without mcpscope
                  → next time: mcpscope gateway -- codex --no-daemon (its servers end with it), or mcpscope run -- codex --no-daemon (all that it starts does)
  agent           goose[8] runs without mcpscope
                  → next time: mcpscope gateway -- goose (its servers end with it), or mcpscope run -- goose (all that it starts does)
`},
		{"leaks", func(f *Facts) { f.Findings.Leaks = 2 }, true, "  leaks           2 leaked servers: mcpscope sweep\n"},
	} {
		t.Run(c.what, func(t *testing.T) {
			f := goodFacts()
			c.change(&f)
			d := Judge(f)
			if got := newLines(d.Text()); got != c.want {
				t.Errorf("%s\nwant\n%s", got, c.want)
			}
			if d.IsHealthy() != c.isHealthy {
				t.Errorf("healthy: %v", d.IsHealthy())
			}
		})
	}
}

// newLines returns the lines of a text that the good host has not.
func newLines(text string) string {
	known := slices.Collect(strings.Lines(goodText))
	var lines []string
	for line := range strings.Lines(text) {
		if !slices.Contains(known, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// A diagnosis changes no fact: a second one is the same.
func TestJudgeKeepsFacts(t *testing.T) {
	f := goodFacts()
	f.Trials[0].Controllers = nil
	f.Findings.Uncontained = []units.UncontainedGateway{{Unit: "a.service"}}
	f.Findings.Changed = []ChangedGateway{{Unit: "a.service"}, {Unit: "b.service"}}
	first := Judge(f).Text()
	if second := Judge(f).Text(); first != second || f.Trials[0].Remedy != "" || len(f.Findings.Changed) != 2 || f.Findings.Changed[0].Unit != "a.service" {
		t.Errorf("%+v\n%s\nand then\n%s", f, first, second)
	}
}

// A selftest that has failed is a failure of the host.
func TestSelftestText(t *testing.T) {
	d := Judge(goodFacts())
	if got := d.SelftestText(); got != "" {
		t.Errorf("without a selftest: %q", got)
	}
	d.Selftest = []TestCase{{Child: "child", End: "sigterm", Passed: true}}
	if !d.IsHealthy() {
		t.Error("a test that has passed is a failure")
	}
	d.Selftest = append(d.Selftest, TestCase{Child: "setsid", End: "stdin-closed", Problem: "a process is left\nafter 1m0s"})
	const want = `
selftest on systemd-user
  child           sigterm         nothing left
  setsid          stdin-closed    FAIL: a process is left?after 1m0s
`
	if got := d.SelftestText(); got != want || d.IsHealthy() {
		t.Errorf("healthy: %v\n%s\nwant\n%s", d.IsHealthy(), got, want)
	}
}

// A server's missing controllers have a remedy, so that the step of a limit that fails (doctor) leads on.
func TestRemedyForControllers(t *testing.T) {
	for _, c := range []struct {
		backend     names.Backend
		controllers []string
		hybrid      bool
		want        string // "" for no remedy
	}{
		{names.SystemdUser, []string{"memory", "pids"}, false, "for limits of cpu: sudo systemctl edit user@.service"},
		{names.SystemdUser, allControllers, false, ""},
		{names.SystemdSystem, nil, false, ""},
		{names.Delegated, nil, false, "for limits of cpu, memory, pids: DelegateSubgroup="},
		{names.Cgroup, []string{"cpu"}, false, "echo '+memory +pids' > /sys/fs/cgroup/cgroup.subtree_control"},
		{names.Cgroup, nil, true, "systemd.unified_cgroup_hierarchy=1"},
	} {
		trial := Trial{Backend: c.backend, Group: true, Position: Position{Controllers: c.controllers}}
		got := remedyForControllers(trial, Cgroup{Mount: "/sys/fs/cgroup", Hybrid: c.hybrid})
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s with %q, hybrid %v: %q, want %q", c.backend, c.controllers, c.hybrid, got, c.want)
		}
	}
	if got := remedyForControllers(Trial{Backend: names.Tree}, Cgroup{Hybrid: true}); got != "" {
		t.Errorf("without a group: %q", got)
	}
}
