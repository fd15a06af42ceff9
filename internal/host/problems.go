// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

// Capability is what a host can give servers, or what a person can set up for them.
type Capability string

// The capabilities that hosts lack.
const (
	Kernel      Capability = "kernel"
	Group       Capability = "cgroup"  // a cgroup for each server
	Controllers Capability = "limits"  // of memory, CPU and processes
	Manager     Capability = "manager" // that outlives the client's session
	Job         Capability = "job"     // of a batch system, that the servers are in
	Reaper      Capability = "init"    // a PID 1 that reaps
	Stop        Capability = "stop"    // a unit that lets the client use its servers while it stops
	Reclaim     Capability = "swap"    // where the memory of idle servers can go
	Filter      Capability = "seccomp" // that holds what a gateway executes

	Gateways Capability = "gateway"  // that contain their servers
	Settings Capability = "settings" // without a mistake
	Clients  Capability = "clients"  // that start their servers by mcpscope
	Agents   Capability = "agent"    // in front of which is mcpscope
	Leaks    Capability = "leaks"    // that nothing has left behind
)

// Problem is something that does not work, or could work better, with the next step.
type Problem struct {
	Capability Capability `json:"capability"`
	What       string     `json:"what"`
	Why        string     `json:"why,omitempty"`
	Fix        string     `json:"fix,omitempty"`     // a command or a step
	DropIn     string     `json:"drop_in,omitempty"` // the lines for the editor that Fix starts
	// Minor: servers are contained, and have the limits that they were given, all the same.
	Minor bool `json:"minor,omitempty"`
}

// Problems are those of the host: what has to be repaired first.
func (h *Host) Problems() []Problem {
	var all []Problem
	if isTooOld(h.Kernel) {
		all = append(all, Problem{Capability: Kernel, What: "Linux " + h.Kernel + " is too old",
			Why: "mcpscope needs 5.14, which has cgroup.kill", Fix: "upgrade the kernel"})
	}
	best, ok := h.Best()
	if !best.HasGroup() {
		all = append(all, h.groupProblems()...)
	}
	if !ok { // nothing else matters
		return all
	}
	missing := best.Missing()
	if best.HasGroup() && len(missing) > 0 {
		all = append(all, Problem{Capability: Controllers, Minor: true,
			What: "servers can have no limits of " + strings.Join(missing, ", "),
			Fix:  group.StepForControllers(best.Name, missing, h.Cgroup.Mount, h.Cgroup.Hybrid)})
	}
	return append(all, h.minorProblems(best.Name)...)
}

// groupProblems are why no backend gives servers a cgroup: one for each reason.
func (h *Host) groupProblems() []Problem {
	var all []Problem
	for _, b := range h.Backends {
		if b.Usable {
			continue
		}
		last := len(all) - 1
		if last >= 0 && all[last].Why == b.Reason && all[last].Fix == b.Fix {
			all[last].What = strings.TrimSuffix(all[last].What, notUsable) + ", " + string(b.Name) + notUsable
			continue
		}
		what := string(b.Name) + notUsable
		all = append(all, Problem{Capability: Group, What: what, Why: b.Reason, Fix: b.Fix})
	}
	return all
}

const notUsable = " cannot be used"

// minorProblems are what can be improved for servers on a backend that works.
func (h *Host) minorProblems(b names.Backend) []Problem {
	var all []Problem
	if h.Unit != nil && h.Unit.KillMode == "control-group" {
		all = append(all, Problem{Capability: Stop, Minor: true,
			What: "the client cannot use its servers while it shuts down",
			Why:  "KillMode=control-group: systemd sends SIGTERM to the client and to all servers at once",
			Fix:  h.Unit.Edit(), DropIn: "[Service]\nKillMode=mixed\n"})
	}
	if b == names.SystemdUser && !h.Lingering {
		all = append(all, Problem{Capability: Manager, Minor: true,
			What: "your user manager stops at your last logout, with all your servers",
			Fix:  EnableLinger()})
	}
	isOfManager := b == names.SystemdUser || b == names.SystemdSystem
	if h.Job != "" && isOfManager { // as after salloc, on a login node
		all = append(all, Problem{Capability: Job, Minor: true,
			What: "servers are outside of Slurm's job " + h.Job + ", its limits and its accounting",
			Why:  "the client is in " + h.Cgroup.Path,
			Fix:  "start the client in a step: srun --pty CLIENT"})
	}
	if !h.Init.Reaps {
		then := "the next sweep stops the server"
		if b == names.Tree {
			then = "nothing stops the rest of the server"
		}
		all = append(all, Problem{Capability: Reaper, Minor: true,
			What: "PID 1 (" + cmp.Or(h.Init.Name, "unknown") + ") may not reap orphans",
			Why:  "a client that kills its process tree kills launcher and guard, and " + then,
			Fix:  "docker run --init, podman run --init"})
	}
	if h.Swap == "" {
		all = append(all, Problem{Capability: Reclaim, Minor: true,
			What: "no swap, so a frozen server keeps its memory", Fix: AddSwap})
	}
	return all
}

// limitControllers are the controllers of the limits that flags and settings files have names for.
var limitControllers = []string{"cpu", "memory", "pids"}

// Missing returns those of cpu, memory and pids with which servers cannot be limited.
func (b Backend) Missing() []string {
	return slices.DeleteFunc(slices.Clone(limitControllers), func(controller string) bool {
		return slices.Contains(b.Controllers, controller)
	})
}

// Limits lists those of cpu, memory and pids with which servers can be limited, or "no".
func (b Backend) Limits() string {
	missing := b.Missing()
	possible := slices.DeleteFunc(slices.Clone(limitControllers), func(controller string) bool {
		return slices.Contains(missing, controller)
	})
	switch {
	case len(possible) == 0:
		return "no"
	case len(missing) == 0:
		return "yes"
	}
	return strings.Join(possible, ", ") + fmt.Sprintf(" (no controller for %s)", strings.Join(missing, ", "))
}

// Summary says in one line what servers get: a cgroup, limits, and to be frozen while they are idle.
func (b Backend) Summary() string {
	if !b.HasGroup() {
		return fmt.Sprintf("cgroup: no (%s); limits: no; freeze: no", cmp.Or(b.Name, "no backend works"))
	}
	return "cgroup: yes; limits: " + b.Limits() + "; freeze: yes"
}

// Meaning describes the groups of a backend.
func Meaning(b names.Backend) string {
	switch b {
	case names.SystemdUser:
		return "a scope of your own manager, in mcp.slice"
	case names.SystemdSystem:
		return "a scope of the system manager, in mcp.slice"
	case names.Delegated:
		return "a group below the cgroup that is delegated to you"
	case names.Cgroup:
		return "a group below mcp.slice in the cgroup2 hierarchy"
	case names.Tree:
		return "no control group, which is weaker; --require refuses it"
	}
	return ""
}

// Text describes the place in the hierarchy for people.
func (c Cgroup) Text() string {
	if c.Problem != "" {
		return c.Problem
	}
	text := "v2 at " + c.Mount
	if c.Hybrid {
		text += ", with controllers in v1"
	}
	return text + "; mcpscope runs in " + c.Path
}
