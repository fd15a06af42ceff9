// SPDX-License-Identifier: Apache-2.0

package kills

import (
	"path/filepath"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

const lanes = 6

var (
	programs escape.Programs
	mcpscope string
)

func TestMain(m *testing.M) {
	bed.Parallel(lanes)
	bed.Main(m, escape.BuildTemporary(func(dir string) map[string][]string {
		programs = escape.ProgramsIn(dir)
		mcpscope = filepath.Join(dir, "mcpscope")
		return nil
	}))
}

func world(t *testing.T) *escape.Site { return escape.NewWorld(t, programs).Site }

// TestKillTable is for the backends that need no systemd: test/systemd has the others.
func TestKillTable(t *testing.T) {
	tables := []Table{
		{
			Kills: 40,
			Backend: escape.Backend{
				Name:   "cgroup",
				Site:   world,
				Groups: func(s *escape.Site, _ string) string { return filepath.Join(s.Dir, "mcp.slice", "0") },
			},
		},
		{
			Kills: 20,
			Backend: escape.Backend{
				Name: "delegated",
				Site: func(t *testing.T) *escape.Site {
					s := world(t)
					s.Delegates = true
					return s
				},
				Groups: func(_ *escape.Site, client string) string { return client },
			},
		},
		{
			Kills:      20,
			NeverPlain: true,
			Backend:    escape.Backend{Name: "tree", Site: world},
		},
	}
	for _, table := range tables {
		table.Name = table.Backend.Name
		table.Lanes = lanes
		table.Program = mcpscope
		t.Run(table.Name, table.Run)
	}
}
