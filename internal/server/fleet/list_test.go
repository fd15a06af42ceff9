// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"os"
	"testing"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/groups"
)

func TestMain(m *testing.M) { bed.Main(m) }

// Any user can make the locks of the host take half a second to read, and groups in many directories that look like
// orphans. A list reads the locks once.
func TestReadingsOfLocks(t *testing.T) {
	const directories = 4
	for range directories {
		g := lockedGroup(t, groups.Directory(t))
		defer g.Close() // this process has its lock
	}
	listed := 0
	read := groups.ReadingsOfLocks(t, func() {
		servers, err := List(group.CallingUser())
		if err != nil {
			t.Error(err)
		}
		listed = len(servers)
		for _, s := range servers {
			s.Close()
		}
	})
	if read != 1 || listed != directories {
		t.Errorf("a list of %d servers reads the locks %d times, want %d and 1", listed, read, directories)
	}
}

// lockedGroup is the group of a server without a guard.
func lockedGroup(t *testing.T, parent *cgroup.Group) *group.ControlGroup {
	t.Helper()
	launcher, err := group.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	config := protocol.NewConfig()
	config.Facts.Name = "locked"
	config.Facts.Policy = policy.Default()
	config.Facts.Launcher = launcher
	g := group.New(names.NewID(), config, names.Cgroup, false)
	if err := g.Make(parent, config); err != nil {
		t.Fatal(err)
	}
	return g
}
