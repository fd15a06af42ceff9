// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
)

// cgroup: root without systemd.
var cgroup = escape.Backend{
	Name:   "cgroup",
	Site:   func(t *testing.T) *escape.Site { return newWorld(t).Site },
	Groups: func(s *escape.Site, _ string) string { return rootsSlice(s) },
}

// delegated: the client's own group was delegated to it, and the servers' are below.
var delegated = escape.Backend{
	Name: "delegated",
	Site: func(t *testing.T) *escape.Site {
		s := newWorld(t).Site
		s.Delegates = true
		return s
	},
	Groups: func(_ *escape.Site, client string) string { return client },
	Owns:   true,
	Exempt: exemptDelegated,
}

// exemptDelegated: a unit's end takes supervisors away with what they guard, so who has
// left the unit is left. Two groups up from a payload is the unit still, and so is what is beside its group.
func exemptDelegated(m escape.Mode, e escape.End) string {
	if e.KillsGroup && m.MovesAway && m.Name != "move-grandparent" && m.Name != "move-leaving" {
		return "moved out of the unit, which was killed as a whole"
	}
	return ""
}

// tree: what descends from the supervisor is the group, wherever it moves.
var tree = escape.Backend{
	Name: "tree",
	Site: func(t *testing.T) *escape.Site { return newWorld(t).Site },
	Exempt: func(m escape.Mode, e escape.End) string {
		if e.KillsGroup && strings.HasPrefix(m.Name, "move-") {
			return "the guards were killed with the client's group, which it had left"
		}
		return ""
	},
}

// TestEscape holds the promise that nothing survives and nothing else dies, for
// each way to stay alive and each way to end.
func TestEscape(t *testing.T) {
	t.Parallel()
	fill := func(title string, modes []escape.Mode, ends []escape.End) {
		table := escape.Table{Title: title, Program: binaries.mcpscope, Backend: cgroup, Modes: modes, Ends: ends}
		table.Fill(t)
	}
	modes, ends := binaries.Modes(t), escape.Ends()
	if escape.Full() {
		fill("escape", modes, ends)
		return
	}
	fill("escape, every mode", modes, escape.Named(t, ends, "kill"))
	fill("escape, every end", escape.Named(t, modes, "setsid", "hop-storm", "dead-leader", "ignore-both", "fork-bomb", "nested", "stop-parent"), ends)
}

// TestEscapeDelegated holds it below the client's own group; some modes and the end that makes a
// difference there, unless all is asked for.
func TestEscapeDelegated(t *testing.T) {
	t.Parallel()
	modes, ends := binaries.Modes(t), escape.Ends()
	if !escape.Full() {
		modes = escape.Named(t, modes, append(slices.Clone(escape.Hardest), "move-sibling", "move-parent", "move-grandparent")...)
		ends = escape.Named(t, ends, "cgroup")
	}
	table := escape.Table{Title: "escape", Program: binaries.mcpscope, Backend: delegated, Modes: modes, Ends: ends}
	table.Fill(t)
}

// TestEscapeTree holds it where no cgroup is to be had; some modes, unless all is asked for.
func TestEscapeTree(t *testing.T) {
	t.Parallel()
	modes, ends := binaries.Modes(t), escape.Ends()
	if !escape.Full() {
		modes = escape.Named(t, modes, append(slices.Clone(escape.Hardest), "move-sibling")...)
		ends = escape.Named(t, ends, "superv")
	}
	table := escape.Table{Title: "escape", Program: binaries.mcpscope, Backend: tree, Modes: modes, Ends: ends}
	table.Fill(t)
}

// TestEscapeWithoutCgroupKill holds it where the kernel has no cgroup.kill (before
// 5.14): there the group is frozen, and each member killed; and the supervisor is there before the server, for which
// it matters in whose process tree that is.
func TestEscapeWithoutCgroupKill(t *testing.T) {
	t.Parallel()
	ends := []string{"stdin"}
	if escape.Full() {
		ends = append(ends, "tree")
	}
	table := escape.Table{
		Title: "escape without cgroup.kill", Program: binaries.withoutKill, Backend: cgroup,
		Modes: escape.Named(t, binaries.Modes(t), escape.Hardest...),
		Ends:  escape.Named(t, escape.Ends(), ends...),
	}
	table.Fill(t)
}

// TestKilledWhileItStarts holds it for servers whose guards are killed at any moment of the start.
func TestKilledWhileItStarts(t *testing.T) {
	t.Parallel()
	for _, b := range []escape.Backend{cgroup, delegated} {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			escape.Newborns{Backend: b, Program: binaries.mcpscope}.Run(t)
		})
	}
}
