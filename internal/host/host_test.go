// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/server/names"
)

func TestIsTooOld(t *testing.T) {
	for release, want := range map[string]bool{
		"4.19.0": true, "5.4.0-42-generic": true, "5.13.19": true, "5.14.0": false, "6.1.0-10-amd64": false,
		"10.0": false, "unknown": false, "": false,
	} {
		if got := isTooOld(release); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}

// One device with zram is enough.
func TestSwapIn(t *testing.T) {
	const heading = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
	for text, want := range map[string]string{
		"": "", heading: "",
		heading + "/dev/sda2 partition 1 0 -2\n":                          "disk",
		heading + "/dev/zram0 partition 1 0 100\n":                        "zram",
		heading + "/swap.img file 1 0 -2\n/dev/zram0 partition 1 0 100\n": "zram",
	} {
		if got := swapIn(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// good is a host that lacks nothing.
func good() Host {
	return Host{
		Kernel: "6.1.0", Cgroup: Cgroup{Mount: "/sys/fs/cgroup"}, Lingering: true,
		Init: Init{Name: "systemd", Reaps: true}, Swap: "zram",
		Backends: []Backend{
			{Name: names.SystemdUser, Usable: true, Controllers: []string{"cpu", "io", "memory", "pids"}},
			{Name: names.Delegated, Reason: "not delegated", Fix: "delegate it"},
			{Name: names.Tree, Usable: true},
		},
	}
}

// Each lack has a capability, words that say what, and mostly a fix. Without a backend nothing else is named.
func TestProblems(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(h *Host)
		want   []string // CAPABILITY: parts of the problem; severe ones begin with "!"
	}{
		{"nothing", func(*Host) {}, nil},
		{"no backend", func(h *Host) {
			h.Backends = []Backend{{Name: names.SystemdUser, Reason: "no bus", Fix: "start it"}, {Name: names.Tree, Reason: "no fork"}}
			h.Swap = ""
		}, []string{"!cgroup: systemd-user cannot be used|no bus|start it", "!cgroup: tree cannot|no fork"}},
		{"one reason for all", func(h *Host) {
			h.Backends[0] = Backend{Name: names.SystemdUser, Reason: "no mount", Fix: "mount it"}
			h.Backends[1] = Backend{Name: names.Delegated, Reason: "no mount", Fix: "mount it"}
		}, []string{"!cgroup: systemd-user, delegated cannot be used|no mount|mount it"}},
		{"no controller", func(h *Host) { h.Backends[0].Controllers = []string{"memory", "pids"} },
			[]string{"limits: no limits of cpu|Delegate=cpu memory pids io"}},
		{"an old kernel", func(h *Host) { h.Kernel = "5.10.0" }, []string{"!kernel: 5.10.0|5.14"}},
		{"a unit that signals all", func(h *Host) { h.Unit = &Unit{Name: "g.service", Manager: "system", KillMode: "control-group"} },
			[]string{"stop: shuts down|KillMode=control-group|sudo systemctl edit g.service|KillMode=mixed"}},
		{"no lingering", func(h *Host) { h.Lingering = false }, []string{"manager: last logout|enable-linger"}},
		{"no lingering, and another backend", func(h *Host) {
			h.Lingering = false
			h.Backends[0].Name = names.Cgroup
		}, nil},
		{"in a shell beside its job", func(h *Host) { h.Job = "8" }, []string{"job: outside of Slurm's job 8|srun --pty"}},
		{"in its job", func(h *Host) {
			h.Job = "8"
			h.Backends[0].Name = names.Delegated
		}, nil},
		{"an init that reaps nothing", func(h *Host) { h.Init = Init{Name: "node"} }, []string{"init: PID 1 (node)|next sweep|--init"}},
		{"no swap", func(h *Host) { h.Swap = "" }, []string{"swap: keeps its memory"}},
	} {
		h := good()
		c.change(&h)
		got := h.Problems()
		if len(got) != len(c.want) {
			t.Errorf("%s: %+v, want %q", c.what, got, c.want)
			continue
		}
		for i, p := range got {
			want, isSevere := strings.CutPrefix(c.want[i], "!")
			capability, parts, _ := strings.Cut(want, ": ")
			text := p.What + "\n" + p.Why + "\n" + p.Fix + "\n" + p.DropIn
			for _, part := range strings.Split(parts, "|") {
				if !strings.Contains(text, part) {
					t.Errorf("%s: no %q in %q", c.what, part, text)
				}
			}
			if string(p.Capability) != capability || p.Minor == isSevere {
				t.Errorf("%s: %+v, want %q", c.what, p, c.want[i])
			}
		}
	}
}

// What servers get fits into a line.
func TestSummary(t *testing.T) {
	for want, b := range map[string]Backend{
		"cgroup: yes; limits: yes; freeze: yes": {Name: names.Cgroup, Usable: true, Controllers: []string{"cpu", "memory", "pids"}},
		"cgroup: yes; limits: memory (no controller for cpu, pids); freeze: yes": {
			Name: names.Cgroup, Usable: true, Controllers: []string{"memory", "cpuset"}},
		"cgroup: yes; limits: no; freeze: yes":                  {Name: names.Delegated, Usable: true},
		"cgroup: no (tree); limits: no; freeze: no":             {Name: names.Tree, Usable: true},
		"cgroup: no (no backend works); limits: no; freeze: no": {},
	} {
		if got := b.Summary(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A look leaves what it finds: its own cgroup, and no directory in it.
func TestLook(t *testing.T) {
	before, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skip(err)
	}
	h := Look()
	after, err := os.ReadFile("/proc/self/cgroup")
	if err != nil || string(before) != string(after) {
		t.Errorf("%v: it moved from %s to %s", err, before, after)
	}
	if len(h.Backends) != 4 || h.Kernel == "" {
		t.Errorf("%+v", h)
	}
}
