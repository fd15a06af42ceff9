// SPDX-License-Identifier: Apache-2.0

package e2e

import (
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
	// The kill of a unit also kills its guards, so members that have left the unit survive.
	Exempt: func(m escape.Mode, e escape.End) string {
		if e.KillsGroup && m.MovesAway {
			return "moved out of the unit, which was killed as a whole"
		}
		return ""
	},
}

// tree: the guard's descendants are the group, to whatever cgroup they move.
var tree = escape.Backend{
	Name: "tree",
	Site: func(t *testing.T) *escape.Site { return newWorld(t).Site },
	Exempt: func(m escape.Mode, e escape.End) string {
		if e.KillsGroup && strings.HasPrefix(m.Name, "move-") {
			return "the guards were killed with the client's group, which it had left"
		}
		if e.KillsGuard && m.KeepsStopping && !strings.HasSuffix(m.Name, "-guard") {
			return "its launcher is stopped, its guard is dead, and a sweep does not find such a tree"
		}
		return ""
	},
}

// TestEscape holds the promise that nothing survives and nothing else dies, for each mode and each end, on
// all backends that need no systemd.
func TestEscape(t *testing.T) {
	t.Parallel()
	modes := binaries.Modes(t)
	backends := []escape.Backend{cgroup, delegated, tree}
	for _, b := range backends {
		table := escape.Table{Title: "escape", Program: binaries.mcpscope, Backend: b, Modes: modes, Ends: escape.Ends()}
		table.Fill(t)
	}
}

// TestEscapeIdle holds it for servers that are frozen when the end comes.
func TestEscapeIdle(t *testing.T) {
	t.Parallel()
	modes := escape.Named(t, binaries.Modes(t), escape.Resting...)
	backends := []escape.Backend{cgroup, delegated}
	for _, b := range backends {
		b.Idle = true
		table := escape.Table{Title: "escape, idle", Program: binaries.mcpscope, Backend: b, Modes: modes, Ends: escape.Ends()}
		table.Fill(t)
	}
}

// TestKilledWhileItStarts holds it for servers whose guards are killed at any moment of the start.
func TestKilledWhileItStarts(t *testing.T) {
	t.Parallel()
	for _, b := range []escape.Backend{cgroup, delegated, tree} {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			escape.Newborns{Backend: b, Program: binaries.mcpscope}.Run(t)
		})
	}
}
