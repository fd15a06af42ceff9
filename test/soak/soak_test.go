// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"path/filepath"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
)

func newSite(t *testing.T) *escape.Site { return escape.NewWorld(t, programs.Programs).Site }

// rootsSlice is where mcpscope makes groups for root's servers.
func rootsSlice(s *escape.Site) string { return filepath.Join(s.Dir, "mcp.slice", "0") }

// TestSoak: however thousands of servers end, and whoever is killed, each status is right and
// nothing adds up.
func TestSoak(t *testing.T) {
	if !escape.Full() {
		return // make test-soak
	}
	groups := func(s *escape.Site, _ string) string { return rootsSlice(s) }
	p := Plan{Backend: escape.Backend{Name: "cgroup", Site: newSite, Groups: groups},
		Program: programs.mcpscope, Probe: programs.probe, Cycles: Cycles(), Orphans: true}
	p.Run(t)
}

// TestSoakTree is a tenth of it where no cgroup is to be had. Nobody finds the members whose
// guards were both killed, so that is no end there.
func TestSoakTree(t *testing.T) {
	p := Plan{Backend: escape.Backend{Name: "tree", Site: newSite},
		Program: programs.mcpscope, Probe: programs.probe, Cycles: max(Cycles()/10, 3*lanes)}
	p.Run(t)
}
